//! Path back, beside the outputs: publishes the scale of the desktop, as an ordinary X client on a
//! thread of its own.
//! From DISPLAYS through actor/requests.rs, to what toolkits read: XSETTINGS (GTK) and Xft.dpi in
//! the resource database (Qt, xterm). Knows settings; never viewers. A settings daemon of the
//! desktop environment takes precedence, and its settings are not changed.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use tracing::{info, warn};
use x11rb::connection::Connection as _;
use x11rb::protocol::Event as XEvent;
use x11rb::protocol::xproto::*;
use x11rb::rust_connection::RustConnection;
use x11rb::wrapper::ConnectionExt as _;

/// Dots per inch at 100 %.
const DPI: u32 = 96;
/// Longest resource database that is read, in words: far more than desktops have.
const RESOURCES_WORDS_MAX: u32 = 64 * 1024;

/// Sets the scale.
#[derive(Debug)]
pub(crate) struct XSettings {
    percent: Arc<AtomicU16>,
    wake: Option<UnixStream>,
}

/// Starts the thread, which connects once the scale is not 100 %. It does not delay the end of the
/// process.
pub(crate) fn start(display: &str) -> XSettings {
    let percent = Arc::new(AtomicU16::new(100));
    let pair = UnixStream::pair().and_then(|(ours, theirs)| {
        ours.set_nonblocking(true)?;
        theirs.set_nonblocking(true)?;
        Ok((ours, theirs))
    });
    let wake = match pair {
        Ok((ours, theirs)) => {
            let (name, percent) = (display.to_owned(), percent.clone());
            thread::spawn(move || {
                if let Err(error) = run(&name, &percent, theirs) {
                    info!("the scale of the desktop is no longer published: {error}");
                }
            });
            Some(ours)
        }
        Err(error) => {
            warn!("cannot publish the scale of the desktop: {error}");
            None
        }
    };
    XSettings { percent, wake }
}

impl XSettings {
    /// Sets the scale, where 100 and 0 mean 96 dots per inch. Only the newest counts.
    pub(crate) fn set_scale(&mut self, percent: u16) {
        let percent = if percent == 0 { 100 } else { percent };
        if self.percent.swap(percent, Ordering::Relaxed) != percent
            && let Some(wake) = &mut self.wake
        {
            // Full: the thread is awake already. Closed: the thread has ended.
            let _ = wake.write(&[0]);
        }
    }
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn run(display: &str, percent: &AtomicU16, mut wake: UnixStream) -> Result<(), Failure> {
    let mut manager: Option<Manager> = None;
    loop {
        let mut fds = vec![PollFd::new(&wake, PollFlags::IN)];
        if let Some(manager) = &manager {
            fds.push(PollFd::new(manager.x.stream(), PollFlags::IN));
        }
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        match wake.read(&mut [0; 64]) {
            Ok(0) => return Ok(()),
            Err(error) if error.kind() != std::io::ErrorKind::WouldBlock => {
                return Err(error.into());
            }
            _ => {}
        }
        let percent = percent.load(Ordering::Relaxed);
        let manager = match &mut manager {
            Some(manager) => manager,
            // Nothing was published, and 100 % is the default: the selection stays free for a
            // settings daemon of the desktop.
            None if percent == 100 => continue,
            None => manager.insert(Manager::connect(display)?),
        };
        // Events that arrive during a request are queued in x11rb, where poll does not see them.
        manager.take_events()?;
        manager.publish(percent)?;
        while manager.take_events()? {
            manager.publish(percent)?;
        }
    }
}

/// The connection and what it owns.
struct Manager {
    x: RustConnection,
    root: Window,
    window: Window,
    selection: Atom,
    settings: Atom,
    announcement: Atom,
    /// The window of another settings manager; this one waits until it is destroyed.
    other_owner: Window,
    /// The percentage that was published last, and the serial of the settings.
    published: Option<u16>,
    serial: u32,
}

impl Manager {
    fn connect(display: &str) -> Result<Manager, Failure> {
        // Reads XAUTHORITY from the environment, where the supervisor put it.
        let (x, screen) = x11rb::connect(Some(display))?;
        let atom = |name: &str| -> Result<Atom, Failure> {
            Ok(x.intern_atom(false, name.as_bytes())?.reply()?.atom)
        };
        let selection = atom(&format!("_XSETTINGS_S{screen}"))?;
        let (settings, announcement) = (atom("_XSETTINGS_SETTINGS")?, atom("MANAGER")?);
        let root = x.setup().roots[screen].root;
        let window = x.generate_id()?;
        let aux =
            CreateWindowAux::new().override_redirect(1).event_mask(EventMask::PROPERTY_CHANGE);
        x.create_window(0, window, root, -1, -1, 1, 1, 0, WindowClass::INPUT_ONLY, 0, &aux)?;
        Ok(Manager {
            x,
            root,
            window,
            selection,
            settings,
            announcement,
            other_owner: 0,
            published: None,
            serial: 0,
        })
    }

