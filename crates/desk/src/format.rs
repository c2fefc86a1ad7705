//! Programs' samples as two channels of f32, and back. Between queue.rs and the mixer. Knows sample
//! formats, channel maps and volumes; no streams.

use pulseaudio::protocol::{
    ChannelMap, ChannelPosition, ChannelVolume, FormatEncoding, FormatInfo, Prop, SampleFormat,
    SampleSpec, Volume,
};

use crate::link::{CHANNELS, RATE};

/// PulseAudio's limit.
pub(crate) const CHANNELS_MAX: u8 = 32;
/// What is resampled. Slower is only asked for level meters.
pub(crate) const RATES: std::ops::RangeInclusive<u32> = 4_000..=384_000;
/// Largest sample of a program: 18 dB over full scale. More is noise, or hostile.
const SAMPLE_MAX: f32 = 8.0;

/// A sample of left and of right.
pub(crate) type Stereo = [f32; CHANNELS];

/// What the mixer has, and what its devices say of themselves.
pub(crate) const MIX: SampleSpec =
    SampleSpec { format: SampleFormat::Float32Le, channels: CHANNELS as u8, sample_rate: RATE };

/// Why a stream cannot have a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unsupported;

/// Checks a format, so that what follows can rely on it.
pub(crate) fn check(spec: &SampleSpec, map: &ChannelMap) -> Result<(), Unsupported> {
    let is_known = spec.format != SampleFormat::Invalid
        && (1..=CHANNELS_MAX).contains(&spec.channels)
        && map.num_channels() == spec.channels;
    if is_known { Ok(()) } else { Err(Unsupported) }
}

/// Bytes of a sample of all channels.
pub(crate) fn frame_bytes(spec: &SampleSpec) -> usize {
    spec.format.bytes_per_sample() * usize::from(spec.channels)
}

/// Bytes of a second.
pub(crate) fn bytes_per_s(spec: &SampleSpec) -> usize {
    frame_bytes(spec) * spec.sample_rate as usize
}

/// The byte of which silence consists.
pub(crate) fn silence_byte(format: SampleFormat) -> u8 {
    match format {
        SampleFormat::U8 => 0x80,
        SampleFormat::Alaw => 0xd5,
        SampleFormat::Ulaw => 0xff,
        _ => 0,
    }
}

/// How much of each channel goes to the left and to the right, with the stream's volume. The sum
/// for a side is at most 1 before the volume, so that a downmix of many channels does not clip.
pub(crate) fn gains(map: &ChannelMap, volume: &ChannelVolume) -> Vec<Stereo> {
    let mut gains: Vec<Stereo> = map.into_iter().enumerate().map(side).collect();
    for side in 0..CHANNELS {
        let sum: f32 = gains.iter().map(|gain| gain[side]).sum();
        if sum > 1.0 {
            gains.iter_mut().for_each(|gain| gain[side] /= sum);
        }
    }
    let volumes = volume.channels();
    for (channel, gain) in gains.iter_mut().enumerate() {
        // A volume of one channel is that of all.
        let volume = volumes.get(channel).or(volumes.first()).map_or(1.0, |v| v.to_linear());
        gain.iter_mut().for_each(|side| *side *= volume.min(SAMPLE_MAX));
    }
    gains
}

/// A volume for so many channels: programs must not be told of another number than the format has.
pub(crate) fn fit(volume: &ChannelVolume, channels: u8) -> ChannelVolume {
    let given = volume.channels();
    if given.len() == usize::from(channels) {
        return *volume;
    }
    let mut fitted = ChannelVolume::empty();
    let loudest = given.iter().max_by_key(|volume| volume.as_u32()).copied();
    (0..channels).for_each(|_| fitted.push(loudest.unwrap_or(Volume::NORM)));
    fitted
}

/// -3 dB: half of the power goes to each side.
const HALF: f32 = std::f32::consts::FRAC_1_SQRT_2;

