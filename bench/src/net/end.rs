//! One end of the testbed: a process that holds a network namespace, with a TUN device whose
//! descriptor it passes on. Beside the path, under testbed.rs. The half that runs inside is the
//! hidden subcommand `hold-end`; it ends, and the namespace with it, when the testbed closes the
//! socket on its standard input. Knows namespaces; never packets.

use std::ffi::OsStr;
use std::fs;
use std::io::{IoSlice, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, Shutdown};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

use crate::Error;
use crate::process;

/// Name of the device in both namespaces.
pub const DEVICE: &str = "thinc0";

/// Largest IP packet in bytes, as on Ethernet.
pub const MTU: u16 = 1500;

/// Packets that the kernel may hold until the emulator's thread runs: 100 ms of full packets at 1
/// Gbit/s. The default of 500 would drop packets if the thread is late by 6 ms at that rate; only
/// the emulated queue may drop packets.
const DEVICE_QUEUE_PACKETS: u32 = 8192;

/// Longest start of the inner half, which makes a few system calls and runs `ip`.
const START_TIME_MAX: Duration = Duration::from_secs(20);

/// Longest message of the inner half, bytes.
const MESSAGE_BYTES_MAX: usize = 4096;

/// Set for the program that [`as_user_namespace`] starts, so that it does not start itself again.
const REEXEC_MARK: &str = "THINC_BENCH_USER_NAMESPACE";

/// Options of the inner half.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Address of the device.
    #[arg(long)]
    address: Ipv4Addr,
    /// TCP congestion control to set.
    #[arg(long)]
    congestion: Option<String>,
}

/// A namespace with its device, as the testbed holds it.
pub struct End {
    child: Child,
    socket: UnixStream,
    congestion: String,
    slow_start_after_idle: bool,
}

impl End {
    /// Makes a namespace whose device has this address, and gives the device's descriptor, which
    /// does not block.
    pub fn start(address: Ipv4Addr, congestion: Option<&str>) -> Result<(End, OwnedFd), Error> {
        let (socket, inside) = UnixStream::pair()?;
        socket.set_read_timeout(Some(START_TIME_MAX))?;
        let mut command = Command::new("unshare");
        command
            .args(["--net", "--"])
            .arg(program()?)
            .arg("hold-end")
            .arg("--address")
            .arg(address.to_string());
        if let Some(congestion) = congestion {
            command.arg("--congestion").arg(congestion);
        }
        // A process group of its own: Ctrl-C in a terminal goes to the testbed, which then ends
        // this process in order.
        command
            .stdin(Stdio::from(OwnedFd::from(inside)))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0);
        let mut child = command
            .spawn()
            .map_err(|e| format!("cannot run unshare (Debian package util-linux): {e}"))?;
        // The command keeps a copy of the inner socket; it is dropped here so that the end of the
        // child is noticed.
        drop(command);
        match receive(&socket) {
            Ok((settings, device)) => {
                let (congestion, after_idle) = settings
                    .split_once(' ')
                    .ok_or("a network namespace sent no settings of TCP")?;
                let (congestion, slow_start_after_idle) =
                    (congestion.to_owned(), after_idle == "1");
                Ok((End { child, socket, congestion, slow_start_after_idle }, device))
            }
            Err(error) => {
                let _ = child.kill();
                let mut words = String::new();
                if let Some(stderr) = &mut child.stderr {
                    let _ = stderr.read_to_string(&mut words);
                }
                let _ = child.wait();
                let words = words.trim();
                Err(if words.is_empty() {
                    format!("a network namespace did not start: {error}").into()
                } else {
                    format!("a network namespace did not start: {words}").into()
                })
            }
        }
    }

    /// The TCP congestion control in force there.
    pub fn congestion(&self) -> &str {
        &self.congestion
    }

    /// Whether net.ipv4.tcp_slow_start_after_idle is set there.
    pub fn slow_start_after_idle(&self) -> bool {
        self.slow_start_after_idle
    }

    /// Replaces the device's address.
    pub fn change_address(&self, old: Ipv4Addr, new: Ipv4Addr) -> Result<(), Error> {
        // The old one goes first: the new one would be its secondary and go with it.
        for (verb, address) in [("del", old), ("add", new)] {
            let output = self
                .command(OsStr::new("ip"))
                .args(["address", verb, &format!("{address}/24"), "dev", DEVICE])
                .output()
                .map_err(|e| format!("cannot run ip (Debian package iproute2): {e}"))?;
            if !output.status.success() {
                let words = String::from_utf8_lossy(&output.stderr);
                return Err(format!("`ip address {verb} {address}/24`: {}", words.trim()).into());
            }
        }
        Ok(())
    }

    /// Its namespace, for nsenter.
    pub fn namespace(&self) -> PathBuf {
        // The process id is not reused: the child is waited for only when this is dropped.
        PathBuf::from(format!("/proc/{}/ns/net", self.child.id()))
    }

    /// A command that runs inside.
    pub fn command(&self, program: &OsStr) -> Command {
        let mut command = Command::new("nsenter");
        let mut namespace = std::ffi::OsString::from("--net=");
        namespace.push(self.namespace());
        command.arg(namespace).arg("--").arg(program);
        command
    }

    /// An error when the process that holds it has ended.
    pub fn check(&mut self) -> Result<(), Error> {
        match self.child.try_wait()? {
            Some(status) => {
                Err(format!("the process that holds a network namespace ended: {status}").into())
            }
            None => Ok(()),
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let _ = self.socket.shutdown(Shutdown::Both);
        let _ = self.child.wait();
    }
}

