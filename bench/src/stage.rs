//! One peer on one link, ready for input: the client's screen and keyboard at one end, the desktop
//! at the other. Slow motion is implemented here: an operation begins in quiet, ends in quiet, and
//! everything between belongs to it. Knows times and costs; never the application.

use std::ffi::OsStr;
use std::fs::File;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use x11rb::connection::Connection;
use x11rb::protocol::xproto::{
    ConnectionExt as _, CreateGCAux, CreateWindowAux, ImageFormat, WindowClass,
};

use crate::Error;
use crate::net::testbed::{Direction, Mark, Side, Testbed, Traffic};
use crate::observe::account::{Accounts, Group};
use crate::observe::ear::Ear;
use crate::observe::input::Input;
use crate::observe::picture::{Picture, Rect, exact_share, psnr_db};
use crate::observe::screen::{ClientScreen, Listen};
use crate::observe::watch::Watch;
use crate::observe::{barcode, connect};
use crate::peers::{self, Desk, Peer};
use crate::process::{Folder, Running, interrupted, wait_for};
use crate::results::{Measure, quantity};

/// Where a peer's programs run: the link, the accounts, a folder, and the client's own screen.
pub struct Site {
    /// The client's X server.
    pub screen: ClientScreen,
    /// CPU time and memory of each group of processes.
    pub accounts: Arc<Accounts>,
    /// The link with a namespace at each end.
    pub bed: Arc<Testbed>,
    /// What viewers play sound into, where a workload listens.
    pub ear: Option<Ear>,
    /// For files of this stage; removed with it.
    pub folder: Folder,
    /// Size of the session, and of the client's screen, pixels.
    pub size: (u32, u32),
}

impl Site {
    /// The client's screen, before any peer shows itself there.
    pub fn start(
        name: &str,
        bed: &Arc<Testbed>,
        accounts: &Arc<Accounts>,
        size: (u32, u32),
        listen: Listen,
    ) -> Result<Site, Error> {
        let folder = Folder::new(&format!("{name}-{}", serial()))?;
        let xvfb = place(bed, accounts, Group::Client, "Xvfb");
        let screen = ClientScreen::start(xvfb, folder.path(), size, listen)?;
        let (accounts, bed) = (Arc::clone(accounts), Arc::clone(bed));
        Ok(Site { screen, accounts, bed, ear: None, folder, size })
    }

    /// Opens an ear where viewers that start later look for PulseAudio.
    pub(crate) fn listen(&mut self) -> Result<(), Error> {
        let runtime = peers::runtime_folder(self.folder.path(), Group::Client);
        self.ear = Some(Ear::start(&runtime)?);
        Ok(())
    }

    /// The ear; an error where none was opened.
    pub(crate) fn ear(&self) -> Result<&Ear, Error> {
        self.ear.as_ref().ok_or_else(|| "nobody listens in this trial".into())
    }

    /// A command that runs in the namespace and on the account of its group.
    pub fn command(&self, group: Group, program: impl AsRef<OsStr>) -> Command {
        place(&self.bed, &self.accounts, group, program)
    }
}

fn place(bed: &Testbed, accounts: &Accounts, group: Group, program: impl AsRef<OsStr>) -> Command {
    let side = match group {
        Group::Server | Group::Apps => Side::Server,
        Group::Client => Side::Client,
    };
    accounts.wrap(group, bed.command(side, program))
}

