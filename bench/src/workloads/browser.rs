//! Chromium and Firefox with only the page: no bars, no first-run pages, no network, no animation,
//! and software rendering, since the machines of the testbed have no GPU to share. Knows options of
//! browsers; never what is measured.

use std::fs;
use std::path::Path;
use std::process::Command;

use std::time::{Duration, Instant};

use x11rb::connection::Connection;
use x11rb::protocol::xproto::{AtomEnum, ConnectionExt as _};
use x11rb::rust_connection::RustConnection;

use super::content::pages::{STRIP, page_number};
use crate::Error;
use crate::observe::frames::FrameWatch;
use crate::observe::picture::Rect;
use crate::process::{Running, interrupted, wait_for};
use crate::stage::Stage;

/// A browser's first start on a busy machine, over a slow link.
const SHOWN_LIMIT: Duration = Duration::from_secs(60);

/// The browser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Browser {
    /// Debian's Chromium.
    Chromium,
    /// Debian's Firefox ESR.
    Firefox,
}

/// Options of Chromium; profile, size and page follow.
const CHROMIUM: &[&str] = &[
    // The browser's sandbox needs namespaces inside of the testbed's, which a kernel may refuse;
    // the pages are trusted.
    "--no-sandbox",
    "--test-type",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-gpu",
    "--disable-smooth-scrolling",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-domain-reliability",
    "--disable-sync",
    "--disable-translate",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-features=Translate,OptimizationHints,MediaRouter,OverlayScrollbar",
    "--force-device-scale-factor=1",
    "--password-store=basic",
    "--hide-crash-restore-bubble",
    "--ozone-platform=x11",
    "--lang=en-US",
];

/// `user.js` of a Firefox profile: no traffic but the page's, no window but the page, no processor
/// for graphics, nothing that moves by itself.
pub(crate) const FIREFOX_PREFERENCES: &str = r#"user_pref("app.normandy.enabled", false);
user_pref("app.update.enabled", false);
user_pref("browser.aboutwelcome.enabled", false);
user_pref("browser.cache.disk.enable", true);
user_pref("browser.discovery.enabled", false);
user_pref("browser.messaging-system.whatsNewPanel.enabled", false);
user_pref("browser.newtabpage.enabled", false);
user_pref("browser.region.network.url", "");
user_pref("browser.safebrowsing.downloads.remote.enabled", false);
user_pref("browser.safebrowsing.malware.enabled", false);
user_pref("browser.safebrowsing.phishing.enabled", false);
user_pref("browser.sessionstore.resume_from_crash", false);
user_pref("browser.shell.checkDefaultBrowser", false);
user_pref("browser.startup.homepage_override.mstone", "ignore");
user_pref("browser.tabs.warnOnClose", false);
user_pref("browser.translations.automaticallyPopup", false);
user_pref("datareporting.healthreport.uploadEnabled", false);
user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("datareporting.policy.dataSubmissionPolicyBypassNotification", true);
user_pref("extensions.getAddons.cache.enabled", false);
user_pref("extensions.update.enabled", false);
user_pref("general.smoothScroll", false);
user_pref("gfx.canvas.accelerated", false);
user_pref("gfx.webrender.software", true);
user_pref("intl.accept_languages", "en-US");
user_pref("layers.acceleration.disabled", true);
user_pref("media.hardware-video-decoding.enabled", false);
user_pref("network.captive-portal-service.enabled", false);
user_pref("network.connectivity-service.enabled", false);
user_pref("network.dns.disablePrefetch", true);
user_pref("network.prefetch-next", false);
user_pref("security.sandbox.warn_unprivileged_namespaces", false);
user_pref("services.settings.server", "data:,");
user_pref("toolkit.telemetry.enabled", false);
user_pref("trailhead.firstrun.didSeeAboutWelcome", true);
user_pref("ui.caretBlinkTime", 0);
user_pref("ui.prefersReducedMotion", 1);
user_pref("widget.gtk.overlay-scrollbars.enabled", false);
user_pref("widget.non-native-theme.scrollbar.style", 4);
"#;