fn side((index, position): (usize, ChannelPosition)) -> Stereo {
    use ChannelPosition as P;
    match position {
        P::Mono => [1.0, 1.0],
        P::FrontLeft => [1.0, 0.0],
        P::FrontRight => [0.0, 1.0],
        P::FrontLeftOfCenter | P::RearLeft | P::SideLeft | P::TopFrontLeft | P::TopRearLeft => {
            [HALF, 0.0]
        }
        P::FrontRightOfCenter
        | P::RearRight
        | P::SideRight
        | P::TopFrontRight
        | P::TopRearRight => [0.0, HALF],
        P::FrontCenter | P::RearCenter | P::TopCenter | P::TopFrontCenter | P::TopRearCenter => {
            [HALF, HALF]
        }
        P::Lfe => [0.5, 0.5],
        // Channels without a place: alternately.
        _ if index % 2 == 0 => [1.0, 0.0],
        _ => [0.0, 1.0],
    }
}

/// Appends the frames in `bytes`, mixed to two channels.
pub(crate) fn to_stereo(format: SampleFormat, gains: &[Stereo], bytes: &[u8], out: &mut Vec<f32>) {
    match format {
        SampleFormat::Invalid => {}
        SampleFormat::U8 => mix(bytes, gains, out, |[a]| (f32::from(a) - 128.0) / 128.0),
        SampleFormat::Alaw => mix(bytes, gains, out, |[a]| f32::from(alaw(a)) / 32_768.0),
        SampleFormat::Ulaw => mix(bytes, gains, out, |[a]| f32::from(ulaw(a)) / 32_768.0),
        SampleFormat::S16Le => mix(bytes, gains, out, |b| s16(i16::from_le_bytes(b))),
        SampleFormat::S16Be => mix(bytes, gains, out, |b| s16(i16::from_be_bytes(b))),
        SampleFormat::Float32Le => mix(bytes, gains, out, |b| float(f32::from_le_bytes(b))),
        SampleFormat::Float32Be => mix(bytes, gains, out, |b| float(f32::from_be_bytes(b))),
        SampleFormat::S32Le => mix(bytes, gains, out, |b| s32(i32::from_le_bytes(b))),
        SampleFormat::S32Be => mix(bytes, gains, out, |b| s32(i32::from_be_bytes(b))),
        // 24 bits: the upper ones of 32.
        SampleFormat::S24Le => {
            mix(bytes, gains, out, |[a, b, c]| s32(i32::from_le_bytes([0, a, b, c])))
        }
        SampleFormat::S24Be => {
            mix(bytes, gains, out, |[a, b, c]| s32(i32::from_be_bytes([a, b, c, 0])))
        }
        // The lower 24 of 32.
        SampleFormat::S24In32Le => mix(bytes, gains, out, |b| s32(i32::from_le_bytes(b) << 8)),
        SampleFormat::S24In32Be => mix(bytes, gains, out, |b| s32(i32::from_be_bytes(b) << 8)),
    }
}

fn mix<const N: usize>(
    bytes: &[u8],
    gains: &[Stereo],
    out: &mut Vec<f32>,
    value: impl Fn([u8; N]) -> f32,
) {
    for frame in bytes.chunks_exact(N * gains.len()) {
        let mut sum = [0.0; CHANNELS];
        for (&sample, gain) in frame.as_chunks::<N>().0.iter().zip(gains) {
            let value = value(sample);
            sum[0] += value * gain[0];
            sum[1] += value * gain[1];
        }
        out.extend(sum);
    }
}

fn s16(value: i16) -> f32 {
    f32::from(value) / 32_768.0
}

fn s32(value: i32) -> f32 {
    value as f32 / 2_147_483_648.0
}

fn float(value: f32) -> f32 {
    if value.is_nan() { 0.0 } else { value.clamp(-SAMPLE_MAX, SAMPLE_MAX) }
}

/// ITU-T G.711.
fn alaw(byte: u8) -> i16 {
    let byte = byte ^ 0x55;
    let (segment, step) = ((byte >> 4) & 7, i16::from(byte & 15) << 4);
    let value = match segment {
        0 => step + 8,
        _ => (step + 0x108) << (segment - 1),
    };
    if byte & 0x80 == 0 { -value } else { value }
}