/// Distinguishes the folders of one process.
fn serial() -> u32 {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A desktop in use.
pub struct Stage {
    _window_manager: Running,
    peer: &'static str,
    /// Server and viewer.
    pub desk: Desk,
    /// The client's keyboard and mouse.
    pub input: Input,
    /// Where the session's picture lies on the client's screen.
    pub view: Rect,
    /// Link, accounts, folder and client's screen.
    pub site: Site,
}

/// Longest that a desktop may take to appear, or an operation to end.
const LIMIT: Duration = Duration::from_secs(60);
/// More bytes than this to the viewer within one quiet gap are content; less is a heartbeat.
const HEARTBEAT_BYTES: u64 = 1500;
/// Quiet lasts this long and three round trips: longer than the refinement delays of the peers
/// (xpra: 150 ms), and than the pause between the phases of a page.
const QUIET: Duration = Duration::from_millis(400);
/// How often an operation that did not end exact is compared again while its picture changes.
const AGAIN_MAX: usize = 5;
/// Size of the pattern that shows where the session lies.
const PATTERN: (u32, u32) = (320, 16);
/// Any number that content does not show by chance.
const PATTERN_NUMBER: u32 = 0x7417_c0de;

impl Stage {
    /// Starts `peer` on `bed`, with a window manager that puts every window undecorated at the
    /// upper left corner, and finds where on the client's screen the session is shown.
    pub fn start(
        peer: &dyn Peer,
        bed: &Arc<Testbed>,
        accounts: &Arc<Accounts>,
        size: (u32, u32),
    ) -> Result<Stage, Error> {
        let site = Site::start(peer.name(), bed, accounts, size, peer.listen())?;
        Stage::on_site(peer, site)
    }

    /// The same with an ear, into which the viewer plays sound.
    pub fn start_hearing(
        peer: &dyn Peer,
        bed: &Arc<Testbed>,
        accounts: &Arc<Accounts>,
        size: (u32, u32),
    ) -> Result<Stage, Error> {
        let mut site = Site::start(peer.name(), bed, accounts, size, peer.listen())?;
        site.listen()?;
        Stage::on_site(peer, site)
    }

    fn on_site(peer: &dyn Peer, site: Site) -> Result<Stage, Error> {
        let size = site.size;
        let desk = peer.start(&site)?;
        let config = site.folder.path().join("openbox.xml");
        std::fs::write(&config, OPENBOX)?;
        let mut openbox = site.command(Group::Apps, "openbox");
        openbox.arg("--config-file").arg(&config).stdin(Stdio::null());
        set_environment(&mut openbox, &desk);
        let log = File::create(site.folder.path().join("openbox.log"))?;
        let window_manager =
            Running::start("openbox", openbox.stdout(log.try_clone()?).stderr(log))?;
        let input = Input::new(&site.screen)?;
        let view = Rect { x: 0, y: 0, width: size.0, height: size.1 };
        let peer = peer.name();
        let mut stage = Stage { _window_manager: window_manager, peer, desk, input, view, site };
        stage.wait_managed()?;
        stage.view = stage.calibrate()?;
        stage.input.focus_viewer()?;
        stage.park_pointer()?;
        Ok(stage)
    }

    /// One more session of the same peer on the same link, with another client's screen: another
    /// user.
    pub fn another(&self) -> Result<Stage, Error> {
        self.on(&self.site.bed)
    }

    /// One more session of the same peer on another link.
    pub fn on(&self, bed: &Arc<Testbed>) -> Result<Stage, Error> {
        let peer = peers::all().into_iter().find(|peer| peer.name() == self.peer);
        let peer = peer.ok_or_else(|| format!("there is no peer {}", self.peer))?;
        Stage::start(peer.as_ref(), bed, &self.site.accounts, self.site.size)
    }

    /// Whether applications draw on the client's own X server.
    fn is_local(&self) -> bool {
        self.desk.display == self.site.screen.display()
            || self.desk.display == self.site.screen.address()
    }

    /// A connection of the harness to the X server on which applications draw.
    pub fn connect_server(&self) -> Result<x11rb::rust_connection::RustConnection, Error> {
        if self.is_local() {
            return self.site.screen.connect();
        }
        connect(&self.desk.display, self.desk.xauthority.as_deref())
    }

    /// Waits until the window manager manages the screen: it would neither place nor focus windows
    /// that are mapped earlier.
    fn wait_managed(&self) -> Result<(), Error> {
        let x = self.connect_server()?;
        let root = x.setup().roots[0].root;
        let name = x.intern_atom(false, b"_NET_SUPPORTING_WM_CHECK")?.reply()?.atom;
        // Over plain X openbox needs 160 round trips to start.
        let limit = Duration::from_secs(20) + self.site.bed.link().rtt * 400;
        wait_for("openbox manages the session's screen", limit, || {
            let reply = x.get_property(false, root, name, x11rb::NONE, 0, 1).ok()?.reply().ok()?;
            (reply.value_len == 1).then_some(())
        })
    }

    /// Shows a pattern in the session's upper left corner and finds it on the client's screen.
    fn calibrate(&self) -> Result<Rect, Error> {
        let (width, height) = self.site.size;
        if self.is_local() {
            return Ok(Rect { x: 0, y: 0, width, height });
        }
        let x = self.connect_server()?;
        let screen = &x.setup().roots[0];
        if (u32::from(screen.width_in_pixels), u32::from(screen.height_in_pixels)) != self.site.size
        {
            let (w, h) = (screen.width_in_pixels, screen.height_in_pixels);
            return Err(format!(
                "the session is {w}x{h} and not {width}x{height}: its pictures cannot be compared"
            )
            .into());
        }
        let window = x.generate_id()?;
        let (w, h) = (PATTERN.0 as u16, PATTERN.1 as u16);
        let attributes = CreateWindowAux::new().override_redirect(1);
        x.create_window(
            24,
            window,
            screen.root,
            0,
            0,
            w,
            h,
            0,
            WindowClass::INPUT_OUTPUT,
            0,
            &attributes,
        )?;
        x.map_window(window)?;
        let gc = x.generate_id()?;
        x.create_gc(gc, window, &CreateGCAux::new())?;
        let mut pixels = vec![0_u32; (PATTERN.0 * PATTERN.1) as usize];
        let area = Rect { x: 0, y: 0, width: PATTERN.0, height: PATTERN.1 };
        barcode::draw(PATTERN_NUMBER, &mut pixels, PATTERN.0 as usize, area);
        let bytes: Vec<u8> = pixels.iter().flat_map(|pixel| pixel.to_le_bytes()).collect();
        let show =
            || x.put_image(ImageFormat::Z_PIXMAP, window, gc, w, h, 0, 0, 0, 24, &bytes).map(drop);
        show()?;
        x.get_input_focus()?.reply()?;
        let mut last = None;
        let found = wait_for("the session's picture is on the client's screen", LIMIT, || {
            let picture = self.site.screen.picture().ok()?;
            let at = find_pattern(&picture);
            // Found twice in the same place: a viewer may still be placing its window.
            let settled = at.is_some() && at == last;
            last = at;
            std::thread::sleep(Duration::from_millis(50));
            if settled { at } else { None }
        });
        let shot = self.site.folder.path().join("calibrate.png");
        let at = found.map_err(|error| {
            let kept = std::env::temp_dir()
                .join(format!("thinc-bench-{}-calibrate.png", std::process::id()));
            let shown = self.site.screen.picture().and_then(|picture| picture.write_png(&shot));
            match shown.and_then(|()| Ok(std::fs::copy(&shot, &kept)?)) {
                Ok(_) => format!("{error}; the client's screen is in {}", kept.display()).into(),
                Err(_) => error,
            }
        })?;
        x.destroy_window(window)?;
        x.get_input_focus()?.reply()?;
        let (right, bottom) = (at.0 as u32 + width, at.1 as u32 + height);
        if right > width || bottom > height {
            // A toolbar hides the session's edge; the visible part is compared.
            return Ok(Rect {
                x: at.0,
                y: at.1,
                width: width - at.0 as u32,
                height: height - at.1 as u32,
            });
        }
        Ok(Rect { x: at.0, y: at.1, width, height })
    }

    /// Puts the pointer where it covers the least: on the last visible pixel of the session.
    pub fn park_pointer(&self) -> Result<(), Error> {
        self.input.move_to(
            self.view.x + self.view.width as i32 - 1,
            self.view.y + self.view.height as i32 - 1,
        )?;
        Ok(())
    }

    /// A command for an application in the session: its display and its account are set.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = self.site.command(Group::Apps, program);
        set_environment(&mut command, &self.desk);
        command
    }

    /// The same for an OpenGL program: under VirtualGL where the peer has it.
    pub fn gl_command(&self, program: impl AsRef<OsStr>) -> Command {
        match self.desk.gl_words.split_first() {
            None => self.command(program),
            Some((first, more)) => {
                let mut command = self.command(first);
                command.args(more).arg(program);
                command
            }
        }
    }

    /// Starts an application in the session; its output goes to a file of its name in the stage's
    /// folder.
    pub fn application(&self, name: &'static str, mut command: Command) -> Result<Running, Error> {
        let log = File::create(self.site.folder.path().join(format!("{name}.log")))?;
        Running::start(name, command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log))
    }

    /// How long the screen and the link must be idle to count as quiet.
    pub fn quiet_gap(&self) -> Duration {
        QUIET + self.site.bed.link().rtt * 3
    }

    /// Waits until the client's screen has changed since `watch` began (an application shows
    /// itself), then for quiet.
    pub fn wait_shown(&self, what: &str, watch: Watch) -> Result<(), Error> {
        wait_for(what, LIMIT, || watch.changed().then_some(()))?;
        self.wait_quiet(&watch, &self.site.bed.mark(), LIMIT)?;
        drop(watch.finish()?);
        Ok(())
    }

    /// Waits until neither the screen nor the link has been active for [`Stage::quiet_gap`].
    pub fn wait_quiet(&self, watch: &Watch, mark: &Mark, limit: Duration) -> Result<(), Error> {
        let (began, gap) = (Instant::now(), self.quiet_gap());
        loop {
            if interrupted() {
                return Err("interrupted".into());
            }
            let now = Instant::now();
            let changed = watch.last_change().unwrap_or(began).max(began);
            let screen_quiet = now.duration_since(changed) >= gap;
            if screen_quiet && recent_bytes(&self.site.bed.since(mark), now, gap) < HEARTBEAT_BYTES
            {
                return Ok(());
            }
            if now.duration_since(began) > limit {
                return Err(format!(
                    "no quiet within {} s: something goes on changing",
                    limit.as_secs()
                )
                .into());
            }
            std::thread::sleep(if screen_quiet {
                gap / 10
            } else {
                (changed + gap).saturating_duration_since(now)
            });
        }
    }

    /// Waits until the session rests.
    pub fn settle(&self) -> Result<(), Error> {
        let (watch, mark) = (self.site.screen.watch()?, self.site.bed.mark());
        self.wait_quiet(&watch, &mark, LIMIT)?;
        drop(watch.finish()?);
        Ok(())
    }

    /// Starts to count time, traffic and CPU.
    pub fn meter(&self) -> Result<Meter, Error> {
        let cpu = cpu(&self.site.accounts)?;
        Ok(Meter { began: Instant::now(), mark: self.site.bed.mark(), cpu })
    }

    /// One operation in slow motion: `act` through the client's keyboard and mouse, then quiet. The
    /// session must rest before. `act` returns the time of the input.
    pub fn operation(
        &mut self,
        act: impl FnOnce(&Input) -> Result<Instant, Error>,
    ) -> Result<Operation, Error> {
        self.operation_within(LIMIT, act)
    }

    /// As [`Stage::operation`], with a limit of its own.
    pub fn operation_within(
        &mut self,
        limit: Duration,
        act: impl FnOnce(&Input) -> Result<Instant, Error>,
    ) -> Result<Operation, Error> {
        let watch = self.site.screen.watch()?;
        let meter = self.meter()?;
        let input = act(&self.input)?;
        wait_for("the operation changes the client's screen", limit, || {
            watch.changed().then_some(())
        })?;
        self.wait_quiet(&watch, &meter.mark, limit)?;
        let mut spent = meter.read(self)?;
        let (mut reference, mut shown) = (self.server_picture()?, self.seen()?);
        // A busy machine can keep a viewer from running for longer than quiet lasts: a picture that
        // is not exact is compared again as long as it changes.
        for _ in 0..AGAIN_MAX {
            let last = watch.last_change();
            if shown == reference {
                break;
            }
            std::thread::sleep(self.quiet_gap());
            if watch.last_change() == last {
                break;
            }
            self.wait_quiet(&watch, &meter.mark, limit)?;
            spent = meter.read(self)?;
            (reference, shown) = (self.server_picture()?, self.seen()?);
        }
        let changes = watch.finish()?.within(self.view);
        let ms = |at: Instant| at.saturating_duration_since(input).as_secs_f64() * 1e3;
        Ok(Operation {
            packets_ms: conversation_ms(&spent.traffic, input, self.quiet_gap()),
            photon_ms: changes.first_from(input).map(ms),
            visible_ms: changes.visible().map(ms),
            exact_ms: changes.exact(&reference, (self.view.x, self.view.y)).map(ms),
            exact_share: exact_share(&reference, &shown),
            psnr_db: psnr_db(&reference, &shown),
            spent,
        })
    }

    /// The session's picture on the client's screen.
    pub fn seen(&self) -> Result<Picture, Error> {
        Ok(self.site.screen.picture()?.crop(self.view))
    }

    /// The part of the session's screen that the client can see, as the session's X server has it.
    pub fn server_picture(&self) -> Result<Picture, Error> {
        if self.is_local() {
            return Ok(self.site.screen.picture()?.crop(self.view));
        }
        let whole = Picture::of_display(&self.desk.display, self.desk.xauthority.as_deref())?;
        Ok(whole.crop(Rect { x: 0, y: 0, width: self.view.width, height: self.view.height }))
    }
}

