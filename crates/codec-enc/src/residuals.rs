//! Path 9/13: from encoder.rs, for photographs; the inverse of codec-dec/residuals.rs, which has
//! the layout.
//! Encodes pixels as differences from a prediction, grouped by local activity, in one zstd frame
//! that uses only entropy codes and no matches.
//! Knows 24-bit pixels without a stride; never where the rectangle lies.

use thinc_codec_dec::OPAQUE;
use thinc_codec_dec::residuals::{
    ESCAPE, GRADES, Prediction, SMOOTH, Section, channels, error, grade, grade_first, mean,
    predict, sections, symbol,
};
use thinc_protocol::wire::put_varint;
use zstd_safe::zstd_sys::ZSTD_EndDirective;
use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer, ParamSwitch, ResetDirective};

/// One row in 8 is sampled to choose the prediction.
const SAMPLED_ROW: usize = 8;
/// 2 KiB: fewer bytes share the code table of the following ones, because a table takes a hundred
/// bytes.
const OWN_CODES_MIN: usize = 2048;

/// Encodes photographs as residuals; it reuses its memory.
pub(crate) struct Residuals {
    zstd: CCtx<'static>,
    /// Differences of green, of red minus green's, of blue minus their mean, and the symbol of all
    /// three.
    differences: Vec<[u8; 4]>,
    errors: Vec<u16>,
    grades: Vec<u8>,
    black: Vec<u32>,
    /// Symbols and differences by grade.
    sorted: Vec<u8>,
    /// The differences of pixels whose symbol is `ESCAPE`.
    escaped: [Vec<u8>; 3],
}

impl Residuals {
    pub(crate) fn new() -> Residuals {
        let mut zstd = CCtx::create();
        let parameters = [
            CParameter::CompressionLevel(1),
            // No search for matches: in a photograph they are chance, and cost more than codes.
            CParameter::TargetLength(1 << 17),
            CParameter::LiteralCompressionMode(ParamSwitch::Enable),
            CParameter::HashLog(6),
            // The size of the longest block, which bounds the memory.
            CParameter::WindowLog(17),
        ];
        for parameter in parameters {
            zstd.set_parameter(parameter).expect("zstd must accept these parameters");
        }
        Residuals {
            zstd,
            differences: Vec::new(),
            errors: Vec::new(),
            grades: Vec::new(),
            black: Vec::new(),
            sorted: Vec::new(),
            escaped: Default::default(),
        }
    }

    /// Replaces `out` with the encoding of `pixels`, rows of `width` without padding.
    pub(crate) fn encode(&mut self, pixels: &[u32], width: usize, out: &mut Vec<u8>) {
        let prediction = better_prediction(pixels, width);
        self.differences.resize(pixels.len(), [0; 4]);
        self.errors.resize(pixels.len(), 0);
        self.grades.resize(pixels.len(), 0);
        self.black.resize(width, OPAQUE);
        match prediction {
            Prediction::Median => self.difference::<false>(pixels, width),
            Prediction::Even => self.difference::<true>(pixels, width),
        }
        let (first, others) = self.grades.split_at_mut(width);
        grade_first(first);
        for (grades, errors) in others.chunks_exact_mut(width).zip(self.errors.chunks_exact(width))
        {
            grade(errors, grades);
        }
        let counts = self.sort();
        out.clear();
        out.push(prediction as u8);
        counts[..GRADES - 1].iter().for_each(|&count| put_varint(out, count as u64));
        self.pack(counts, out);
    }

    fn difference<const EVEN: bool>(&mut self, pixels: &[u32], width: usize) {
        let mut above = &self.black[..];
        let rows = pixels.chunks_exact(width);
        let outs =
            self.differences.chunks_exact_mut(width).zip(self.errors.chunks_exact_mut(width));
        for (row, (differences, errors)) in rows.zip(outs) {
            let mut one = |x: usize, left: u32, corner: u32| {
                let predicted =
                    predict::<EVEN>(channels(left), channels(above[x]), channels(corner));
                let pixel = row[x].to_le_bytes();
                let [blue, green, red] =
                    [0, 1, 2].map(|i| pixel[i].wrapping_sub(predicted[i] as u8));
                errors[x] = error([blue, green, red]);
                let sent = [green, red.wrapping_sub(green), blue.wrapping_sub(mean(red, green))];
                differences[x] = [sent[0], sent[1], sent[2], symbol(sent)];
            };
            one(0, above[0], above[0]);
            for x in 1..width {
                one(x, row[x - 1], above[x - 1]);
            }
            above = row;
        }
    }

