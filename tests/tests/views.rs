//! Viewers that show a real desktop scaled down, and parts of it: each shows the X screen,
//! resampled. An xterm prints and scrolls; viewers of several sizes show it at the same time.

use thinc_bench::Error;
use thinc_bench::process::wait_for;
use thinc_e2e::EVENT_TIMEOUT;
use thinc_e2e::{Desktop, Image};

const SIZE: &str = "1024x768";
/// Scale of the small view: pixels of the view for pixels of the screen (320 × 240).
const SHRUNK: (usize, usize) = (5, 16);

fn rested(desktop: &mut Desktop) -> Result<Image, Error> {
    desktop.viewer.say("wait-quiet")?;
    desktop.view()
}

/// The mean of the screen pixels that a pixel of the small view covers, weighted by coverage, in
/// integers.
fn mean(screen: &Image, (x, y): (usize, usize), shift: u32) -> u64 {
    let (to, from) = SHRUNK;
    let covered = |pixel: usize| {
        let (start, end) = (pixel * from, (pixel + 1) * from);
        (start / to..end.div_ceil(to))
            .map(move |s| (s, (((s + 1) * to).min(end) - (s * to).max(start)) as u64))
    };
    let weigh = |(y, wy): (usize, u64)| {
        let row = covered(x).map(move |(x, wx)| {
            u64::from(screen.pixels[y * screen.width + x] >> shift & 255) * wx * wy
        });
        row.sum::<u64>()
    };
    let whole = (from * from) as u64;
    (covered(y).map(weigh).sum::<u64>() + whole / 2) / whole
}

#[test]
fn several_viewers_of_one_screen_see_it_each_at_its_own_size() -> Result<(), Error> {
    let print = "for i in $(seq 60); do echo \"$i: the quick brown fox jumps over the lazy dog\"; \
        done; exec sleep 600";
    let xterm = ["xterm", "-geometry", "120x50+20+10", "-e", "sh", "-c", print];
    let mut desktop = Desktop::start("views", SIZE, &xterm)?;
    let mut small = desktop.another_viewer_with(&["--view", "320x240"])?;
    let mut part = desktop.another_viewer_with(&["--view", "300x200+40+100"])?;
    let (screen, view, cut) = wait_for("the text stands still", EVENT_TIMEOUT, || {
        desktop.viewer.say("wait-quiet").ok()?;
        let before = desktop.screen().ok()?;
        let view = desktop.with_viewer(&mut small, rested).ok()?;
        let cut = desktop.with_viewer(&mut part, rested).ok()?;
        (before.colors() > 1 && desktop.screen().ok()? == before).then_some((before, view, cut))
    })?;
    desktop.assert_identical("beside viewers of other sizes")?;

    assert_eq!((view.width, view.height), (320, 240));
    for (at, &pixel) in view.pixels.iter().enumerate() {
        let place = (at % view.width, at / view.width);
        for shift in [0, 8, 16] {
            let (shown, exact) = (u64::from(pixel >> shift & 255), mean(&screen, place, shift));
            assert!(shown.abs_diff(exact) <= 1, "{shown} for {exact} at {place:?}");
        }
    }
    assert_eq!((cut.width, cut.height), (300, 200));
    for (y, row) in cut.pixels.chunks_exact(300).enumerate() {
        let from = (y + 100) * screen.width + 40;
        assert!(row == &screen.pixels[from..][..300], "row {y} of the part");
    }

    small.say("view fit")?;
    let same = desktop.with_viewer(&mut small, rested)?;
    assert!(same == desktop.screen()?, "all of it again");
    Ok(())
}