/// thinc-bench itself: this program, or the one beside the test that this is.
pub fn program() -> Result<PathBuf, Error> {
    let current = std::env::current_exe()?;
    if current.file_name() == Some(OsStr::new("thinc-bench")) {
        return Ok(current);
    }
    // Cargo puts tests one folder below the binaries.
    let beside = current.parent().and_then(Path::parent).map(|folder| folder.join("thinc-bench"));
    match beside.filter(|path| path.exists()) {
        Some(path) => Ok(path),
        None => process::binary("thinc-bench"),
    }
}

/// The message of the inner half when all is ready: the congestion control and whether slow start
/// begins again after idle ("cubic 1"), with the device's descriptor.
fn receive(socket: &UnixStream) -> Result<(String, OwnedFd), Error> {
    let mut bytes = [0; MESSAGE_BYTES_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let message = rustix::net::recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut bytes)],
        &mut control,
        RecvFlags::CMSG_CLOEXEC,
    )
    .map_err(|e| format!("it sent no message within {} s: {e}", START_TIME_MAX.as_secs()))?;
    let device = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    match device {
        Some(device) => Ok((std::str::from_utf8(&bytes[..message.bytes])?.to_owned(), device)),
        None => Err("it ended without a message".into()),
    }
}

/// The inner half: prepares the namespace that it was started in, passes the device on, and waits
/// until the testbed closes the socket.
pub fn hold(options: &Options) -> Result<(), Error> {
    // The kernel would send neighbour discovery over IPv6 on an otherwise idle link. lo keeps its
    // ::1.
    let ipv6 = Path::new("/proc/sys/net/ipv6/conf/default/disable_ipv6");
    if ipv6.exists() {
        fs::write(ipv6, "1").map_err(|e| format!("{}: {e}", ipv6.display()))?;
    }
    let device = tun_rs::DeviceBuilder::new()
        .name(DEVICE)
        .layer(tun_rs::Layer::L3)
        .mtu(MTU)
        .ipv4(options.address, 24, None)
        .build_sync()
        .map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => {
                "there is no /dev/net/tun: load the kernel module tun, or give the container that \
                    device"
                    .into()
            }
            _ => format!("cannot make a TUN device: {e}"),
        })?;
    device.set_nonblocking(true)?;
    // With ip, which uses netlink: the ioctl for the queue is refused in a user namespace.
    let queue = DEVICE_QUEUE_PACKETS.to_string();
    for words in [vec!["lo", "up"], vec![DEVICE, "txqueuelen", &queue]] {
        let status = Command::new("ip").args(["link", "set", "dev"]).args(&words).status();
        let status = status.map_err(|e| format!("cannot run ip (Debian package iproute2): {e}"))?;
        if !status.success() {
            return Err(format!("`ip link set dev {}`: {status}", words.join(" ")).into());
        }
    }
    let congestion = set_congestion(options.congestion.as_deref())?;
    let path = "/proc/sys/net/ipv4/tcp_slow_start_after_idle";
    let after_idle = fs::read_to_string(path).map_err(|e| format!("{path}: {e}"))?;
    let settings = format!("{congestion} {}", after_idle.trim());
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = [device.as_fd()];
    assert!(
        control.push(SendAncillaryMessage::ScmRights(&descriptors)),
        "the buffer has space for one descriptor"
    );
    let stdin = rustix::stdio::stdin();
    rustix::net::sendmsg(
        stdin,
        &[IoSlice::new(settings.as_bytes())],
        &mut control,
        SendFlags::empty(),
    )?;
    // The testbed has its own copy; the device is destroyed once both are closed.
    drop(device);
    let mut rest = [0; 1];
    while rustix::io::read(stdin, &mut rest)? > 0 {}
    Ok(())
}