    /// Handles queued events; true if there were any.
    fn take_events(&mut self) -> Result<bool, Failure> {
        let mut any = false;
        while let Some(event) = self.x.poll_for_event()? {
            match event {
                XEvent::SelectionClear(clear) if clear.selection == self.selection => {
                    info!("a settings daemon of the desktop has taken over the scale");
                    self.published = None;
                }
                XEvent::DestroyNotify(gone) if gone.window == self.other_owner => {
                    self.other_owner = 0
                }
                _ => {}
            }
            any = true;
        }
        Ok(any)
    }

    fn publish(&mut self, percent: u16) -> Result<(), Failure> {
        if self.other_owner != 0 || self.published == Some(percent) {
            return Ok(());
        }
        // Gets a server timestamp, as ICCCM requires to own a selection.
        self.x.change_property8(
            PropMode::APPEND,
            self.window,
            AtomEnum::WM_NAME,
            AtomEnum::STRING,
            &[],
        )?;
        self.x.flush()?;
        let time = loop {
            match self.x.wait_for_event()? {
                XEvent::PropertyNotify(notify) if notify.atom == u32::from(AtomEnum::WM_NAME) => {
                    break notify.time;
                }
                XEvent::SelectionClear(clear) if clear.selection == self.selection => {
                    self.published = None
                }
                _ => {}
            }
        };
        // With the server grabbed, nobody can take the selection in between.
        self.x.grab_server()?;
        let owner = self.x.get_selection_owner(self.selection)?.reply();
        if let Ok(owner) = &owner
            && owner.owner == 0
        {
            self.x.set_selection_owner(self.window, self.selection, time)?;
        } else if let Ok(owner) = &owner
            && owner.owner != self.window
        {
            let watch = ChangeWindowAttributesAux::new().event_mask(EventMask::STRUCTURE_NOTIFY);
            self.x.change_window_attributes(owner.owner, &watch)?;
        }
        self.x.ungrab_server()?;
        self.x.flush()?;
        let owner = owner?.owner;
        if owner != 0 && owner != self.window {
            self.other_owner = owner;
            return Ok(());
        }
        self.serial += 1;
        let settings = settings(percent, self.serial);
        self.x.change_property8(
            PropMode::REPLACE,
            self.window,
            self.settings,
            self.settings,
            &settings,
        )?;
        if owner == 0 {
            let data = [time, self.selection, self.window, 0, 0];
            let message = ClientMessageEvent::new(32, self.root, self.announcement, data);
            self.x.send_event(false, self.root, EventMask::STRUCTURE_NOTIFY, message)?;
        }
        self.set_resource(percent)?;
        self.x.sync()?;
        self.published = Some(percent);
        info!("the scale of the desktop is now {percent} %");
        Ok(())
    }

