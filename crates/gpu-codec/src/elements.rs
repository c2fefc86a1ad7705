//! Beside main.rs: which element of GStreamer codes. Only the plugins named here are loaded, from
//! the system's folder, without GStreamer's scan of all that is installed. Knows elements and GPUs'
//! nodes; never frames.

use std::path::PathBuf;

use gstreamer as gst;
use gstreamer::glib::{ParamSpecInt, ParamSpecUInt};
use gstreamer::prelude::*;
use thinc_gpu_video::Purpose;
use thinc_protocol::video::{FrameCodec, SampleLayout};

/// What any pipeline here has: sources and sinks of a program, and filters.
const NEEDED: [&str; 2] = ["coreelements", "app"];
/// Parsers, and what codes on a GPU: VA-API for Intel's and AMD's, NVENC and NVDEC for NVIDIA's.
const CODING: [&str; 3] = ["videoparsersbad", "va", "nvcodec"];
/// FFmpeg's decoders, in the processor: few graphics processors decode H.264 with chroma of full
/// resolution, and no other library does.
const FULL_COLOUR: &str = "libav";
/// Names a folder of plugins besides the system's.
const FOLDER: &str = "GST_PLUGIN_PATH";

/// What to choose from.
#[derive(Debug, Default)]
pub(crate) struct Choice {
    /// Only elements that use this GPU.
    pub(crate) node: Option<PathBuf>,
    /// No element of these names.
    pub(crate) without: Vec<String>,
    /// Only these, each as PLUGIN/ELEMENT, in this order, whether they use a GPU or not.
    pub(crate) only: Option<Vec<String>>,
}

/// Why nothing codes.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoElement {
    #[error("GStreamer does not start: {0}")]
    Initialization(gst::glib::Error),
    #[error("GStreamer's plugin {0} cannot be loaded: {1}")]
    Plugin(&'static str, gst::glib::Error),
    #[error("GStreamer has no {0} of {1} for a GPU here (plugins va and nvcodec)")]
    None(&'static str, &'static str),
    #[error("GStreamer has no decoder of H.264 4:4:4 here (plugin {FULL_COLOUR})")]
    NoFullColour,
    #[error("{}", .0.join("; "))]
    Unusable(Vec<String>),
}

/// An element that can be used.
pub(crate) struct Element {
    factory: gst::ElementFactory,
    codec: FrameCodec,
}

impl Element {
    /// What it encodes or decodes.
    pub(crate) fn codec(&self) -> FrameCodec {
        self.codec
    }

    /// A new one, for one stream.
    pub(crate) fn make(&self) -> Option<gst::Element> {
        self.factory.create().build().ok()
    }

    /// Whether it uses a GPU.
    pub(crate) fn is_hardware(&self) -> bool {
        is_hardware(&self.factory)
    }

    /// Its name, and what it is.
    pub(crate) fn describe(&self) -> String {
        format!("{}: {}", self.factory.name(), self.factory.longname())
    }

    /// Whether it takes samples of this format from a program's memory.
    pub(crate) fn takes(&self, format: &str) -> bool {
        self.factory.can_sink_any_caps(&raw(&[format]))
    }

    /// Whether it takes coded video of exactly this kind.
    pub(crate) fn takes_coded(&self, caps: &gst::Caps) -> bool {
        self.factory.can_sink_all_caps(caps)
    }
}

/// The codec in GStreamer's capabilities.
pub(crate) fn media(codec: FrameCodec) -> &'static str {
    match codec {
        FrameCodec::H264 | FrameCodec::H264Yuv444 => "video/x-h264",
        FrameCodec::Av1 => "video/x-av1",
    }
}

/// Profiles of H.264 in GStreamer's capabilities.
pub(crate) fn profiles(codec: FrameCodec) -> &'static [&'static str] {
    match codec.layout() {
        SampleLayout::Yuv444 => &["high-4:4:4"],
        _ => &["constrained-baseline", "baseline"],
    }
}

/// Formats of the samples that an element takes, or makes, the best first.
pub(crate) fn formats(codec: FrameCodec) -> &'static [&'static str] {
    match codec.layout() {
        SampleLayout::Yuv444 => &["Y444"],
        _ => &["NV12", "I420"],
    }
}

/// Samples of these formats, in a program's memory.
pub(crate) fn raw(formats: &[&str]) -> gst::Caps {
    let list = gst::List::new(formats.iter().copied());
    gst::Caps::builder("video/x-raw").field("format", list).build()
}

/// The first element that this GPU opens.
pub(crate) fn choose(
    (purpose, codec): (Purpose, FrameCodec),
    choice: &Choice,
) -> Result<Element, NoElement> {
    gst::init().map_err(NoElement::Initialization)?;
    for name in NEEDED {
        load(name).map_err(|error| NoElement::Plugin(name, error))?;
    }
    for name in CODING {
        // A plugin that is not installed, or that finds no GPU, offers nothing.
        let _ = load(name);
    }
    if (purpose, codec) == (Purpose::Decode, FrameCodec::H264Yuv444) {
        let _ = load(FULL_COLOUR);
    }
    let mut reasons = Vec::new();
    for factory in candidates(purpose, codec, choice) {
        match opens(&factory, choice) {
            Ok(true) => return Ok(Element { factory, codec }),
            Ok(false) => {}
            Err(reason) => reasons.push(format!("{}: {reason}", factory.name())),
        }
    }
    if !reasons.is_empty() {
        return Err(NoElement::Unusable(reasons));
    }
    let what = match purpose {
        Purpose::Encode => "encoder",
        Purpose::Decode => "decoder",
    };
    let of = match codec {
        FrameCodec::H264 => "H.264",
        FrameCodec::Av1 => "AV1",
        FrameCodec::H264Yuv444 => "H.264 4:4:4",
    };
    Err(match (purpose, codec) {
        (Purpose::Decode, FrameCodec::H264Yuv444) => NoElement::NoFullColour,
        _ => NoElement::None(what, of),
    })
}