fn set_environment(command: &mut Command, desk: &Desk) {
    command.env("DISPLAY", &desk.display).env_remove("WAYLAND_DISPLAY").env_remove("XAUTHORITY");
    if let Some(file) = &desk.xauthority {
        command.env("XAUTHORITY", file);
    }
    command.envs(desk.env.iter().map(|(name, value)| (name, value)));
}

fn find_pattern(picture: &Picture) -> Option<(i32, i32)> {
    let (across, down) =
        (picture.width.checked_sub(PATTERN.0)?, picture.height.checked_sub(PATTERN.1)?);
    let code_at = |x: u32, y: u32| {
        let area = Rect { x: x as i32, y: y as i32, width: PATTERN.0, height: PATTERN.1 };
        barcode::read(picture, area) == Some(PATTERN_NUMBER)
    };
    // Bars are wider than a pixel: the pattern can also be read a few pixels off its place.
    let found: Vec<(u32, u32)> = (0..=down.min(200))
        .flat_map(|y| (0..=across.min(400)).map(move |x| (x, y)))
        .filter(|&(x, y)| code_at(x, y))
        .collect();
    let exact = |&&(x, y): &&(u32, u32)| {
        let mut pixels = vec![0_u32; (PATTERN.0 * PATTERN.1) as usize];
        barcode::draw(
            PATTERN_NUMBER,
            &mut pixels,
            PATTERN.0 as usize,
            Rect { x: 0, y: 0, width: PATTERN.0, height: PATTERN.1 },
        );
        let area = Rect { x: x as i32, y: y as i32, width: PATTERN.0, height: PATTERN.1 };
        // A lossy viewer changes pixels: the place with the smallest difference is chosen.
        difference(&picture.crop(area).pixels, &pixels)
    };
    found.iter().min_by_key(exact).map(|&(x, y)| (x as i32, y as i32))
}