    fn set_resource(&self, percent: u16) -> Result<(), Failure> {
        let (property, kind) = (AtomEnum::RESOURCE_MANAGER, AtomEnum::STRING);
        let before = self
            .x
            .get_property(false, self.root, property, kind, 0, RESOURCES_WORDS_MAX)?
            .reply()?;
        if before.bytes_after > 0 {
            return Ok(());
        }
        let after = with_dpi(&before.value, dpi(percent));
        self.x.change_property8(PropMode::REPLACE, self.root, property, kind, &after)?;
        Ok(())
    }
}

fn dpi(percent: u16) -> u32 {
    DPI * u32::from(percent) / 100
}

/// The settings that GTK reads: windows are scaled by an integer factor, and the text size makes up
/// the rest.
fn settings(percent: u16, serial: u32) -> Vec<u8> {
    let factor = u32::from(percent / 100).max(1);
    let dpi = 1024 * DPI * u32::from(percent) / 100;
    let all: [(&str, u32); 3] =
        [("Gdk/UnscaledDPI", dpi / factor), ("Gdk/WindowScalingFactor", factor), ("Xft/DPI", dpi)];
    let mut out = vec![0; 4];
    out.extend(serial.to_le_bytes());
    out.extend((all.len() as u32).to_le_bytes());
    for (name, value) in all {
        out.extend([0, 0]);
        out.extend((name.len() as u16).to_le_bytes());
        out.extend(name.as_bytes());
        out.resize(out.len().next_multiple_of(4), 0);
        out.extend(serial.to_le_bytes());
        out.extend(value.to_le_bytes());
    }
    out
}

/// A resource database with this Xft.dpi; all other resources stay.
fn with_dpi(resources: &[u8], dpi: u32) -> Vec<u8> {
    let is_dpi = |line: &[u8]| line.trim_ascii_start().starts_with(b"Xft.dpi:");
    let mut out = Vec::with_capacity(resources.len() + 16);
    for line in resources.split_inclusive(|&byte| byte == b'\n').filter(|line| !is_dpi(line)) {
        out.extend_from_slice(line);
    }
    if out.last().is_some_and(|&byte| byte != b'\n') {
        out.push(b'\n');
    }
    out.extend_from_slice(format!("Xft.dpi:\t{dpi}\n").as_bytes());
    out
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::BufRead as _;
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    use super::*;

    /// Longer than an X server takes on a busy machine.
    const TIMEOUT: Duration = Duration::from_secs(120);

    /// Parses the settings like GTK.
    fn parse(bytes: &[u8]) -> BTreeMap<String, i32> {
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_eq!(bytes[0], 0, "little-endian");
        let mut at = 12;
        let mut all = BTreeMap::new();
        for _ in 0..word(8) {
            assert_eq!(bytes[at], 0, "a number");
            let length = usize::from(u16::from_le_bytes([bytes[at + 2], bytes[at + 3]]));
            let name = String::from_utf8(bytes[at + 4..at + 4 + length].to_vec()).unwrap();
            at += 4 + length.next_multiple_of(4);
            all.insert(name, word(at + 4).cast_signed());
            at += 8;
        }
        assert_eq!(at, bytes.len());
        all
    }

    #[test]
    fn windows_have_integer_factors_and_the_text_size_the_rest() {
        let at = |percent| {
            let all = parse(&settings(percent, 7));
            (all["Gdk/WindowScalingFactor"], all["Gdk/UnscaledDPI"], all["Xft/DPI"])
        };
        assert_eq!(at(100), (1, 96 * 1024, 96 * 1024));
        assert_eq!(at(150), (1, 144 * 1024, 144 * 1024));
        assert_eq!(at(200), (2, 96 * 1024, 192 * 1024));
        assert_eq!(at(250), (2, 120 * 1024, 240 * 1024));
        assert_eq!(at(50), (1, 48 * 1024, 48 * 1024));
    }

    #[test]
    fn other_resources_are_kept() {
        assert_eq!(with_dpi(b"", 192), b"Xft.dpi:\t192\n");
        assert_eq!(
            with_dpi(b"Xft.dpi: 96\nXTerm*font: fixed", 144),
            b"XTerm*font: fixed\nXft.dpi:\t144\n"
        );
    }

    struct Server(Child);

    impl Drop for Server {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    fn server() -> (Server, String) {
        let mut child = Command::new("Xvfb")
            .args([
                "-displayfd",
                "1",
                "-screen",
                "0",
                "320x240x24",
                "-nolisten",
                "tcp",
                "-ac",
                "-noreset",
            ])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("Xvfb starts (install xvfb)");
        let mut line = String::new();
        std::io::BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        (Server(child), format!(":{}", line.trim()))
    }

    /// A GTK program, or a settings daemon.
    struct Client {
        x: RustConnection,
        root: Window,
        selection: Atom,
        settings: Atom,
    }

    impl Client {
        fn new(display: &str) -> Client {
            let (x, screen) = x11rb::connect(Some(display)).unwrap();
            let atom = |name: &[u8]| x.intern_atom(false, name).unwrap().reply().unwrap().atom;
            let (selection, settings) = (atom(b"_XSETTINGS_S0"), atom(b"_XSETTINGS_SETTINGS"));
            let root = x.setup().roots[screen].root;
            // The announcement of a new manager, and changes of the resource database, which are
            // the last to be written.
            let mask = EventMask::STRUCTURE_NOTIFY | EventMask::PROPERTY_CHANGE;
            x.change_window_attributes(root, &ChangeWindowAttributesAux::new().event_mask(mask))
                .unwrap();
            x.sync().unwrap();
            Client { x, root, selection, settings }
        }

        fn owner(&self) -> Window {
            self.x.get_selection_owner(self.selection).unwrap().reply().unwrap().owner
        }

        fn settings(&self) -> BTreeMap<String, i32> {
            let (owner, kind) = (self.owner(), self.settings);
            parse(
                &self
                    .x
                    .get_property(false, owner, kind, kind, 0, 999)
                    .unwrap()
                    .reply()
                    .unwrap()
                    .value,
            )
        }

        fn wait(&self, what: impl Fn(&XEvent) -> bool) {
            let deadline = Instant::now() + TIMEOUT;
            loop {
                while let Some(event) = self.x.poll_for_event().unwrap() {
                    if what(&event) {
                        return;
                    }
                }
                let left = deadline.saturating_duration_since(Instant::now());
                assert!(!left.is_zero(), "the event did not arrive");
                let timeout = rustix::event::Timespec {
                    tv_sec: left.as_secs().cast_signed() + 1,
                    tv_nsec: 0,
                };
                poll(&mut [PollFd::new(self.x.stream(), PollFlags::IN)], Some(&timeout)).unwrap();
            }
        }

        fn wait_for_resources(&self) {
            let atom = u32::from(AtomEnum::RESOURCE_MANAGER);
            self.wait(
                |event| matches!(event, XEvent::PropertyNotify(notify) if notify.atom == atom),
            );
        }

        fn own(&self) -> Window {
            let window = self.x.generate_id().unwrap();
            let aux = CreateWindowAux::new();
            self.x
                .create_window(
                    0,
                    window,
                    self.root,
                    0,
                    0,
                    1,
                    1,
                    0,
                    WindowClass::INPUT_ONLY,
                    0,
                    &aux,
                )
                .unwrap();
            self.x.set_selection_owner(window, self.selection, x11rb::CURRENT_TIME).unwrap();
            self.x.sync().unwrap();
            window
        }
    }

    #[test]
    fn settings_are_published_until_the_desktop_has_a_daemon() {
        let (_server, display) = server();
        let client = Client::new(&display);
        let mut xsettings = start(&display);
        xsettings.set_scale(0);
        xsettings.set_scale(200);
        client.wait(|event| match event {
            XEvent::ClientMessage(message) => message.data.as_data32()[1] == client.selection,
            _ => false,
        });
        client.wait_for_resources();
        assert_eq!(client.settings()["Gdk/WindowScalingFactor"], 2);
        let (kind, name) = (AtomEnum::STRING, AtomEnum::RESOURCE_MANAGER);
        let resources = client
            .x
            .get_property(false, client.root, name, kind, 0, 99)
            .unwrap()
            .reply()
            .unwrap()
            .value;
        assert_eq!(resources, b"Xft.dpi:\t192\n");
        xsettings.set_scale(150);
        client.wait_for_resources();
        assert_eq!(client.settings()["Xft/DPI"], 144 * 1024);

        // A daemon takes over: its settings are not changed.
        let ours = client.owner();
        let theirs = client.own();
        assert_ne!(ours, theirs);
        xsettings.set_scale(300);
        xsettings.set_scale(100);
        xsettings.set_scale(250);
        // It ends: this process owns the selection again, with the newest scale.
        client.x.destroy_window(theirs).unwrap();
        client.x.sync().unwrap();
        client.wait_for_resources();
        assert_eq!(client.owner(), ours);
        // Which of the scales the thread had seen by then is not determined.
        while client.settings()["Xft/DPI"] != 240 * 1024 {
            client.wait_for_resources();
        }
        drop(xsettings);
    }

    #[test]
    fn a_daemon_that_was_there_first_keeps_the_selection() {
        let (_server, display) = server();
        let client = Client::new(&display);
        let theirs = client.own();
        let mut xsettings = start(&display);
        xsettings.set_scale(200);
        // The thread has found the daemon once it selects events of its window.
        let watched = || {
            let says = client.x.get_window_attributes(theirs).unwrap().reply().unwrap();
            says.all_event_masks.contains(EventMask::STRUCTURE_NOTIFY)
        };
        let deadline = Instant::now() + TIMEOUT;
        while !watched() {
            assert!(Instant::now() < deadline, "the thread did not find the daemon");
            thread::yield_now();
        }
        assert_eq!(client.owner(), theirs);
        client.x.destroy_window(theirs).unwrap();
        client.x.sync().unwrap();
        client.wait_for_resources();
        assert_eq!(
            client.settings()["Gdk/WindowScalingFactor"],
            2,
            "the selection is taken once the daemon has ended"
        );
    }
}
