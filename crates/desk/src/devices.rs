//! What programs are told of the devices, streams and programs here: mixers show it, and change
//! volumes by it. Beside server.rs. Knows names and states; changes nothing.

use std::ffi::{CStr, CString};

use pulseaudio::protocol::{
    ChannelMap, ClientInfo, DEFAULT_SINK, DEFAULT_SOURCE, FormatEncoding, FormatInfo, Prop, Props,
    ServerInfo, SinkFlags, SinkInfo, SinkInputInfo, SinkState, SourceFlags, SourceInfo,
    SourceOutputInfo, SourceState, Volume,
};

use crate::format::{self, MIX};
use crate::link::Micros;
use crate::record::Source;
use crate::server::{BLOCK_TIME, ClientId, Server};

/// The one device that plays.
pub(crate) const SINK: u32 = 0;
const SINK_NAME: &CStr = c"thinc.speakers";
const SINK_TITLE: &CStr = c"Speakers of the viewer";
pub(crate) const MONITOR: u32 = 0;
const MONITOR_NAME: &CStr = c"thinc.speakers.monitor";
const MONITOR_TITLE: &CStr = c"Everything that is played";
const MICROPHONE: u32 = 1;
const MICROPHONE_NAME: &CStr = c"thinc.microphone";
const MICROPHONE_TITLE: &CStr = c"Microphone of the viewer";
const DEFAULT_MONITOR: &CStr = c"@DEFAULT_MONITOR@";
const DRIVER: &CStr = c"thinc";

/// Of a property: titles of songs and paths of icons fit, pictures do not.
const PROPERTY_BYTES_MAX: usize = 2 << 10;
/// Of all properties of a stream or a program. Chromium has 0.6 KB.
const PROPERTIES_BYTES_MAX: usize = 8 << 10;

impl Source {
    pub(crate) fn index(self) -> u32 {
        match self {
            Source::Monitor => MONITOR,
            Source::Microphone => MICROPHONE,
        }
    }

    pub(crate) fn name(self) -> &'static CStr {
        match self {
            Source::Monitor => MONITOR_NAME,
            Source::Microphone => MICROPHONE_NAME,
        }
    }
}

pub(crate) fn sink_name() -> CString {
    SINK_NAME.into()
}

/// Whether this means the device that plays: by number, by name, or by saying nothing.
pub(crate) fn is_sink(index: Option<u32>, name: Option<&CStr>) -> bool {
    match (index, name) {
        (Some(index), _) => index == SINK,
        (None, None) => true,
        (None, Some(name)) => {
            name == SINK_NAME || name == DEFAULT_SINK || name == c"0" || name.is_empty()
        }
    }
}

/// The device that records. The microphone is meant if none is named: what is played must not
/// become what is recorded by default, or calls echo.
pub(crate) fn source(index: Option<u32>, name: Option<&CStr>) -> Option<Source> {
    match (index, name) {
        (Some(MONITOR), _) => Some(Source::Monitor),
        (Some(MICROPHONE), _) => Some(Source::Microphone),
        (Some(_), _) => None,
        (None, None) => Some(Source::Microphone),
        (None, Some(name)) => match name {
            _ if name == MONITOR_NAME || name == DEFAULT_MONITOR || name == c"0" => {
                Some(Source::Monitor)
            }
            _ if name == MICROPHONE_NAME || name == DEFAULT_SOURCE || name == c"1" => {
                Some(Source::Microphone)
            }
            _ => name.is_empty().then_some(Source::Microphone),
        },
    }
}

fn device_props(title: &CStr, class: &CStr, icon: &CStr) -> Props {
    let mut props = Props::new();
    props.set(Prop::DeviceDescription, title);
    props.set(Prop::DeviceClass, class);
    props.set(Prop::DeviceIconName, icon);
    props
}

impl Server {
    pub(crate) fn server_info(&self) -> ServerInfo {
        ServerInfo {
            // Programs look for the first word, and compare the version.
            server_name: Some(c"PulseAudio (on thinc)".into()),
            server_version: Some(c"15.0.0".into()),
            user_name: Some(self.user.clone()),
            host_name: Some(self.host.clone()),
            sample_spec: MIX,
            cookie: std::process::id(),
            default_sink_name: Some(SINK_NAME.into()),
            default_source_name: Some(MICROPHONE_NAME.into()),
            channel_map: ChannelMap::stereo(),
        }
    }

