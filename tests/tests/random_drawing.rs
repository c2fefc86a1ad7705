//! Pixel identity under random drawing: core operations with every function, plane mask, fill and
//! clip, RENDER, windows that move, stack, are redirected and carry alpha, on screens that change
//! their size in between. A failing seed is printed; `THINC_TEST_SEED=7` draws it again.

use thinc_bench::Error;
use thinc_bench::process::wait_for;
use thinc_e2e::Desktop;
use thinc_e2e::EVENT_TIMEOUT;

#[path = "../../crates/ring/tests/xdraw/mod.rs"]
mod xdraw;

use xdraw::{Drawer, Kinds};

const BATCHES: usize = 24;

#[test]
fn the_view_is_the_screen_whatever_is_drawn() -> Result<(), Error> {
    let seeds: Vec<u64> = match std::env::var("THINC_TEST_SEED") {
        Ok(text) => text.split(',').map(str::parse).collect::<Result<_, _>>()?,
        Err(_) => (1..=8).collect(),
    };
    for seed in seeds {
        draw(seed).map_err(|error| format!("seed {seed}: {error}"))?;
    }
    Ok(())
}

fn draw(seed: u64) -> Result<(), Error> {
    let mut desktop = Desktop::start("drawing", "700x500", &["sleep", "infinity"])?;
    let mut drawer = Drawer::new(desktop.connect_x()?, 0, seed, Kinds::All)?;
    for batch in 0..BATCHES {
        if batch % 6 == 5 {
            let (width, height) = (drawer.random.within(200, 1300), drawer.random.within(150, 900));
            desktop.viewer.say(&format!("resize {width}x{height}"))?;
            let size = (width as usize, height as usize);
            wait_for("the session resizes", EVENT_TIMEOUT, || {
                (desktop.screen_size().ok()? == size).then_some(())
            })?;
            drawer.resized(width, height);
        }
        // Many small batches catch what one large batch paints over; some large ones overlap with
        // the sending.
        for _ in 0..drawer.random.within(1, if batch % 4 == 0 { 400 } else { 12 }) {
            drawer.step()?;
        }
        drawer.sync()?;
        desktop.assert_identical(&format!("batch {batch}, after {:?}", drawer.log))?;
    }
    Ok(())
}