fn load(name: &str) -> Result<(), gst::glib::Error> {
    let folders = std::env::var_os(FOLDER).unwrap_or_default();
    let file = format!("libgst{name}.so");
    let found = std::env::split_paths(&folders).map(|folder| folder.join(&file));
    let found = found.filter(|path| path.is_file()).last();
    let system = PathBuf::from(env!("GSTREAMER_PLUGINS")).join(file);
    gst::Plugin::load_file(found.unwrap_or(system)).map(drop)
}

fn candidates(purpose: Purpose, codec: FrameCodec, choice: &Choice) -> Vec<gst::ElementFactory> {
    let mut factories: Vec<gst::ElementFactory> = match &choice.only {
        Some(names) => {
            let found = names.iter().filter_map(|name| {
                let (plugin, element) = name.split_once('/')?;
                load(plugin).ok()?;
                gst::ElementFactory::find(element)
            });
            found.collect()
        }
        None => {
            let kind = match purpose {
                Purpose::Encode => gst::ElementFactoryType::VIDEO_ENCODER,
                Purpose::Decode => gst::ElementFactoryType::DECODER,
            };
            let found = gst::ElementFactory::factories_with_type(kind, gst::Rank::NONE);
            let mut found: Vec<_> = found
                .into_iter()
                .filter(|factory| is_hardware(factory) || is_of_full_colour(factory))
                .collect();
            // The usual entry of a GPU before the one for low power, by rank; then the processor.
            found.sort_by_key(|factory| {
                let rank = std::cmp::Reverse(factory.rank());
                (!is_hardware(factory), factory.name().contains("lp"), rank, factory.name())
            });
            found
        }
    };
    let coded = gst::Caps::new_empty_simple(media(codec));
    let full_colour = raw(formats(FrameCodec::H264Yuv444));
    factories.retain(|factory| {
        if codec.layout() == SampleLayout::Yuv444 {
            let has = match purpose {
                Purpose::Encode => factory.can_sink_any_caps(&full_colour),
                Purpose::Decode => factory.can_src_any_caps(&full_colour),
            };
            if !has {
                return false;
            }
        }
        let codes = match purpose {
            Purpose::Encode => factory.can_src_any_caps(&coded),
            Purpose::Decode => factory.can_sink_any_caps(&coded),
        };
        codes && !choice.without.iter().any(|name| name == factory.name().as_str())
    });
    factories
}

fn is_hardware(factory: &gst::ElementFactory) -> bool {
    factory.klass().contains("Hardware")
}

/// Whether an element is of the plugin that is loaded for chroma of full resolution only.
fn is_of_full_colour(factory: &gst::ElementFactory) -> bool {
    factory.plugin().is_some_and(|plugin| plugin.plugin_name() == FULL_COLOUR)
}

/// Whether an element uses the GPU that was chosen, or none, and that GPU opens.
fn opens(factory: &gst::ElementFactory, choice: &Choice) -> Result<bool, String> {
    let element = factory.create().build().map_err(|error| error.to_string())?;
    if let (Some(node), None, true) = (&choice.node, &choice.only, is_hardware(factory)) {
        // VA-API's elements have it.
        let of = element.find_property("device-path").and_then(|property| {
            (property.value_type() == String::static_type())
                .then(|| element.property::<Option<String>>("device-path"))
        });
        if of.flatten().is_none_or(|of| of != node.to_string_lossy()) {
            return Ok(false);
        }
    }
    let ready = element.set_state(gst::State::Ready);
    let _ = element.set_state(gst::State::Null);
    match ready {
        Ok(_) => Ok(true),
        Err(_) => Err("its GPU does not open".to_owned()),
    }
}

/// Sets a property of an element if it has it and takes the value: elements differ by their makers
/// and versions.
pub(crate) fn set(element: &gst::Element, property: &str, value: &str) {
    if let Some(spec) = element.find_property(property)
        && let Ok(value) = gst::glib::Value::deserialize_with_pspec(value, &spec)
        && is_in_range(&spec, &value)
    {
        element.set_property_from_value(property, &value);
    }
}

/// The same with a number, or what is nearest to it of what the element takes.
pub(crate) fn set_number(element: &gst::Element, property: &str, value: f64) {
    let Some(spec) = element.find_property(property) else { return };
    if let Some(range) = spec.downcast_ref::<ParamSpecUInt>() {
        element.set_property(property, (value as u32).clamp(range.minimum(), range.maximum()));
    } else if let Some(range) = spec.downcast_ref::<ParamSpecInt>() {
        element.set_property(property, (value as i32).clamp(range.minimum(), range.maximum()));
    }
}

/// The name of the value that a property has; None if it has none.
pub(crate) fn choice(element: &gst::Element, property: &str) -> Option<String> {
    element.find_property(property)?;
    let value = element.property_value(property);
    let (_, chosen) = gst::glib::EnumValue::from_value(&value)?;
    Some(chosen.nick().to_owned())
}

/// glib panics where a number is not.
fn is_in_range(spec: &gst::glib::ParamSpec, value: &gst::glib::Value) -> bool {
    if let Some(range) = spec.downcast_ref::<ParamSpecUInt>() {
        value.get().is_ok_and(|value: u32| (range.minimum()..=range.maximum()).contains(&value))
    } else if let Some(range) = spec.downcast_ref::<ParamSpecInt>() {
        value.get().is_ok_and(|value: i32| (range.minimum()..=range.maximum()).contains(&value))
    } else {
        true
    }
}