    /// Without ports: there is nothing to plug in, and mixers need none.
    pub(crate) fn sink_info(&self, now: Micros) -> SinkInfo {
        let is_running = self.playbacks.values().any(|(_, playback)| playback.is_playing());
        SinkInfo {
            index: SINK,
            name: SINK_NAME.into(),
            description: Some(SINK_TITLE.into()),
            props: device_props(SINK_TITLE, c"sound", c"audio-speakers"),
            state: if is_running { SinkState::Running } else { SinkState::Idle },
            sample_spec: MIX,
            channel_map: ChannelMap::stereo(),
            owner_module_index: None,
            cvolume: self.output.volume(),
            muted: self.output.is_muted(),
            monitor_source_index: Some(MONITOR),
            monitor_source_name: Some(MONITOR_NAME.into()),
            flags: SinkFlags::LATENCY | SinkFlags::DECIBEL_VOLUME,
            actual_latency: self.latency(now),
            configured_latency: BLOCK_TIME,
            driver: Some(DRIVER.into()),
            base_volume: Volume::NORM,
            volume_steps: Some(Volume::NORM.as_u32() + 1),
            card_index: None,
            ports: Vec::new(),
            active_port: 0,
            formats: vec![FormatInfo::new(FormatEncoding::Pcm)],
        }
    }

    pub(crate) fn source_info(&self, source: Source) -> SourceInfo {
        let is_running = self
            .records
            .values()
            .any(|(_, record)| record.source == source && !record.described.corked);
        let (title, class, icon, of, device) = match source {
            Source::Monitor => {
                (MONITOR_TITLE, c"monitor", c"audio-speakers", Some(SINK), &self.output)
            }
            Source::Microphone => {
                (MICROPHONE_TITLE, c"sound", c"audio-input-microphone", None, &self.input)
            }
        };
        SourceInfo {
            index: source.index(),
            name: source.name().into(),
            description: Some(title.into()),
            props: device_props(title, class, icon),
            state: if is_running { SourceState::Running } else { SourceState::Idle },
            sample_spec: MIX,
            channel_map: ChannelMap::stereo(),
            owner_module_index: None,
            cvolume: device.volume(),
            base_volume: Volume::NORM,
            volume_steps: Some(Volume::NORM.as_u32() + 1),
            muted: device.is_muted(),
            monitor_of_sink_index: of,
            monitor_of_sink_name: of.map(|_| SINK_NAME.into()),
            flags: SourceFlags::LATENCY | SourceFlags::DECIBEL_VOLUME,
            actual_latency: 0,
            configured_latency: BLOCK_TIME,
            driver: Some(DRIVER.into()),
            card_index: None,
            ports: Vec::new(),
            active_port: 0,
            formats: vec![FormatInfo::new(FormatEncoding::Pcm)],
        }
    }

    pub(crate) fn sink_input_info(&self, index: u32, now: Micros) -> Option<SinkInputInfo> {
        let (client, playback) = self.playbacks.get(&index)?;
        let described = &playback.described;
        let queued = playback.queue.write_offset() - playback.queue.read_offset();
        Some(SinkInputInfo {
            index,
            name: described.name.clone(),
            owner_module_index: None,
            client_index: Some(client.0),
            sink_index: SINK,
            sample_spec: described.spec,
            channel_map: described.map,
            cvolume: described.volume,
            buffer_latency: playback.duration(queued.max(0) as usize),
            sink_latency: self.latency(now),
            resample_method: Some(c"sinc".into()),
            driver: Some(DRIVER.into()),
            props: self.stream_props(*client, &described.props),
            muted: described.muted,
            corked: described.corked,
            has_volume: true,
            volume_writable: true,
            format: format::to_info(&described.spec),
        })
    }

    pub(crate) fn source_output_info(&self, index: u32) -> Option<SourceOutputInfo> {
        let (client, record) = self.records.get(&index)?;
        let described = &record.described;
        Some(SourceOutputInfo {
            index,
            name: described.name.clone(),
            owner_module_index: None,
            client_index: Some(client.0),
            source_index: record.source.index(),
            sample_spec: described.spec,
            channel_map: described.map,
            cvolume: described.volume,
            buffer_latency: record.duration(record.pending()),
            source_latency: 0,
            resample_method: Some(c"sinc".into()),
            driver: Some(DRIVER.into()),
            props: self.stream_props(*client, &described.props),
            muted: described.muted,
            corked: described.corked,
            has_volume: true,
            volume_writable: true,
            format: format::to_info(&described.spec),
        })
    }