fn difference(a: &[u32], b: &[u32]) -> u64 {
    let green = |pixel: u32| i64::from(pixel >> 8 & 0xff);
    a.iter().zip(b).map(|(&a, &b)| green(a).abs_diff(green(b))).sum()
}

/// Bytes to the viewer within the last `gap`.
fn recent_bytes(traffic: &Traffic, now: Instant, gap: Duration) -> u64 {
    let recent = |at: Instant| now.saturating_duration_since(at) < gap;
    let down = traffic
        .packets
        .iter()
        .filter(|packet| packet.direction == Direction::Down && recent(packet.at));
    down.map(|packet| u64::from(packet.bytes)).sum()
}

/// From the first packet of the viewer to the last of the server with a payload, milliseconds: the
/// papers' latency. A packet after a pause as long as quiet is a heartbeat and does not count.
fn conversation_ms(traffic: &Traffic, input: Instant, gap: Duration) -> Option<f64> {
    let mut speaking =
        traffic.packets.iter().filter(|packet| packet.payload > 0 && packet.at >= input);
    let first = speaking.by_ref().find(|packet| packet.direction == Direction::Up)?.at;
    let mut last = None;
    let mut previous = first;
    for packet in speaking {
        if packet.at.saturating_duration_since(previous) > gap {
            break;
        }
        previous = packet.at;
        if packet.direction == Direction::Down {
            last = Some(packet.at);
        }
    }
    last.map(|last| last.duration_since(first).as_secs_f64() * 1e3)
}

