//! Path beside the pixels, in both directions: between what an application has copied and the
//! formats of the protocol.
//! Text of HTML, and PNG of JPEG, BMP and TIFF, for applications that offer nothing else. Knows
//! bytes and limits; never who copied them, nor a clipboard.
//!
//! The bytes may be hostile, so shells have them converted by [`Converter`], on threads of its own.
//! Results, pixels and memory are bounded; time is bounded by these.
#![forbid(unsafe_code)]

mod html;
mod image;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use thinc_protocol::clip::{ClipEnd, ClipFormat};

/// 8: conversions that wait or run; as many as clipboard contents are fetched at a time. More are
/// refused.
pub const CONVERSIONS_MAX: usize = 8;
/// 2²⁵: most pixels of an image; a screen of 7680×4320.
pub const PIXELS_MAX: u64 = 1 << 25;

/// A conversion to a format of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Conversion {
    /// The text that a browser would show of HTML in UTF-8.
    TextOfHtml,
    /// PNG of this kind of image.
    PngOf(ImageKind),
}

/// An image that is no PNG.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ImageKind {
    /// JPEG, turned as its Exif data says.
    Jpeg,
    /// Windows bitmap, with its file header.
    Bmp,
    /// TIFF; of several images, the first.
    Tiff,
}

impl Conversion {
    /// What is converted to this format, the best first: lossless images before JPEG.
    pub fn to(format: ClipFormat) -> &'static [Conversion] {
        match format {
            ClipFormat::Text => &[Conversion::TextOfHtml],
            ClipFormat::Html | ClipFormat::Files => &[],
            ClipFormat::Png => &[
                Conversion::PngOf(ImageKind::Bmp),
                Conversion::PngOf(ImageKind::Tiff),
                Conversion::PngOf(ImageKind::Jpeg),
            ],
        }
    }

    /// The names under which applications offer it, as X targets and media types.
    pub fn targets(self) -> &'static [&'static str] {
        match self {
            Conversion::TextOfHtml => &["text/html"],
            Conversion::PngOf(ImageKind::Jpeg) => &["image/jpeg"],
            Conversion::PngOf(ImageKind::Bmp) => &["image/bmp", "image/x-bmp", "image/x-MS-bmp"],
            Conversion::PngOf(ImageKind::Tiff) => &["image/tiff"],
        }
    }
}

/// Converts a content, on the caller's thread. A result longer than `bytes_max` is refused.
///
/// # Errors
/// `TooLarge`, with 0 bytes where the length is unknown; `Failed`: it is not what it should be, or
/// has more than [`PIXELS_MAX`].
pub fn convert(
    conversion: Conversion,
    content: &[u8],
    bytes_max: usize,
) -> Result<Vec<u8>, ClipEnd> {
    convert_within(conversion, content, bytes_max, PIXELS_MAX)
}

/// As [`convert`], with another limit of the pixels; for fuzzing.
///
/// # Errors
/// As [`convert`].
pub fn convert_within(
    conversion: Conversion,
    content: &[u8],
    bytes_max: usize,
    pixels_max: u64,
) -> Result<Vec<u8>, ClipEnd> {
    match conversion {
        Conversion::TextOfHtml => html::text(content, bytes_max),
        Conversion::PngOf(kind) => image::png(kind, content, bytes_max, pixels_max),
    }
}

/// Converts contents on threads of its own, one at a time, so that the memory of one is enough.
#[derive(Clone, Debug, Default)]
pub struct Converter {
    turn: Arc<Mutex<()>>,
    /// Conversions that wait or run.
    count: Arc<AtomicUsize>,
}

impl Converter {
    /// Starts a conversion as [`convert`]. `done` is called with the result on the conversion's
    /// thread. After the deadline nobody waits for the result, so a conversion that has not started
    /// by then fails.
    ///
    /// # Errors
    /// Too many wait, or the system has no more threads; then `done` is not called.
    pub fn start(
        &self,
        conversion: Conversion,
        content: Vec<u8>,
        bytes_max: usize,
        deadline: Instant,
        done: impl FnOnce(Result<Vec<u8>, ClipEnd>) + Send + 'static,
    ) -> Result<(), ClipEnd> {
        if self.count.fetch_add(1, Ordering::AcqRel) >= CONVERSIONS_MAX {
            self.count.fetch_sub(1, Ordering::AcqRel);
            return Err(ClipEnd::Failed);
        }
        let Converter { turn, count } = self.clone();
        let started = thread::Builder::new().name("convert".to_owned()).spawn(move || {
            let result = {
                let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
                if Instant::now() < deadline {
                    // A decoder that panics has found a bug of its own; the content is to blame.
                    catch_unwind(AssertUnwindSafe(|| convert(conversion, &content, bytes_max)))
                        .unwrap_or(Err(ClipEnd::Failed))
                } else {
                    Err(ClipEnd::Failed)
                }
            };
            drop(content);
            count.fetch_sub(1, Ordering::AcqRel);
            done(result);
        });
        started.map(drop).map_err(|_| {
            self.count.fetch_sub(1, Ordering::AcqRel);
            ClipEnd::Failed
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    const LONG: Duration = Duration::from_secs(120);

    #[test]
    fn conversions_wait_for_their_turn_and_the_ninth_is_refused() {
        let converter = Converter::default();
        let (sender, results) = channel();
        let start = |deadline: Instant| {
            let sender = sender.clone();
            converter.start(Conversion::TextOfHtml, b"<p>a".to_vec(), 100, deadline, move |done| {
                sender.send(done).unwrap();
            })
        };
        let turn = converter.turn.lock().unwrap();
        let later = Instant::now() + LONG;
        for _ in 0..CONVERSIONS_MAX - 1 {
            assert_eq!(start(later), Ok(()));
        }
        assert_eq!(start(Instant::now()), Ok(()), "one that nobody will wait for");
        assert_eq!(start(later), Err(ClipEnd::Failed), "too many");
        assert!(results.try_recv().is_err(), "it is not their turn");
        drop(turn);
        let mut done: Vec<_> =
            (0..CONVERSIONS_MAX).map(|_| results.recv_timeout(LONG).unwrap()).collect();
        done.sort_by_key(Result::is_ok);
        assert_eq!(done[0], Err(ClipEnd::Failed));
        assert!(done[1..].iter().all(|text| *text == Ok(b"a".to_vec())), "{done:?}");
        assert_eq!(start(later), Ok(()), "there is room again");
        assert_eq!(results.recv_timeout(LONG).unwrap(), Ok(b"a".to_vec()));
    }

    #[test]
    fn every_conversion_is_offered_for_the_format_that_it_makes() {
        let all: Vec<Conversion> =
            ClipFormat::ALL.into_iter().flat_map(Conversion::to).copied().collect();
        assert_eq!(all.len(), 4);
        assert!(all.iter().all(|conversion| !conversion.targets().is_empty()));
    }
}