    /// A stream's own properties, and those of its program: mixers take names and icons from it.
    fn stream_props(&self, client: ClientId, own: &Props) -> Props {
        let mut props =
            self.clients.get(&client).map(|client| client.props.clone()).unwrap_or_default();
        merge(&mut props, own, true);
        props
    }

    pub(crate) fn client_info(&self, id: ClientId) -> Option<ClientInfo> {
        let client = self.clients.get(&id).filter(|client| client.version > 0)?;
        Some(ClientInfo {
            index: id.0,
            name: text(client.props.get(Prop::ApplicationName)),
            owner_module_index: None,
            driver: Some(DRIVER.into()),
            props: client.props.clone(),
        })
    }
}

/// A property as text, or nothing.
pub(crate) fn text(value: Option<&[u8]>) -> CString {
    let value = value.and_then(|bytes| CStr::from_bytes_until_nul(bytes).ok());
    value.unwrap_or_default().into()
}

/// Adds properties.
pub(crate) fn merge(props: &mut Props, more: &Props, replace: bool) {
    for (key, value) in more.iter() {
        if replace || props.get_bytes(key).is_none() {
            props.set_bytes(key, value);
        }
    }
}

/// Drops properties that are too long, and what exceeds the limit together: lists of all streams
/// have to stay short enough to be sent. Keys are printable ASCII: libpulse ends the connection of
/// a mixer that is told of another one.
pub(crate) fn limit(props: &Props) -> Props {
    let (mut kept, mut bytes) = (Props::new(), 0);
    for (key, value) in props.iter() {
        let length = key.count_bytes() + value.len();
        let is_valid = key.to_bytes().iter().all(|byte| (b' '..0x7f).contains(byte));
        if is_valid && length <= PROPERTY_BYTES_MAX && bytes + length <= PROPERTIES_BYTES_MAX {
            bytes += length;
            kept.set_bytes(key, value);
        }
    }
    kept
}

/// A name of a stream within the same limit.
pub(crate) fn limit_name(name: CString) -> CString {
    let mut bytes = name.into_bytes();
    bytes.truncate(PROPERTY_BYTES_MAX);
    CString::new(bytes).expect("part of a name has no zero either")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_found_by_number_by_name_and_by_default() {
        assert!(is_sink(None, None) && is_sink(Some(0), None) && is_sink(None, Some(SINK_NAME)));
        assert!(is_sink(None, Some(c"@DEFAULT_SINK@")));
        assert!(!is_sink(Some(1), None) && !is_sink(None, Some(c"other")));
        assert_eq!(source(None, None), Some(Source::Microphone), "never what is played");
        assert_eq!(source(None, Some(c"@DEFAULT_SOURCE@")), Some(Source::Microphone));
        assert_eq!(source(None, Some(c"@DEFAULT_MONITOR@")), Some(Source::Monitor));
        for known in [Source::Monitor, Source::Microphone] {
            assert_eq!(source(Some(known.index()), None), Some(known));
            assert_eq!(source(None, Some(known.name())), Some(known));
        }
        assert_eq!((source(Some(2), None), source(None, Some(c"other"))), (None, None));
    }

    #[test]
    fn properties_have_limits() {
        let mut props = Props::new();
        props.set_bytes(c"media.icon", vec![0; PROPERTY_BYTES_MAX]);
        for key in [c"a", c"b", c"c", c"d", c"e", c"f"] {
            props.set_bytes(key, vec![0; PROPERTY_BYTES_MAX - 1]);
        }
        props.set_bytes(c"\u{e4}", b"x");
        let keys: Vec<_> = limit(&props).iter().map(|(key, _)| key.to_owned()).collect();
        assert_eq!(keys, [c"a", c"b", c"c", c"d"].map(Into::into));
        assert_eq!(limit_name(CString::new(vec![b'x'; 5000]).unwrap()).count_bytes(), 2048);
        assert_eq!(text(Some(b"name\0rest")).as_c_str(), c"name");
        assert_eq!(text(Some(b"no end")).as_c_str(), c"");
    }
}
