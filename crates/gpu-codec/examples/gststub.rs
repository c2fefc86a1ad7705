//! A plugin of GStreamer for tests: encoders round openh264enc, each with one fault that a GPU's
//! driver may have. They are named by it, and work for [`GOOD`] frames where they fail later. One
//! more is round av1enc and has no fault.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use gstreamer as gst;
use gstreamer::glib;
use gstreamer::prelude::*;
use gstreamer::subclass::prelude::*;

/// More than the trial of a session has.
const GOOD: u32 = 8;

/// What an encoder does wrong.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// Nothing.
    None,
    /// Its GPU cannot be opened.
    Closed,
    /// It makes no access unit.
    Silent,
    /// Its access units are none.
    Garbage,
    /// It makes no keyframes on request.
    NoKeyframes,
    /// It encodes another picture.
    Black,
    /// It says that each frame is a keyframe.
    OnlyKeyframes,
    /// Later it makes no more access units.
    SilentLater,
    /// Later its access units are none.
    GarbageLater,
    /// Later it says that each frame is a keyframe.
    OnlyKeyframesLater,
    /// Later the process aborts.
    AbortLater,
    /// Later it never returns.
    HangLater,
    /// Nothing, and it encodes AV1.
    Av1,
}

/// libaom's encoder as a GPU's would be: it makes a keyframe on request, which av1enc does not
/// before GStreamer 1.24. Its place is taken by a new one, whose first frame is a keyframe.
fn av1(bin: &gst::Bin) -> Result<(), glib::BoolError> {
    let make = || {
        gst::ElementFactory::make("av1enc")
            .property_from_str("usage-profile", "realtime")
            .property_from_str("end-usage", "cbr")
            .property("cpu-used", 10)
            .property("max-quantizer", 56u32)
            .property("target-bitrate", 4000u32)
            .build()
    };
    let pad = |encoder: &gst::Element, name: &str| {
        encoder.static_pad(name).ok_or(glib::bool_error!("no pad {name}"))
    };
    let first = make()?;
    bin.add(&first)?;
    let sink = gst::GhostPad::builder_with_target(&pad(&first, "sink")?)?.build();
    let src = gst::GhostPad::builder_with_target(&pad(&first, "src")?)?.build();
    bin.add_pad(&sink)?;
    bin.add_pad(&src)?;
    let (bin, inside, sink) = (bin.downgrade(), Mutex::new(first), sink.downgrade());
    // Nothing is in the encoder at this time: a frame is pushed when the one before was pulled.
    src.add_probe(gst::PadProbeType::EVENT_UPSTREAM, move |src, info| {
        let structure = info.event().and_then(|event| event.structure());
        if structure.is_none_or(|structure| structure.name() != "GstForceKeyUnit") {
            return gst::PadProbeReturn::Ok;
        }
        let renewed = || {
            let (bin, sink) = (bin.upgrade()?, sink.upgrade()?);
            let mut inside = inside.lock().ok()?;
            inside.set_state(gst::State::Null).ok()?;
            bin.remove(&*inside).ok()?;
            *inside = make().ok()?;
            bin.add(&*inside).ok()?;
            sink.set_target(Some(&inside.static_pad("sink")?)).ok()?;
            let src = src.downcast_ref::<gst::GhostPad>()?;
            src.set_target(Some(&inside.static_pad("src")?)).ok()?;
            inside.sync_state_with_parent().ok()
        };
        renewed().expect("the encoder is replaced");
        gst::PadProbeReturn::Drop
    });
    Ok(())
}

fn element(fault: Fault, bin: &gst::Bin) -> Result<(), glib::BoolError> {
    if fault == Fault::Av1 {
        return av1(bin);
    }
    let encoder = gst::ElementFactory::make("openh264enc").build()?;
    bin.add(&encoder)?;
    let pad = |name: &str| encoder.static_pad(name).ok_or(glib::bool_error!("no pad {name}"));
    let (sink, src) = (pad("sink")?, pad("src")?);
    let ghost = |pad: &gst::Pad| gst::GhostPad::builder_with_target(pad).map(|pad| pad.build());
    bin.add_pad(&ghost(&sink)?)?;
    bin.add_pad(&ghost(&src)?)?;
    let frames = AtomicU32::new(0);
    src.add_probe(gst::PadProbeType::BUFFER, move |_, info| {
        let later = frames.fetch_add(1, Ordering::Relaxed) >= GOOD;
        let Some(buffer) = info.buffer_mut() else { return gst::PadProbeReturn::Ok };
        match fault {
            Fault::Silent => return gst::PadProbeReturn::Drop,
            Fault::SilentLater if later => return gst::PadProbeReturn::Drop,
            Fault::AbortLater if later => std::process::abort(),
            Fault::HangLater if later => loop {
                std::thread::park();
            },
            Fault::GarbageLater | Fault::OnlyKeyframesLater if !later => {}
            Fault::Garbage | Fault::GarbageLater => {
                let buffer = buffer.make_mut();
                if let Ok(mut bytes) = buffer.map_writable() {
                    bytes.fill(0x55);
                }
            }
            Fault::OnlyKeyframes | Fault::OnlyKeyframesLater => {
                buffer.make_mut().unset_flags(gst::BufferFlags::DELTA_UNIT)
            }
            _ => {}
        }
        gst::PadProbeReturn::Ok
    });
    sink.add_probe(gst::PadProbeType::BUFFER, move |_, info| {
        if fault == Fault::Black
            && let Some(buffer) = info.buffer_mut()
            && let Ok(mut samples) = buffer.make_mut().map_writable()
        {
            samples.fill(16);
        }
        gst::PadProbeReturn::Ok
    });
    src.add_probe(gst::PadProbeType::EVENT_UPSTREAM, move |_, info| {
        let asks = info
            .event()
            .and_then(|event| event.structure())
            .is_some_and(|structure| structure.name() == "GstForceKeyUnit");
        match fault == Fault::NoKeyframes && asks {
            true => gst::PadProbeReturn::Drop,
            false => gst::PadProbeReturn::Ok,
        }
    });
    Ok(())
}