    /// Groups the differences by grade; returns each grade's count of pixels.
    fn sort(&mut self) -> [usize; GRADES] {
        let mut counts = [0; 8];
        self.grades.iter().for_each(|&grade| counts[usize::from(grade & 7)] += 1);
        let counts = std::array::from_fn(|grade| counts[grade]);
        let mut sections = sections(counts);
        self.sorted.resize(sections[GRADES].at, 0);
        self.escaped.iter_mut().for_each(Vec::clear);
        for (&grade, &[green, red_more, blue_more, symbol]) in
            self.grades.iter().zip(&self.differences)
        {
            let grade = usize::from(grade & 7);
            let Section { at, count } = sections[grade];
            sections[grade].at = at + 1;
            if grade >= SMOOTH {
                self.sorted[at] = green;
                self.sorted[at + count] = red_more;
                self.sorted[at + 2 * count] = blue_more;
                continue;
            }
            self.sorted[at] = symbol;
            if symbol == ESCAPE {
                self.escaped[0].push(green);
                self.escaped[1].push(red_more);
                self.escaped[2].push(blue_more);
            }
        }
        counts
    }

    /// Appends one frame in which each kind of symbols and differences ends a block, so that it has
    /// its own code table.
    fn pack(&mut self, counts: [usize; GRADES], out: &mut Vec<u8>) {
        let len = self.sorted.len() + self.escaped[0].len() * 3;
        self.zstd.reset(ResetDirective::SessionOnly).expect("a context can always be reset");
        self.zstd.set_pledged_src_size(Some(len as u64)).expect("no frame may have begun");
        let at = out.len();
        // A block that does not shrink takes three more bytes, and each piece may end one.
        out.resize(at + zstd_safe::compress_bound(len) + 3 * 3 * (GRADES + 1), 0);
        let mut output = OutBuffer::around_pos(&mut out[..], at);
        let mut sorted = &self.sorted[..];
        let lens = counts.iter().enumerate().flat_map(|(grade, count)| {
            std::iter::repeat_n(*count, if grade < SMOOTH { 1 } else { 3 })
        });
        let pieces = lens.map(|len| {
            let (piece, rest) = sorted.split_at(len);
            sorted = rest;
            piece
        });
        let mut pending = 0;
        for piece in pieces.chain(self.escaped.iter().map(Vec::as_slice)) {
            pending += piece.len();
            let own = pending >= OWN_CODES_MIN;
            let directive = if own {
                ZSTD_EndDirective::ZSTD_e_flush
            } else {
                ZSTD_EndDirective::ZSTD_e_continue
            };
            let mut input = InBuffer::around(piece);
            self.zstd
                .compress_stream2(&mut output, &mut input, directive)
                .expect("compression into a large enough buffer must not fail");
            assert_eq!(input.pos(), piece.len(), "the bound must fit all blocks");
            pending = if own { 0 } else { pending };
        }
        let left = self.zstd.compress_stream2(
            &mut output,
            &mut InBuffer::around(&[]),
            ZSTD_EndDirective::ZSTD_e_end,
        );
        assert_eq!(left, Ok(0), "the bound must fit all blocks");
        let end = output.pos();
        out.truncate(end);
    }
}

/// The prediction with the smaller error on the sampled rows.
fn better_prediction(pixels: &[u32], width: usize) -> Prediction {
    let (mut median, mut even) = (0, 0);
    for pair in pixels.chunks_exact(2 * width).step_by(SAMPLED_ROW / 2) {
        let (above, row) = pair.split_at(width);
        for (lefts, aboves) in row.windows(2).zip(above.windows(2)) {
            let around = (channels(lefts[0]), channels(aboves[1]), channels(aboves[0]));
            let pixel = channels(lefts[1]);
            // The length of a code grows with the logarithm of the error, so large errors at edges
            // must not outweigh all others.
            let cost = |predicted: [i16; 4]| {
                let bits = |i: usize| 16 - (pixel[i] - predicted[i]).unsigned_abs().leading_zeros();
                bits(0) + bits(1) + bits(2)
            };
            median += u64::from(cost(predict::<false>(around.0, around.1, around.2)));
            even += u64::from(cost(predict::<true>(around.0, around.1, around.2)));
        }
    }
    if even < median { Prediction::Even } else { Prediction::Median }
}
