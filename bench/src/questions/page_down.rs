//! Question: what does a page-down in Chromium at 1024x768 cost, in bytes to the viewer and in CPU
//! time of each process? A page made here (text in paragraphs, as documentation is) is scrolled by
//! the Page Down key, one page at a time, and each ends when the viewer is quiet.

use std::fmt::Write as _;
use std::time::Duration;

use clap::Args;

use super::direct::{browser, bytes_in, wait_changed, wait_painted};
use super::print_table;
use crate::Error;
use crate::observe::account::cpu_ms_of;
use crate::process::{Folder, Headless, Session};
use crate::results::{Measure, quantity};

/// Options of `page-down`.
#[derive(Args)]
pub struct Options {
    /// Pages measured.
    #[arg(long, default_value_t = 20)]
    pages: usize,
    /// The browser's binary.
    #[arg(long, default_value = "chromium")]
    chromium: String,
    /// Writes an image of the first page, to see what was measured.
    #[arg(long)]
    screenshot: Option<std::path::PathBuf>,
}

/// Measures and prints.
pub fn run(options: &Options) -> Result<(), Error> {
    let folder = Folder::new("page-down")?;
    let page = folder.path().join("page.html");
    std::fs::write(&page, text_page(options.pages + 4))?;
    let url = format!("file://{}", page.display());
    let browser = browser(&options.chromium, folder.path(), &url);
    let session = Session::start("page", "1024x768", &["sh", "-c", &browser])?;
    let mut viewer = Headless::start(&session.link)?;
    wait_painted(&mut viewer)?;
    viewer.say("move 500 400")?;
    viewer.say("click 1")?;
    viewer.say("wait-quiet")?;
    if let Some(file) = &options.screenshot {
        viewer.say(&format!("screenshot {}", file.display()))?;
    }
    let parts = [
        ("xorg", session.pid("xorg")?),
        ("session", session.pid("session")?),
        ("viewer", viewer.pid()),
    ];
    let cpu = || parts.iter().map(|(_, pid)| cpu_ms_of(*pid)).collect::<Result<Vec<f64>, _>>();
    let mut bytes = Vec::new();
    let mut cpu_ms = [const { Vec::new() }; 3];
    for page in 0..options.pages {
        let before = (bytes_in(&mut viewer, folder.path())?, cpu()?);
        let shown = viewer.say("hash")?;
        viewer.say("key Next")?;
        wait_changed(&mut viewer, &shown, Duration::from_secs(10))
            .map_err(|error| format!("page {page}: {error}"))?;
        // Chromium may paint the rest of the page a little later.
        std::thread::sleep(Duration::from_millis(300));
        viewer.say("wait-quiet")?;
        bytes.push(bytes_in(&mut viewer, folder.path())? - before.0);
        for ((samples, after), before) in cpu_ms.iter_mut().zip(cpu()?).zip(before.1) {
            samples.push(after - before);
        }
    }
    let mut measures = vec![Measure::lower(quantity::BYTES_DOWN, "", "bytes", bytes)];
    let cpu = parts.iter().zip(cpu_ms);
    measures.extend(cpu.map(|((part, _), ms)| Measure::lower("cpu_ms", part, "ms", ms)));
    println!("page-down in Chromium, 1024x768");
    print_table(&[("thinc".to_owned(), measures)]);
    Ok(())
}

/// A page of plain paragraphs, `screens` screens long; the words come from a fixed seed.
fn text_page(screens: usize) -> String {
    let words = [
        "the", "display", "server", "draws", "a", "window", "and", "sends", "small", "commands",
        "to", "every", "viewer", "over", "network", "latency", "first",
    ];
    let mut seed = 1_u32;
    let mut page = String::from(
        "<!doctype html><meta charset=utf-8><title>page</title><style>body{font:16px/1.4 'DejaVu \
            Sans',sans-serif;max-width:56em;margin:2em}</style>",
    );
    for section in 0..screens * 2 {
        let _ = write!(page, "<h2>Section {section}</h2>");
        for _ in 0..3 {
            page.push_str("<p>");
            for _ in 0..70 {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                page.push_str(words[(seed >> 16) as usize % words.len()]);
                page.push(' ');
            }
            page.push_str("</p>");
        }
    }
    page
}