const GROUPS: [Group; 3] = [Group::Server, Group::Apps, Group::Client];

fn cpu(accounts: &Accounts) -> Result<[f64; 3], Error> {
    let [server, apps, client] = GROUPS.map(|group| accounts.cpu_ms(group));
    Ok([server?, apps?, client?])
}

/// A running count of time, traffic and CPU.
pub struct Meter {
    /// When it began.
    pub began: Instant,
    mark: Mark,
    cpu: [f64; 3],
}

impl Meter {
    /// What was spent since it began.
    pub fn read(&self, stage: &Stage) -> Result<Spent, Error> {
        let seconds = self.began.elapsed().as_secs_f64();
        let traffic = stage.site.bed.since(&self.mark);
        let now = cpu(&stage.site.accounts)?;
        let [cpu_server_ms, cpu_apps_ms, cpu_client_ms] = [0, 1, 2].map(|i| now[i] - self.cpu[i]);
        Ok(Spent { seconds, traffic, cpu_server_ms, cpu_apps_ms, cpu_client_ms })
    }
}

/// What a stretch of time cost.
#[derive(Clone, Debug)]
pub struct Spent {
    /// How long it was.
    pub seconds: f64,
    /// Every packet in it.
    pub traffic: Traffic,
    /// CPU of the display system on the server, ms.
    pub cpu_server_ms: f64,
    /// CPU of the applications, ms.
    pub cpu_apps_ms: f64,
    /// CPU of the viewer and its X server, ms.
    pub cpu_client_ms: f64,
}

