//! The single-page test of Yang et al. (2003, section 2.3.2): the link is cut just after the user
//! has requested a page, and restored after 1 to 1280 s. When is the page shown, and is the viewer
//! still connected? Knows one page and the cut; never which peer shows it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::browser::{self, Browser, Titles};
use super::content::pages::{NUMBERED, PAGES, Pages, START, page_number};
use super::{Effort, Workload};
use crate::Error;
use crate::net::testbed::{Direction, Mark, Testbed};
use crate::observe::frames::FrameWatch;
use crate::process::{interrupted, wait_for};
use crate::results::{Form, Measure, quantity};
use crate::stage::Stage;

/// The workload.
pub struct Dropout;

/// Longest that the input may take to reach the server before the link is cut.
const INPUT_LIMIT: Duration = Duration::from_secs(10);
/// TCP waits up to 120 s between retransmissions (Linux, TCP_RTO_MAX), so after a long cut the next
/// one may be this late.
const RETRY_MAX: Duration = Duration::from_secs(120);
/// Longest transmission of the page after that.
const PAGE_LIMIT: Duration = Duration::from_secs(30);
/// The viewer counts as lost if its screen shows nothing new within the length of the cut plus
/// this.
const GRACE: Duration = Duration::from_secs(15);

/// Lengths of the cut, seconds: doubled after each success, as in the paper, up to its 1280.
fn cuts(effort: Effort) -> &'static [u64] {
    match effort {
        Effort::Smoke => &[1],
        Effort::Quick => &[1, 2, 4, 8],
        Effort::Full => &[1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1280],
    }
}

/// A cut of the link, which dropping this ends.
struct Cut<'a>(&'a Testbed);

impl Cut<'_> {
    fn begin(bed: &Testbed) -> Cut<'_> {
        bed.cut(true);
        Cut(bed)
    }
}

impl Drop for Cut<'_> {
    fn drop(&mut self) {
        self.0.cut(false);
    }
}

impl Workload for Dropout {
    fn name(&self) -> &str {
        "dropout"
    }

    fn about(&self) -> &'static str {
        "one page, the link cut for 1 to 1280 s just after it was asked for (Yang et al. 2003)"
    }

    fn forms(&self) -> &'static [Form] {
        &[Form::SlowMotion]
    }

    fn needs(&self) -> &'static [&'static str] {
        &["chromium"]
    }

    fn seconds(&self, _form: Form, effort: Effort) -> f64 {
        // TCP doubles its time-out: on average it retransmits half of the cut late.
        6.0 + cuts(effort).iter().map(|&cut| cut as f64 * 1.5 + 2.0).sum::<f64>()
    }

    fn run(&self, stage: &mut Stage, _form: Form, effort: Effort) -> Result<Vec<Measure>, Error> {
        let folder = stage.site.folder.path().join("pages");
        Pages::all()?.write(&folder)?;
        let mut browser =
            Browser::Chromium.show(stage, &folder, &format!("{START}{NUMBERED}"), 0)?;
        let mut found = Vec::new();
        // The first page without a cut: the reference, and the warm-up of the path.
        for (page, &cut) in (1..=PAGES).zip([0].iter().chain(cuts(effort))) {
            let part = format!("{cut} s");
            let once = one(stage, page, Duration::from_secs(cut))?;
            browser.check()?;
            let lived =
                once.is_some() && stage.desk.held.iter_mut().all(|part| part.check().is_ok());
            let survived = f64::from(u8::from(lived));
            found.push(Measure::higher("survived", &part, "share", [survived]));
            let Some(once) = once else { break };
            found.push(Measure::lower(quantity::VISIBLE_MS, &part, "ms", [once.visible_ms]));
            if cut > 0 {
                found.push(Measure::lower("recovery_ms", &part, "ms", [once.recovery_ms]));
            }
            found.push(Measure::lower(quantity::BYTES_DOWN, &part, "bytes", [once.bytes_down]));
            if !lived {
                break;
            }
        }
        Ok(found)
    }
}

/// One page that was shown despite its cut.
struct Recovered {
    /// From the key until the page is on the client's screen, the cut included: the paper's
    /// latency.
    visible_ms: f64,
    /// From the end of the cut.
    recovery_ms: f64,
    bytes_down: f64,
}

/// Requests `page` and cuts the link for this long; None if the page is never shown.
fn one(stage: &mut Stage, page: usize, cut: Duration) -> Result<Option<Recovered>, Error> {
    stage.settle()?;
    let bed = Arc::clone(&stage.site.bed);
    let strips = FrameWatch::start(&stage.site.screen, browser::strip_on(stage))?;
    let watch = stage.site.screen.watch()?;
    let meter = stage.meter()?;
    let mark = bed.mark();
    let titles = Titles::new(stage)?;
    let asked = stage.input.key("Return")?;
    wait_for_input(&bed, &mark, &titles, page)?;
    let restored = if cut.is_zero() {
        Instant::now()
    } else {
        let _cut = Cut::begin(&bed);
        let end = Instant::now() + cut;
        // In short pauses, so that a cut of 1280 s can be interrupted.
        while let Some(left) =
            end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
        {
            if interrupted() {
                return Err("interrupted".into());
            }
            std::thread::sleep(left.min(Duration::from_millis(100)));
        }
        end
    };
    let limit = (cut * 2 + GRACE).min(cut + RETRY_MAX) + PAGE_LIMIT;
    let came = wait_for("the page", limit, || {
        strips.last().filter(|&(_, number)| number == page_number(page))
    });
    drop(strips);
    if came.is_err() {
        return if interrupted() { Err("interrupted".into()) } else { Ok(None) };
    }
    stage.wait_quiet(&watch, &bed.mark(), PAGE_LIMIT)?;
    let spent = meter.read(stage)?;
    let visible =
        watch.finish()?.within(stage.view).visible().ok_or("the page came, and nothing changed")?;
    let ms = |from: Instant| visible.saturating_duration_since(from).as_secs_f64() * 1e3;
    let bytes_down = spent.traffic.bytes(Direction::Down) as f64;
    Ok(Some(Recovered { visible_ms: ms(asked), recovery_ms: ms(restored), bytes_down }))
}

/// As in the paper, the link is cut when the request has reached the server and the page is being
/// sent: the browser has received the key, and at most a part of the page is drawn.
fn wait_for_input(bed: &Testbed, mark: &Mark, titles: &Titles, page: usize) -> Result<(), Error> {
    wait_for("the key reaches the server", INPUT_LIMIT, || {
        let sent = bed
            .since(mark)
            .packets
            .iter()
            .any(|packet| packet.direction == Direction::Up && packet.payload > 0);
        // A page that is already shown needs no packet: there is none without remoting.
        let there = || titles.page().is_ok_and(|shown| shown == Some(page));
        (sent || there()).then_some(())
    })?;
    // A packet is sent when the client sends it; half a round trip later the server has it.
    std::thread::sleep(bed.link().rtt / 2);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::content::pages::page_name;

    #[test]
    fn every_cut_has_a_page_of_its_own_and_full_goes_to_the_papers_end() {
        for effort in [Effort::Smoke, Effort::Quick, Effort::Full] {
            assert!(cuts(effort).len() < PAGES);
            assert!(cuts(effort).windows(2).all(|pair| pair[0] < pair[1]));
            assert!(page_name(cuts(effort).len() + 1).ends_with(".html"));
        }
        assert_eq!(cuts(Effort::Full).last(), Some(&1280));
    }
}