/// Sets the congestion control of this namespace and reads back the one in force.
fn set_congestion(wanted: Option<&str>) -> Result<String, Error> {
    let path = "/proc/sys/net/ipv4/tcp_congestion_control";
    if let Some(wanted) = wanted {
        // The kernel may refuse with an unrelated error or silently, so the value that is read back
        // decides.
        let _ = fs::write(path, wanted);
    }
    let found = fs::read_to_string(path).map_err(|e| format!("{path}: {e}"))?.trim().to_owned();
    match wanted {
        Some(wanted) if wanted != found => {
            let read = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
            let available = read("/proc/sys/net/ipv4/tcp_available_congestion_control");
            Err(format!(
                "TCP congestion control `{wanted}` was refused, {found} is in force; the kernel \
                    has {available}, and a \
                 namespace may use those of them that net.ipv4.tcp_allowed_congestion_control names"
            )
            .into())
        }
        _ => Ok(found),
    }
}

/// Lets an ordinary user have a testbed: if this process may not make network namespaces, it starts
/// itself again, once, in a user namespace that permits it. Call it before starting anything else;
/// it returns if a testbed can be made.
pub fn as_user_namespace() -> Result<(), Error> {
    let quiet = |command: &mut Command| {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).output().map_err(
            |e| {
                Error::from(format!(
                    "cannot run unshare (Debian package util-linux), which makes the testbed: {e}"
                ))
            },
        )
    };
    let alone = quiet(Command::new("unshare").args(["--net", "true"]))?;
    if alone.status.success() {
        return Ok(());
    }
    let words =
        |output: &std::process::Output| String::from_utf8_lossy(&output.stderr).trim().to_owned();
    // The user id is kept: X servers and browsers behave differently for root.
    let around = ["--user", "--map-current-user", "--keep-caps"];
    let with_user = quiet(Command::new("unshare").args(around).args(["--net", "true"]))?;
    if std::env::var_os(REEXEC_MARK).is_some() || !with_user.status.success() {
        return Err(format!(
            "this kernel lets you make no network namespace ({}), nor one in a user namespace \
                ({}). Run as root, or let \
             the administrator allow user namespaces: `sysctl user.max_user_namespaces` must not \
             be 0, \
             `kernel.unprivileged_userns_clone` (Debian) must be 1 and \
             `kernel.apparmor_restrict_unprivileged_userns` (Ubuntu) must be 0, where they exist; \
             a container needs \
             CAP_SYS_ADMIN and CAP_NET_ADMIN",
            words(&alone),
            words(&with_user)
        )
        .into());
    }
    let error = Command::new("unshare")
        .args(around)
        .arg("--")
        .arg(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .env(REEXEC_MARK, "1")
        .exec();
    Err(format!("cannot start again in a user namespace: {error}").into())
}

/// Whether [`as_user_namespace`] has started this program again.
pub fn in_user_namespace() -> bool {
    std::env::var_os(REEXEC_MARK).is_some()
}

/// Permits namespaces to use a congestion control of the kernel while this exists, if this process
/// may change that: while two namespaces start, which keep the setting. It applies to the whole
/// machine, so it is reported on standard error and restored.
pub struct AllowedCongestion {
    before: Option<String>,
}

impl AllowedCongestion {
    const FILE: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";

    /// Permits namespaces to use `wanted`.
    pub fn congestion(wanted: Option<&str>) -> Result<AllowedCongestion, Error> {
        let Some(wanted) = wanted else { return Ok(AllowedCongestion { before: None }) };
        let read = |path: &str| fs::read_to_string(path).map(|text| text.trim().to_owned());
        let available =
            read("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
        // No error here: the kernel may load the module when the congestion control is set.
        let has = |list: &str, name: &str| list.split_whitespace().any(|word| word == name);
        let allowed = read(AllowedCongestion::FILE).unwrap_or_default();
        if allowed.is_empty() || has(&allowed, wanted) || !has(&available, wanted) {
            return Ok(AllowedCongestion { before: None });
        }
        let with = format!("{allowed} {wanted}");
        match fs::write(AllowedCongestion::FILE, &with) {
            Ok(()) => {
                eprintln!(
                    "thinc-bench: lets network namespaces use TCP {wanted}: \
                        net.ipv4.tcp_allowed_congestion_control is \
                     \"{with}\" while the testbed starts"
                );
                Ok(AllowedCongestion { before: Some(allowed) })
            }
            Err(error) => Err(format!(
                "a network namespace may not use TCP {wanted} here, only {allowed}, and this \
                    process may not change that \
                 ({error}). Let root run: sysctl -w \
                 net.ipv4.tcp_allowed_congestion_control=\"{with}\""
            )
            .into()),
        }
    }
}

impl Drop for AllowedCongestion {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = fs::write(AllowedCongestion::FILE, before);
        }
    }
}
