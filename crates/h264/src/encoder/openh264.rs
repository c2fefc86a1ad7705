//! Beside encoder.rs: OpenH264, restricted to what the protocol allows.
//! Knows its options, and which of them can change during encoding.

use openh264::encoder::{
    BitRate, Complexity, Encoder, EncoderConfig, FrameRate, FrameType, IntraFramePeriod, Profile,
    QpRange, RateControlMode, UsageType, VuiConfig,
};
use openh264::formats::YUVSlices;
use openh264::{OpenH264API, Timestamp};
use openh264_sys2::{
    ENCODER_OPTION, ENCODER_OPTION_BITRATE, ENCODER_OPTION_FRAME_RATE, ENCODER_OPTION_MAX_BITRATE,
    ENCODER_OPTION_TRACE_LEVEL, SBitrateInfo, SPATIAL_LAYER_0, SPATIAL_LAYER_ALL, WELS_LOG_QUIET,
};
use thinc_video::PlanesRef;

use super::{BITS_PER_SECOND_MAX, Codes, EncodeError, Encoded, EncoderSettings};

/// 640 by 480: up to this size medium complexity is worth a quarter more instructions, for 0.13 dB;
/// at 1280 by 720 it gains 0.04 dB. High complexity gains nothing more at either size.
const MEDIUM_AREA_MAX: u64 = 640 * 480;

/// One stream's encoder.
pub(super) struct OpenH264 {
    library: Encoder,
    /// Current settings; changes are applied before the next frame.
    applied: Option<EncoderSettings>,
}

impl OpenH264 {
    pub(super) fn new(settings: &EncoderSettings) -> Result<OpenH264, EncodeError> {
        let is_small = settings.size.area() <= MEDIUM_AREA_MAX;
        let config = EncoderConfig::new()
            .profile(Profile::Baseline)
            .usage_type(UsageType::CameraVideoRealTime)
            .complexity(if is_small { Complexity::Medium } else { Complexity::Low })
            .rate_control_mode(RateControlMode::Bitrate)
            .bitrate(BitRate::from_bps(settings.bits_per_second as u32))
            .max_frame_rate(FrameRate::from_hz(settings.frames_per_second as f32))
            .qp(QpRange::new(10, 51))
            // The session drops frames before they are encoded, so the encoder must not.
            .skip_frames(false)
            // Keyframes only on request.
            .scene_change_detect(false)
            .intra_frame_period(IntraFramePeriod::from_num_frames(0))
            .long_term_reference(false)
            .adaptive_quantization(false)
            .background_detection(false)
            .num_threads(1)
            .vui(VuiConfig::bt601());
        let mut library =
            Encoder::with_api_config(OpenH264API::from_source(), config).map_err(refused)?;
        // Otherwise it prints warnings about these settings to standard error.
        set(&mut library, ENCODER_OPTION_TRACE_LEVEL, &mut WELS_LOG_QUIET.clone())?;
        Ok(OpenH264 { library, applied: None })
    }
}

impl Codes for OpenH264 {
    fn encode(
        &mut self,
        frame: &PlanesRef<'_>,
        settings: &EncoderSettings,
        keyframe: bool,
        out: &mut Vec<u8>,
    ) -> Result<Encoded, EncodeError> {
        if self.applied.is_some() {
            if self.applied != Some(*settings) {
                apply(&mut self.library, settings)?;
            }
            if keyframe {
                self.library.force_intra_frame();
            }
        }
        let [luma, blue, red] = [0, 1, 2].map(|plane| frame.plane(plane));
        let size = (frame.size().width as usize, frame.size().height as usize);
        let source = YUVSlices::new((luma.0, blue.0, red.0), size, (luma.1, blue.1, red.1));
        let encoded = self.library.encode_at(&source, Timestamp::ZERO).map_err(refused)?;
        let keyframe = match encoded.frame_type() {
            FrameType::IDR => true,
            FrameType::P | FrameType::I => false,
            FrameType::Skip | FrameType::Invalid | FrameType::IPMixed => {
                return Err(EncodeError::NoFrame);
            }
        };
        encoded.write_vec(out);
        if self.applied.is_none() {
            apply(&mut self.library, settings)?;
        }
        self.applied = Some(*settings);
        Ok(Encoded { keyframe })
    }
}

fn refused(error: openh264::Error) -> EncodeError {
    EncodeError::Library(format!("OpenH264: {error}"))
}

/// Changes the rates of an OpenH264 that has encoded a frame.
fn apply(library: &mut Encoder, settings: &EncoderSettings) -> Result<(), EncodeError> {
    // It rejects a rate above its maximum bit rate, which is the initial rate, so that is raised
    // first; it only limits later rates.
    let mut highest =
        SBitrateInfo { iLayer: SPATIAL_LAYER_0, iBitrate: BITS_PER_SECOND_MAX as i32 };
    let mut bits =
        SBitrateInfo { iLayer: SPATIAL_LAYER_ALL, iBitrate: settings.bits_per_second as i32 };
    let mut frames = settings.frames_per_second as f32;
    set(library, ENCODER_OPTION_MAX_BITRATE, &mut highest)?;
    set(library, ENCODER_OPTION_FRAME_RATE, &mut frames)?;
    set(library, ENCODER_OPTION_BITRATE, &mut bits)
}

/// The options used here, and the type of each.
trait OptionValue {}
impl OptionValue for SBitrateInfo {}
impl OptionValue for f32 {}
impl OptionValue for i32 {}

#[expect(
    unsafe_code,
    reason = "the crate around it has no safe call for options that change while it encodes"
)]
fn set<T: OptionValue>(
    library: &mut Encoder,
    option: ENCODER_OPTION,
    value: &mut T,
) -> Result<(), EncodeError> {
    // SAFETY: OpenH264 reads a value of the type that the option has (codec_app_def.h: SBitrateInfo
    // for both rates, float for the frame rate, int for the trace level) and keeps no pointer to
    // it; rates are set after its first frame, which initializes it, and `&mut` excludes other
    // threads. The `openh264` crate relies on none of these options.
    let status = unsafe { library.raw_api().set_option(option, std::ptr::from_mut(value).cast()) };
    if status == 0 {
        Ok(())
    } else {
        Err(EncodeError::Library(format!("OpenH264: option {option}: status {status}")))
    }
}