/// ITU-T G.711.
fn ulaw(byte: u8) -> i16 {
    let byte = !byte;
    let value = (((i16::from(byte & 15) << 3) + 0x84) << ((byte >> 4) & 7)) - 0x84;
    if byte & 0x80 == 0 { value } else { -value }
}

/// Appends stereo samples in a program's format; more than two channels get silence beyond left
/// and right, one gets the mean of both. Not for `Alaw` and `Ulaw`, which nobody records: they are
/// silent.
pub(crate) fn from_stereo(spec: &SampleSpec, volume: &[f32], samples: &[f32], out: &mut Vec<u8>) {
    let channels = usize::from(spec.channels);
    for frame in samples.as_chunks::<CHANNELS>().0 {
        for channel in 0..channels {
            let value = match channel {
                _ if channels == 1 => (frame[0] + frame[1]) / 2.0,
                0 | 1 => frame[channel],
                _ => 0.0,
            };
            let gain = volume.get(channel).or(volume.first()).copied().unwrap_or(1.0);
            push(spec.format, (value * gain).clamp(-SAMPLE_MAX, SAMPLE_MAX), out);
        }
    }
}

fn push(format: SampleFormat, value: f32, out: &mut Vec<u8>) {
    // The conversions saturate.
    let s16 = || (value * 32_768.0).round() as i16;
    let s32 = || (f64::from(value) * 2_147_483_648.0).round() as i32;
    match format {
        SampleFormat::Invalid => {}
        SampleFormat::U8 => out.push((value * 128.0 + 128.0).round() as u8),
        SampleFormat::Alaw | SampleFormat::Ulaw => out.push(silence_byte(format)),
        SampleFormat::S16Le => out.extend(s16().to_le_bytes()),
        SampleFormat::S16Be => out.extend(s16().to_be_bytes()),
        SampleFormat::Float32Le => out.extend(value.to_le_bytes()),
        SampleFormat::Float32Be => out.extend(value.to_be_bytes()),
        SampleFormat::S32Le => out.extend(s32().to_le_bytes()),
        SampleFormat::S32Be => out.extend(s32().to_be_bytes()),
        SampleFormat::S24Le => out.extend(&s32().to_le_bytes()[1..]),
        SampleFormat::S24Be => out.extend(&s32().to_be_bytes()[..3]),
        SampleFormat::S24In32Le => out.extend((s32() >> 8).to_le_bytes()),
        SampleFormat::S24In32Be => out.extend((s32() >> 8).to_be_bytes()),
    }
}

/// The usual places of so many channels.
pub(crate) fn default_map(channels: u8) -> ChannelMap {
    use ChannelPosition as P;
    const USUAL: [P; 8] = [
        P::FrontLeft,
        P::FrontRight,
        P::RearLeft,
        P::RearRight,
        P::FrontCenter,
        P::Lfe,
        P::SideLeft,
        P::SideRight,
    ];
    match channels {
        1 => ChannelMap::mono(),
        _ => ChannelMap::new(
            (0..usize::from(channels.min(CHANNELS_MAX)))
                .map(|channel| USUAL.get(channel).copied().unwrap_or(P::Aux0)),
        ),
    }
}

/// The format that a program offers by properties instead of a sample specification, as GStreamer
/// does: the first that is plain PCM. What it leaves open is as in the mix.
pub(crate) fn from_offer(formats: &[FormatInfo]) -> Option<(SampleSpec, ChannelMap)> {
    let offer = formats.iter().find(|format| format.encoding == FormatEncoding::Pcm)?;
    let text = |prop| {
        let bytes = offer.props.get(prop)?.strip_suffix(b"\0")?;
        std::str::from_utf8(bytes).ok()
    };
    let number = |prop, or: u32| text(prop).map_or(Some(or), first_number);
    let format = match text(Prop::FormatSampleFormat) {
        Some(value) => sample_format(first_text(value)?)?,
        None => MIX.format,
    };
    let sample_rate = number(Prop::FormatRate, RATE)?;
    let channels = u8::try_from(number(Prop::FormatChannels, CHANNELS as u32)?).ok()?;
    Some((SampleSpec { format, channels, sample_rate }, default_map(channels)))
}