impl Browser {
    /// Its command.
    pub fn program(self) -> &'static str {
        match self {
            Browser::Chromium => "chromium",
            Browser::Firefox => "firefox-esr",
        }
    }

    /// Configures `command`, which runs [`Browser::program`], to show `url` in a window of this
    /// size, with a new profile in `folder`.
    pub(crate) fn configure(
        self,
        mut command: Command,
        (width, height): (u32, u32),
        folder: &Path,
        url: &str,
    ) -> Result<Command, Error> {
        let profile = folder.join(self.program());
        fs::create_dir_all(&profile)?;
        // The user's settings and caches are neither used nor changed.
        for name in ["HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"] {
            command.env(name, &profile);
        }
        command.env("LANG", "C.UTF-8").env("NO_AT_BRIDGE", "1");
        match self {
            Browser::Chromium => {
                command.args(CHROMIUM).arg("--kiosk");
                command.arg(format!("--window-size={width},{height}")).arg("--window-position=0,0");
                command.arg(format!("--user-data-dir={}", profile.display())).arg(url);
            }
            Browser::Firefox => {
                fs::write(profile.join("user.js"), FIREFOX_PREFERENCES)?;
                command.env("MOZ_CRASHREPORTER_DISABLE", "1");
                command.arg("--profile").arg(&profile).arg("--no-remote");
                command.args(["--width", &width.to_string(), "--height", &height.to_string()]);
                command.arg("--kiosk").arg(url);
            }
        }
        Ok(command)
    }

    /// Shows a file of `pages` with `number` in its strip, and waits until the client's screen
    /// shows it.
    pub fn show(
        self,
        stage: &Stage,
        pages: &Path,
        page: &str,
        number: usize,
    ) -> Result<Running, Error> {
        let strips = FrameWatch::start(&stage.site.screen, strip_on(stage))?;
        let url = format!("file://{}/{page}", pages.display());
        let command = stage.command(self.program());
        let command = self.configure(command, stage.site.size, stage.site.folder.path(), &url)?;
        let mut running = stage.application(self.program(), command)?;
        wait_for_page(&strips, number, SHOWN_LIMIT, || running.check())
            .map_err(|error| format!("{} shows {page}: {error}", self.program()))?;
        stage.settle()?;
        Ok(running)
    }
}

/// Position of a page's strip on the client's screen.
pub fn strip_on(stage: &Stage) -> Rect {
    Rect { x: STRIP.x + stage.view.x, y: STRIP.y + stage.view.y, ..STRIP }
}

/// Waits until the client's screen shows this page's number; returns the time.
pub fn wait_for_page(
    strips: &FrameWatch,
    page: usize,
    limit: Duration,
    mut check: impl FnMut() -> Result<(), Error>,
) -> Result<Instant, Error> {
    let mut broken = None;
    let seen = wait_for(&format!("page {page} on the client's screen"), limit, || {
        if let Err(error) = check() {
            broken = Some(error);
            return Some(Instant::now());
        }
        strips.last().filter(|&(_, number)| number == page_number(page)).map(|(at, _)| at)
    })?;
    broken.map_or(Ok(seen), Err)
}

/// Window titles on the server: the page that the browser has loaded and painted, if pixels do not
/// show it.
pub struct Titles {
    x: RustConnection,
    active: u32,
    name: u32,
}

impl Titles {
    /// Reads the titles of the active window.
    pub fn new(stage: &Stage) -> Result<Titles, Error> {
        let x = stage.connect_server()?;
        let atom =
            |name: &str| Ok::<_, Error>(x.intern_atom(false, name.as_bytes())?.reply()?.atom);
        let (active, name) = (atom("_NET_ACTIVE_WINDOW")?, atom("_NET_WM_NAME")?);
        Ok(Titles { x, active, name })
    }

    /// The page that the browser has loaded; None while it loads one.
    pub fn page(&self) -> Result<Option<usize>, Error> {
        let root = self.x.setup().roots[0].root;
        let window =
            self.x.get_property(false, root, self.active, AtomEnum::WINDOW, 0, 1)?.reply()?;
        let Some(window) = window.value32().and_then(|mut ids| ids.next()).filter(|&id| id != 0)
        else {
            return Ok(None);
        };
        let title =
            self.x.get_property(false, window, self.name, AtomEnum::ANY, 0, 256)?.reply()?;
        let title = String::from_utf8_lossy(&title.value);
        let number = title.strip_prefix("Page ").and_then(|rest| rest.split(':').next());
        Ok(number.and_then(|number| number.parse().ok()))
    }

    /// Waits until the browser has loaded and painted `page`. A busy browser may pause while it
    /// paints a page, which looks idle: without the title, the rest would be missed.
    pub fn wait_for(&self, page: usize, limit: Duration) -> Result<(), Error> {
        let end = Instant::now() + limit;
        loop {
            let loaded = self.page()?;
            if loaded == Some(page) {
                return Ok(());
            }
            if Instant::now() > end || interrupted() {
                let seconds = limit.as_secs();
                return Err(format!(
                    "the browser was asked for page {page} and shows {loaded:?} after {seconds} s"
                )
                .into());
            }
            // Fifty requests a second have no measurable cost for the X server.
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