/// One operation in slow motion.
#[derive(Clone, Debug)]
pub struct Operation {
    /// First to last packet, ms; none where nothing crossed the network.
    pub packets_ms: Option<f64>,
    /// Input to the first changed pixel, ms.
    pub photon_ms: Option<f64>,
    /// Input to a picture that looks final, ms.
    pub visible_ms: Option<f64>,
    /// Input to a picture that is final bit for bit, ms; none where it never is.
    pub exact_ms: Option<f64>,
    /// Share of exact pixels in the end.
    pub exact_share: f64,
    /// PSNR in the end, dB; 99 stands for identical.
    pub psnr_db: f64,
    /// What it cost.
    pub spent: Spent,
}

/// The measures of operations of one kind.
pub fn measures(part: &str, operations: &[Operation]) -> Vec<Measure> {
    let ms = |quantity: &str, value: &dyn Fn(&Operation) -> Option<f64>| {
        Measure::lower(quantity, part, "ms", operations.iter().filter_map(value))
    };
    let exact = operations.iter().map(|operation| operation.exact_share);
    let psnr = operations.iter().map(|operation| operation.psnr_db);
    let mut found = vec![
        ms(quantity::PACKETS_MS, &|operation| operation.packets_ms),
        ms(quantity::PHOTON_MS, &|operation| operation.photon_ms),
        ms(quantity::VISIBLE_MS, &|operation| operation.visible_ms),
        ms(quantity::EXACT_MS, &|operation| operation.exact_ms),
        Measure::higher(quantity::EXACT_SHARE, part, "share", exact),
        Measure::higher(quantity::PSNR_DB, part, "dB", psnr),
    ];
    found.extend(cost_measures(part, operations.iter().map(|operation| &operation.spent)));
    found
}

/// Bytes, packets and CPU of stretches of time.
pub fn cost_measures<'s>(
    part: &str,
    spent: impl IntoIterator<Item = &'s Spent> + Clone,
) -> Vec<Measure> {
    use Direction::{Down, Up};
    let measure = |quantity: &str, unit: &str, value: &dyn Fn(&Spent) -> f64| {
        Measure::lower(quantity, part, unit, spent.clone().into_iter().map(value))
    };
    vec![
        measure(quantity::BYTES_DOWN, "bytes", &|spent| spent.traffic.bytes(Down) as f64),
        measure(quantity::BYTES_UP, "bytes", &|spent| spent.traffic.bytes(Up) as f64),
        measure(quantity::PACKETS_DOWN, "packets", &|spent| spent.traffic.packets(Down) as f64),
        measure(quantity::PACKETS_UP, "packets", &|spent| spent.traffic.packets(Up) as f64),
        measure(quantity::CPU_SERVER_MS, "ms", &|spent| spent.cpu_server_ms),
        measure(quantity::CPU_APPS_MS, "ms", &|spent| spent.cpu_apps_ms),
        measure(quantity::CPU_CLIENT_MS, "ms", &|spent| spent.cpu_client_ms),
    ]
}

/// Sums over all operations of one kind.
pub fn totals(part: &str, operations: &[Operation]) -> Vec<Measure> {
    let part = format!("all {part} together");
    let costs = cost_measures(&part, operations.iter().map(|operation| &operation.spent));
    let sum = |measure: Measure| Measure { samples: vec![measure.samples.iter().sum()], ..measure };
    costs.into_iter().filter(|m| m.unit != "packets").map(sum).collect()
}