macro_rules! encoders {
    ($($module:ident, $type:literal, $name:literal, $fault:expr;)*) => {
        $(mod $module {
            use super::*;

            #[derive(Default)]
            pub struct Encoder;

            #[glib::object_subclass]
            impl ObjectSubclass for Encoder {
                const NAME: &'static str = $type;
                type Type = Object;
                type ParentType = gst::Bin;
            }

            impl ObjectImpl for Encoder {
                fn constructed(&self) {
                    self.parent_constructed();
                    element($fault, self.obj().upcast_ref()).expect("its encoder is loaded");
                }
            }

            impl GstObjectImpl for Encoder {}

            impl ElementImpl for Encoder {
                fn metadata() -> Option<&'static gst::subclass::ElementMetadata> {
                    static METADATA: std::sync::LazyLock<gst::subclass::ElementMetadata> =
                        std::sync::LazyLock::new(|| {
                            gst::subclass::ElementMetadata::new(
                                $name,
                                "Codec/Encoder/Video/Hardware",
                                "An encoder with a fault, for tests",
                                "thinc",
                            )
                        });
                    Some(&METADATA)
                }

                fn pad_templates() -> &'static [gst::PadTemplate] {
                    static TEMPLATES: std::sync::LazyLock<Vec<gst::PadTemplate>> =
                        std::sync::LazyLock::new(|| templates($fault));
                    TEMPLATES.as_ref()
                }

                fn change_state(
                    &self,
                    transition: gst::StateChange,
                ) -> Result<gst::StateChangeSuccess, gst::StateChangeError> {
                    match (transition, $fault) {
                        (gst::StateChange::NullToReady, Fault::Closed) => {
                            Err(gst::StateChangeError)
                        }
                        _ => self.parent_change_state(transition),
                    }
                }
            }

            impl BinImpl for Encoder {}

            glib::wrapper! {
                pub struct Object(ObjectSubclass<Encoder>)
                    @extends gst::Bin, gst::Element, gst::Object;
            }
        })*

        fn register(plugin: &gst::Plugin) -> Result<(), glib::BoolError> {
            $(gst::Element::register(
                Some(plugin),
                $name,
                gst::Rank::NONE,
                $module::Object::static_type(),
            )?;)*
            Ok(())
        }
    };
}

encoders! {
    good, "ThincStubGood", "goodenc", Fault::None;
    closed, "ThincStubClosed", "closedenc", Fault::Closed;
    silent, "ThincStubSilent", "silentenc", Fault::Silent;
    garbage, "ThincStubGarbage", "garbageenc", Fault::Garbage;
    no_keyframes, "ThincStubNoKeyframes", "nokeyframesenc", Fault::NoKeyframes;
    only_keyframes, "ThincStubOnlyKeyframes", "onlykeyframesenc", Fault::OnlyKeyframes;
    black, "ThincStubBlack", "blackenc", Fault::Black;
    silent_later, "ThincStubSilentLater", "silentlaterenc", Fault::SilentLater;
    garbage_later, "ThincStubGarbageLater", "garbagelaterenc", Fault::GarbageLater;
    only_keyframes_later, "ThincStubOnlyKeyframesLater", "onlykeyframeslaterenc",
        Fault::OnlyKeyframesLater;
    abort_later, "ThincStubAbortLater", "abortlaterenc", Fault::AbortLater;
    hang_later, "ThincStubHangLater", "hanglaterenc", Fault::HangLater;
    av1_good, "ThincStubAv1", "goodav1enc", Fault::Av1;
}

fn templates(fault: Fault) -> Vec<gst::PadTemplate> {
    let coded = if fault == Fault::Av1 { "video/x-av1" } else { "video/x-h264" };
    let pads = [
        (
            "sink",
            gst::PadDirection::Sink,
            gst::Caps::builder("video/x-raw").field("format", "I420"),
        ),
        ("src", gst::PadDirection::Src, gst::Caps::builder(coded)),
    ];
    let templates = pads.into_iter().map(|(name, direction, caps)| {
        gst::PadTemplate::new(name, direction, gst::PadPresence::Always, &caps.build())
    });
    templates.collect::<Result<_, _>>().expect("the templates are valid")
}

#[allow(missing_docs, reason = "what the macro makes has none")]
mod plugin {
    use super::*;

    gst::plugin_define!(
        stub,
        "Encoders with faults, for tests",
        register,
        "1.0",
        "MIT/X11",
        "thinc",
        "thinc",
        "https://github.com/thinc-display/thinc",
        "2026-11-30"
    );
}