/// The number in a JSON value that is one, or a list, or a range of them.
fn first_number(value: &str) -> Option<u32> {
    let digits = value.find(|c: char| c.is_ascii_digit())?;
    let value = &value[digits..];
    let end = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
    value[..end].parse().ok()
}

/// The first text in a JSON value that is one or a list of them; names of formats have no escapes.
fn first_text(value: &str) -> Option<&str> {
    value.split('"').nth(1)
}

fn sample_format(name: &str) -> Option<SampleFormat> {
    NAMES.iter().find(|(_, known)| *known == name).map(|(format, _)| *format)
}

const NAMES: [(SampleFormat, &str); 13] = [
    (SampleFormat::U8, "u8"),
    (SampleFormat::Alaw, "aLaw"),
    (SampleFormat::Ulaw, "uLaw"),
    (SampleFormat::S16Le, "s16le"),
    (SampleFormat::S16Be, "s16be"),
    (SampleFormat::Float32Le, "float32le"),
    (SampleFormat::Float32Be, "float32be"),
    (SampleFormat::S32Le, "s32le"),
    (SampleFormat::S32Be, "s32be"),
    (SampleFormat::S24Le, "s24le"),
    (SampleFormat::S24Be, "s24be"),
    (SampleFormat::S24In32Le, "s24-32le"),
    (SampleFormat::S24In32Be, "s24-32be"),
];

/// A format as programs are told of it.
pub(crate) fn to_info(spec: &SampleSpec) -> FormatInfo {
    let mut info = FormatInfo::new(FormatEncoding::Pcm);
    let name = NAMES.iter().find(|(format, _)| *format == spec.format).map_or("", |(_, name)| name);
    let mut set = |prop: Prop, value: String| {
        info.props.set_bytes(prop.to_c_str(), [value.as_bytes(), b"\0"].concat());
    };
    set(Prop::FormatSampleFormat, format!("\"{name}\""));
    set(Prop::FormatRate, spec.sample_rate.to_string());
    set(Prop::FormatChannels, spec.channels.to_string());
    info
}

#[cfg(test)]
mod tests {
    use pulseaudio::protocol::Props;

    use super::*;

    fn stereo(format: SampleFormat, channels: u8, bytes: &[u8]) -> Vec<f32> {
        let map = default_map(channels);
        let mut out = Vec::new();
        to_stereo(format, &gains(&map, &ChannelVolume::norm(channels)), bytes, &mut out);
        out
    }

    #[test]
    fn each_format_is_read_and_written_alike() {
        let samples = [0.5, -0.25, 0.0, -1.0];
        for (format, name) in NAMES {
            if matches!(format, SampleFormat::Alaw | SampleFormat::Ulaw) {
                continue;
            }
            let spec = SampleSpec { format, channels: 2, sample_rate: RATE };
            let mut bytes = Vec::new();
            from_stereo(&spec, &[1.0], &samples, &mut bytes);
            assert_eq!(bytes.len(), 2 * frame_bytes(&spec), "{name}");
            assert_eq!(stereo(format, 2, &bytes), samples, "{name}");
            let silence = vec![silence_byte(format); frame_bytes(&spec)];
            assert_eq!(stereo(format, 2, &silence), [0.0, 0.0], "{name}");
        }
    }

    #[test]
    fn samples_of_16_bits_come_through_exactly() {
        let bytes: Vec<u8> = (i16::MIN..=i16::MAX).flat_map(i16::to_le_bytes).collect();
        let samples = stereo(SampleFormat::S16Le, 2, &bytes);
        let spec = SampleSpec { format: SampleFormat::S16Le, channels: 2, sample_rate: RATE };
        let mut again = Vec::new();
        from_stereo(&spec, &[1.0], &samples, &mut again);
        assert_eq!(again, bytes);
    }

    #[test]
    fn telephone_formats_are_those_of_g711() {
        for (byte, value) in [(0xd5, 8), (0x55, -8), (0xaa, 32_256), (0x2a, -32_256), (0x80, 5504)]
        {
            assert_eq!(alaw(byte), value, "A-law {byte:x}");
        }
        for (byte, value) in [(0xff, 0), (0x7f, 0), (0x80, 32_124), (0x00, -32_124), (0xef, 132)] {
            assert_eq!(ulaw(byte), value, "µ-law {byte:x}");
        }
    }

