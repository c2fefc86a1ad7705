/* Beside x264.rs: the calls of libx264 that a stream needs, on a structure whose layout only x264's
 * header knows. It owns one encoder and copies nothing: a frame is read during its call, and the
 * output stays valid until the next call.
 * Knows x264; never streams or viewers. */
#include <stdint.h>
#include <stdlib.h>
#include <x264.h>

struct thinc_x264 {
	x264_t *encoder;
	x264_param_t param;
	int64_t frames;
	/* Parameter sets, which precede each keyframe. */
	uint8_t *headers;
	int headers_bytes;
};

static void set_rate(x264_param_t *param, int kbits_per_second, int buffer_kbits)
{
	param->rc.i_bitrate = kbits_per_second;
	param->rc.i_vbv_max_bitrate = kbits_per_second;
	param->rc.i_vbv_buffer_size = buffer_kbits;
}

/* Keeps both parameter sets, which are first; the SEI with x264's options is dropped. */
static int keep_headers(struct thinc_x264 *stream)
{
	x264_nal_t *nals;
	int count;
	if (x264_encoder_headers(stream->encoder, &nals, &count) < 0 || count < 2 ||
	    nals[0].i_type != NAL_SPS || nals[1].i_type != NAL_PPS)
		return 0;
	stream->headers_bytes = nals[0].i_payload + nals[1].i_payload;
	stream->headers = malloc(stream->headers_bytes);
	if (!stream->headers)
		return 0;
	for (int i = 0; i < stream->headers_bytes; i++)
		stream->headers[i] = nals[0].p_payload[i];
	return 1;
}

void thinc_x264_close(struct thinc_x264 *stream)
{
	if (stream->encoder)
		x264_encoder_close(stream->encoder);
	x264_param_cleanup(&stream->param);
	free(stream->headers);
	free(stream);
}

/* NULL if x264 fails. */
struct thinc_x264 *thinc_x264_open(int width, int height, int frames_per_second,
				   int kbits_per_second, int buffer_kbits)
{
	struct thinc_x264 *stream = calloc(1, sizeof *stream);
	if (!stream)
		return NULL;
	x264_param_t *param = &stream->param;
	if (x264_param_default_preset(param, "superfast", "zerolatency") < 0)
		goto failed;
	param->i_log_level = X264_LOG_NONE;
	param->i_threads = 1;
	param->b_sliced_threads = 0;
	param->i_width = width;
	param->i_height = height;
	param->i_csp = X264_CSP_I420;
	param->i_fps_num = frames_per_second;
	param->i_fps_den = 1;
	param->b_vfr_input = 0;
	/* Keyframes only on request; their parameter sets are added by the caller. */
	param->i_keyint_max = X264_KEYINT_MAX_INFINITE;
	param->i_scenecut_threshold = 0;
	param->b_repeat_headers = 0;
	param->b_annexb = 1;
	param->rc.i_rc_method = X264_RC_ABR;
	set_rate(param, kbits_per_second, buffer_kbits);
	/* BT.601 of limited range. */
	param->vui.b_fullrange = 0;
	param->vui.i_colorprim = 6;
	param->vui.i_transfer = 6;
	param->vui.i_colmatrix = 6;
	if (x264_param_apply_profile(param, "baseline") < 0)
		goto failed;
	stream->encoder = x264_encoder_open(param);
	if (!stream->encoder || !keep_headers(stream))
		goto failed;
	return stream;
failed:
	thinc_x264_close(stream);
	return NULL;
}

/* Negative if x264 rejects the rate. */
int thinc_x264_set_rate(struct thinc_x264 *stream, int kbits_per_second, int buffer_kbits)
{
	set_rate(&stream->param, kbits_per_second, buffer_kbits);
	return x264_encoder_reconfig(stream->encoder, &stream->param);
}

/* Length of the encoded frame at `*data`, valid until the next call; 0 for none, negative for an
 * error. `*keyframe`: whether one is requested, then whether it is one; its parameter sets are at
 * `*headers`. */
int thinc_x264_encode(struct thinc_x264 *stream, const uint8_t *const planes[3],
		      const int strides[3], int *keyframe, const uint8_t **headers,
		      int *headers_bytes, const uint8_t **data)
{
	x264_picture_t in, out;
	x264_nal_t *nals;
	int count;
	x264_picture_init(&in);
	in.i_type = *keyframe ? X264_TYPE_IDR : X264_TYPE_AUTO;
	in.i_pts = stream->frames++;
	in.img.i_csp = X264_CSP_I420;
	in.img.i_plane = 3;
	for (int i = 0; i < 3; i++) {
		/* x264 only reads them; its type lacks const. */
		in.img.plane[i] = (uint8_t *)planes[i];
		in.img.i_stride[i] = strides[i];
	}
	int bytes = x264_encoder_encode(stream->encoder, &nals, &count, &in, &out);
	if (bytes <= 0 || count == 0)
		return bytes < 0 ? bytes : 0;
	*keyframe = out.i_type == X264_TYPE_IDR;
	*headers = stream->headers;
	*headers_bytes = stream->headers_bytes;
	*data = nals[0].p_payload;
	return bytes;
}