/// No decoration, every window at the upper left corner with the focus, and no key or button of its
/// own.
const OPENBOX: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<openbox_config xmlns="http://openbox.org/3.4/rc">
  <focus><focusNew>yes</focusNew><followMouse>no</followMouse></focus>
  <desktops><number>1</number><popupTime>0</popupTime></desktops>
  <resize><popupShow>Never</popupShow></resize>
  <keyboard></keyboard>
  <mouse><context name="Client"><mousebind button="Left" action="Press">
    <action name="Focus"/><action name="Raise"/>
  </mousebind></context></mouse>
  <applications>
    <application class="*"><decor>no</decor><focus>yes</focus></application>
    <application class="*" type="normal">
      <position force="yes"><x>0</x><y>0</y></position>
    </application>
  </applications>
</openbox_config>
"#;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::net::testbed::Packet;

    /// One that sent so many bytes, was visible after so long, and took so much CPU of the server.
    pub(crate) fn operation(bytes: u32, visible_ms: f64, cpu_server_ms: f64) -> Operation {
        Operation {
            packets_ms: None,
            photon_ms: None,
            visible_ms: Some(visible_ms),
            exact_ms: None,
            exact_share: 1.0,
            psnr_db: 99.0,
            spent: spent(bytes, cpu_server_ms),
        }
    }

    /// A stretch of time with one packet to the viewer.
    pub(crate) fn spent(bytes: u32, cpu_server_ms: f64) -> Spent {
        let packet =
            Packet { at: Instant::now(), direction: Direction::Down, bytes, payload: bytes };
        let traffic = Traffic { packets: vec![packet], ..Traffic::default() };
        Spent { seconds: 1.0, traffic, cpu_server_ms, cpu_apps_ms: 1.0, cpu_client_ms: 2.0 }
    }

    /// Packets at these milliseconds after `start`: time, direction, payload.
    fn traffic(start: Instant, packets: &[(u64, Direction, u32)]) -> Traffic {
        let packet = |&(ms, direction, payload): &(u64, Direction, u32)| Packet {
            at: start + Duration::from_millis(ms),
            direction,
            bytes: payload + 52,
            payload,
        };
        Traffic { packets: packets.iter().map(packet).collect(), ..Traffic::default() }
    }

    #[test]
    fn a_conversation_ends_with_the_servers_last_word_before_quiet() {
        use Direction::{Down, Up};
        let (start, gap) = (Instant::now(), Duration::from_millis(400));
        let said =
            [(2, Up, 40), (5, Down, 0), (9, Down, 900), (30, Down, 500), (31, Up, 0), (40, Up, 60)];
        let close = |ms: Option<f64>, to: f64| ms.is_some_and(|ms| (ms - to).abs() < 1e-6);
        assert!(close(conversation_ms(&traffic(start, &said), start, gap), 28.0));
        let with_heartbeat = [&said[..], &[(900, Down, 100)]].concat();
        assert!(close(conversation_ms(&traffic(start, &with_heartbeat), start, gap), 28.0));
        let earlier = start + Duration::from_millis(35);
        assert_eq!(
            conversation_ms(&traffic(start, &said), earlier, gap),
            None,
            "the server said nothing after the input"
        );
    }

    #[test]
    fn a_heartbeat_is_told_by_its_bytes() {
        let start = Instant::now();
        let said = traffic(
            start,
            &[(0, Direction::Down, 5000), (500, Direction::Down, 100), (510, Direction::Up, 9000)],
        );
        assert_eq!(
            recent_bytes(&said, start + Duration::from_millis(600), Duration::from_millis(400)),
            152
        );
    }

    #[test]
    fn the_pattern_is_found_where_it_is_also_after_lossy_coding() {
        let (width, height) = (640, 200);
        for (x, y) in [(0, 0), (7, 31), (100, 9)] {
            let mut picture =
                Picture { width, height, pixels: vec![0x0030_6090; (width * height) as usize] };
            let area = Rect { x, y, width: PATTERN.0, height: PATTERN.1 };
            barcode::draw(PATTERN_NUMBER, &mut picture.pixels, width as usize, area);
            // Every pixel a little wrong, by its place.
            for (i, pixel) in picture.pixels.iter_mut().enumerate() {
                let off = (i as u32).wrapping_mul(2_654_435_761) >> 28;
                let channel = |shift: u32| ((*pixel >> shift & 0xff).saturating_sub(off)) << shift;
                *pixel = channel(16) | channel(8) | channel(0);
            }
            assert_eq!(find_pattern(&picture), Some((x, y)));
        }
        let empty = Picture { width, height, pixels: vec![0; (width * height) as usize] };
        assert_eq!(find_pattern(&empty), None);
    }
}