    #[test]
    fn channels_go_where_they_belong_and_do_not_add_up_to_more_than_full_scale() {
        let le = |values: &[i16]| -> Vec<u8> {
            values.iter().flat_map(|value| value.to_le_bytes()).collect()
        };
        assert_eq!(stereo(SampleFormat::S16Le, 1, &le(&[16_384])), [0.5, 0.5]);
        let full = stereo(SampleFormat::S16Le, 6, &le(&[i16::MAX; 6]));
        assert!(full.iter().all(|side| (0.99..=1.0).contains(side)), "{full:?}");
        let left = stereo(SampleFormat::S16Le, 6, &le(&[i16::MAX, 0, 0, 0, 0, 0]));
        assert!(left[0] > 0.3 && left[1] == 0.0, "{left:?}");
    }

    #[test]
    fn a_volume_is_per_channel_and_cubic_as_in_pulseaudio() {
        let mut volume = ChannelVolume::empty();
        volume.push(Volume::from_u32_clamped(0x8000));
        volume.push(Volume::MUTED);
        assert_eq!(gains(&ChannelMap::stereo(), &volume), [[0.125, 0.0], [0.0, 0.0]]);
        let loud = gains(&ChannelMap::mono(), &{
            let mut volume = ChannelVolume::empty();
            volume.push(Volume::from_u32_clamped(u32::MAX));
            volume
        });
        assert_eq!(loud, [[SAMPLE_MAX, SAMPLE_MAX]]);
        assert_eq!(fit(&volume, 2), volume);
        assert_eq!(fit(&ChannelVolume::norm(1), 3).channels(), [Volume::NORM; 3]);
        assert_eq!(fit(&volume, 1).channels(), [Volume::from_u32_clamped(0x8000)]);
    }

    #[test]
    fn what_is_no_number_is_silent() {
        let bytes: Vec<u8> =
            [f32::NAN, f32::INFINITY].iter().flat_map(|value| value.to_le_bytes()).collect();
        assert_eq!(stereo(SampleFormat::Float32Le, 2, &bytes), [0.0, SAMPLE_MAX]);
    }

    #[test]
    fn offers_are_read_as_gstreamer_writes_them() {
        let mut props = Props::new();
        let mut offer = |values: &[(Prop, &str)]| {
            props = Props::new();
            for (prop, value) in values {
                props.set_bytes(prop.to_c_str(), [value.as_bytes(), b"\0"].concat());
            }
            let pcm = FormatInfo { encoding: FormatEncoding::Pcm, props: props.clone() };
            from_offer(&[FormatInfo::new(FormatEncoding::Ac3Iec61937), pcm])
        };
        let (spec, map) = offer(&[
            (Prop::FormatSampleFormat, "\"s16le\""),
            (Prop::FormatRate, "44100"),
            (Prop::FormatChannels, "1"),
        ])
        .unwrap();
        assert_eq!(
            (spec.format, spec.sample_rate, spec.channels),
            (SampleFormat::S16Le, 44_100, 1)
        );
        assert_eq!(map, ChannelMap::mono());
        let (spec, _) = offer(&[
            (Prop::FormatSampleFormat, "[\"float32be\", \"s16le\"]"),
            (Prop::FormatRate, "{\"min\": 8000, \"max\": 96000}"),
        ])
        .unwrap();
        assert_eq!(
            (spec.format, spec.sample_rate, spec.channels),
            (SampleFormat::Float32Be, 8000, 2)
        );
        assert_eq!(offer(&[]).unwrap().0, MIX);
        assert!(offer(&[(Prop::FormatSampleFormat, "\"s17le\"")]).is_none());
        assert!(offer(&[(Prop::FormatChannels, "999")]).is_none());
        assert!(from_offer(&[FormatInfo::new(FormatEncoding::Any)]).is_none());
        let info = to_info(&MIX);
        assert_eq!(from_offer(&[info]).unwrap().0, MIX);
    }
}
