//! Question: what does a page-down in Chromium at 1024x768 cost, in bytes to the viewer and in CPU of each process?
//! A page made here (text in paragraphs, as documentation is) is scrolled by the Page Down key, one page at a time, and
//! after each the viewer's barrier says that the screen rests.

use std::fmt::Write as _;
use std::time::Duration;

use clap::Args;

use crate::Error;
use crate::figures::Samples;
use crate::process::{Folder, Headless, Session, cpu_ms, wait_for};

/// How `page-down` runs.
#[derive(Args)]
pub struct Options {
    /// Pages measured.
    #[arg(long, default_value_t = 20)]
    pages: usize,
    /// The browser's binary.
    #[arg(long, default_value = "chromium")]
    chromium: String,
    /// Where to keep a picture of the first page, to see what was measured.
    #[arg(long)]
    screenshot: Option<std::path::PathBuf>,
}

/// Measures and prints.
pub fn run(options: &Options) -> Result<(), Error> {
    let folder = Folder::new("page-down")?;
    let page = folder.path().join("page.html");
    std::fs::write(&page, text_page(options.pages + 4))?;
    let profile = format!("--user-data-dir={}", folder.path().join("profile").display());
    let url = format!("--app=file://{}", page.display());
    // A browser takes keys only in an active window, and it is a window manager that makes one active; it starts the
    // browser itself, once it manages windows.
    let browser = format!(
        "exec openbox --startup \"sh -c 'exec {} --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-component-update \
         --disable-sync --disable-smooth-scrolling --window-size=1024,768 --window-position=0,0 {profile} {url}'\"",
        options.chromium
    );
    let session = Session::start("page", "1024x768", &["sh", "-c", &browser])?;
    let mut viewer = Headless::start(&session.link)?;
    let stats = folder.path().join("stats.json");
    let read = |viewer: &mut Headless| -> Result<serde_json::Value, Error> {
        viewer.say(&format!("stats {}", stats.display()))?;
        Ok(serde_json::from_str(&std::fs::read_to_string(&stats)?)?)
    };
    // The browser has painted its page when the screen has changed and then rests.
    let mut last = String::new();
    let mut still = 0;
    wait_for("the page is painted", Duration::from_secs(60), || {
        viewer.say("wait-quiet").ok()?;
        let hash = read(&mut viewer).ok()?["framebuffer_xxh3"].to_string();
        still = if hash == last { still + 1 } else { 0 };
        last = hash;
        std::thread::sleep(Duration::from_millis(100));
        (still > 20).then_some(())
    })?;
    viewer.say("move 500 400")?;
    viewer.say("click 1")?;
    viewer.say("wait-quiet")?;

    if let Some(file) = &options.screenshot {
        viewer.say(&format!("screenshot {}", file.display()))?;
    }
    let parts = [("xorg", session.pid("xorg")?), ("session", session.pid("session")?), ("viewer", viewer.pid())];
    let mut bytes = Samples::default();
    let mut cpu = [const { Vec::new() }; 3];
    for i in 0..options.pages {
        let before = (read(&mut viewer)?, parts.map(|(_, pid)| cpu_ms(pid)));
        viewer.say("key Next")?;
        // Chromium paints some time after the key: wait for the change, then for rest.
        wait_for("the page scrolls", Duration::from_secs(10), || {
            viewer.say("wait-quiet").ok()?;
            let now = read(&mut viewer).ok()?;
            (now["framebuffer_xxh3"] != before.0["framebuffer_xxh3"]).then_some(())
        })
        .map_err(|error| format!("page {i}: {error}"))?;
        std::thread::sleep(Duration::from_millis(300));
        viewer.say("wait-quiet")?;
        let after = read(&mut viewer)?;
        let count = |json: &serde_json::Value| json["bytes_in"].as_f64().ok_or("stats have no bytes_in");
        bytes.push((count(&after)? - count(&before.0)?) / 1e3);
        for (i, (_, pid)) in parts.iter().enumerate() {
            cpu[i].push(cpu_ms(*pid)? - before.1[i].as_ref().map_err(|e| e.to_string())?);
        }
    }
    println!("page-down, Chromium, 1024x768");
    println!("  bytes to the viewer, KB (10^3)  {bytes}");
    for ((name, _), values) in parts.iter().zip(&cpu) {
        let mut samples = Samples::default();
        values.iter().for_each(|&value| samples.push(value));
        println!("  CPU of {name:8} ms            {samples}");
    }
    Ok(())
}

/// A page of plain paragraphs, `screens` screens long; the words come from a fixed seed.
fn text_page(screens: usize) -> String {
    let words = [
        "the", "display", "server", "draws", "a", "window", "and", "sends", "small", "commands", "to", "every",
        "viewer", "over", "network", "latency", "first",
    ];
    let mut seed = 1_u32;
    let mut page = String::from(
        "<!doctype html><meta charset=utf-8><title>page</title><style>body{font:16px/1.4 'DejaVu Sans',sans-serif;max-width:56em;margin:2em}</style>",
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
