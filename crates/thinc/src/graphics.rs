//! What draws the 3D programs of a session, for people: one line, once a frame was drawn there.
//! From `thinc gl-probe`, a process in the session, to supervisor.rs, which shows the line and has
//! the viewers told. Knows names of renderers; gpu.rs knows which GPUs there are.

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thinc_gl_probe::Renderer;
use thinc_session_server::ShareRequest;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::process::Child;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::cli::GlProbe;
use crate::gpu::Found;
use crate::log::last_lines;
use crate::terminal::print;

/// 2 s after COMMAND was started: what a person waits for has the processor first.
const DELAY: Duration = Duration::from_secs(2);
/// Longest time until the frame is drawn, which takes 0.05 s of an idle machine's processor. It is
/// tried once more after that: the process has a small share of a busy machine.
const DRAWING_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest wait for the end of the process then: one may hang inside a GPU's driver.
const KILL_TIMEOUT: Duration = Duration::from_secs(1);
/// Longest output, in bytes; longest name of a renderer and longest reason in it, in characters.
const OUTPUT_BYTES_MAX: u64 = 64 * 1024;
const NAME_CHARS_MAX: usize = 100;
const REASON_CHARS_MAX: usize = 400;
/// Longest time for the session process to take the line: one that is starting first attaches to
/// the driver.
const TELLING_TIMEOUT: Duration = Duration::from_secs(20);
const TELLING_PAUSE: Duration = Duration::from_millis(200);
/// Niceness of the process, and how often it asks for the same among process sessions: of an
/// account's programs one in 0.1 s is granted that.
const NICENESS: i32 = 10;
const NICENESS_TRIES: u32 = 20;
/// Of Mesa: software draws, whatever there is.
const FORCES_SOFTWARE: &str = "LIBGL_ALWAYS_SOFTWARE";
const YES: [&str; 5] = ["1", "true", "t", "yes", "y"];
/// Of Mesa: another GPU draws than X's.
const CHOOSES_GPU: &str = "DRI_PRIME";
/// For OpenGL by NVIDIA's library, though X is not NVIDIA's (libglvnd's variable).
const NVIDIA: [(&str, &str); 1] = [("__GLX_VENDOR_LIBRARY_NAME", "nvidia")];
/// Longest time that COMMAND waits for a first frame by it.
const NVIDIA_TIMEOUT: Duration = Duration::from_secs(10);
/// In what Mesa's software renderers call themselves.
const SOFTWARE: [&str; 4] = ["llvmpipe", "softpipe", "swrast", "Software Rasterizer"];
/// What the driver writes to Xorg's log if it cannot use a node, before the reason.
const X_REFUSES: &str = "thinc: no DRI3, cannot use Option \"RenderNode\"";

/// What `thinc gl-probe` prints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Report {
    /// A frame.
    Drawn {
        /// What the renderer calls itself.
        renderer: String,
        /// Not by libGL, as most programs draw, and why.
        without_glx: Option<String>,
    },
    /// There is no frame, and why.
    Failed(String),
    /// There is none yet.
    Late,
}

/// `thinc gl-probe`: draws a frame in the X server that DISPLAY names.
pub(crate) fn probe(options: &GlProbe) -> ExitCode {
    if !options.at_once {
        yield_to_others();
    }
    let report = match thinc_gl_probe::draw() {
        Ok(Renderer { name, without_glx }) => Report::Drawn { renderer: name, without_glx },
        Err(error) => Report::Failed(error.to_string()),
    };
    print(&serde_json::to_string(&report).expect("strings are JSON"));
    ExitCode::SUCCESS
}

/// Everything else in the session comes first; where this fails, the process competes with it.
fn yield_to_others() {
    let _ = rustix::process::nice(NICENESS);
    // Where the kernel has autogroups (sched(7)), a niceness counts within a process session only.
    for _ in 0..NICENESS_TRIES {
        match std::fs::write("/proc/self/autogroup", NICENESS.to_string()) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                std::thread::sleep(Duration::from_millis(100));
            }
            _ => return,
        }
    }
}

/// Variables for OpenGL programs.
pub(crate) type Environment = &'static [(&'static str, &'static str)];

/// What happens to the frame.
#[derive(Debug)]
pub(crate) enum Event {
    /// The process is to be started.
    Due,
    /// It has ended.
    Reported(Report),
}

/// The frame that is to be drawn in a session, and the line about it.
#[derive(Default)]
pub(crate) struct Graphics {
    due: Option<Instant>,
    /// It was late once.
    was_late: bool,
    /// Its process, and what it will report.
    drawing: Option<(u32, JoinHandle<Report>)>,
    /// For OpenGL programs.
    pub(crate) environment: Environment,
    /// What people are told.
    pub(crate) line: Option<String>,
}

impl Graphics {
    /// Whether COMMAND should wait for a frame by NVIDIA's library; what its process needs.
    pub(crate) fn nvidia(found: &Found) -> Option<Environment> {
        let is_chosen = NVIDIA.iter().any(|(name, _)| std::env::var_os(name).is_some());
        (*found == Found::Nvidia && !is_chosen).then_some(&NVIDIA)
    }

    /// COMMAND uses NVIDIA's library if this process, which does, draws on its GPU.
    pub(crate) async fn try_nvidia(&mut self, child: Child) {
        if draws_by_glx(&read_report(child, NVIDIA_TIMEOUT).await) {
            self.environment = &NVIDIA;
        }
    }

    /// COMMAND was started.
    pub(crate) fn begin(&mut self) {
        self.due = Some(Instant::now() + DELAY);
    }

    /// Waits for what happens next. Nothing is lost if the future is dropped.
    pub(crate) async fn event(&mut self) -> Event {
        if let Some(due) = self.due {
            sleep_until(due).await;
            self.due = None;
            return Event::Due;
        }
        let Some((_, reading)) = &mut self.drawing else { return std::future::pending().await };
        let report = reading.await.expect("reading a report does not panic");
        self.drawing = None;
        if report == Report::Late && !std::mem::replace(&mut self.was_late, true) {
            self.due = Some(Instant::now());
        }
        Event::Reported(report)
    }

    /// The process, whose standard output is a pipe.
    pub(crate) fn started(&mut self, child: Child) {
        self.drawing = child.id().map(|id| (id, tokio::spawn(read_report(child, DRAWING_TIMEOUT))));
    }

    /// The process that runs, whose end is awaited here.
    pub(crate) fn id(&self) -> Option<u32> {
        self.drawing.as_ref().map(|(id, _)| *id)
    }
}

async fn read_report(mut child: Child, limit: Duration) -> Report {
    let out = child.stdout.take().expect("its output is piped");
    let mut text = Vec::new();
    let drawing = timeout(limit, async {
        let _ = out.take(OUTPUT_BYTES_MAX).read_to_end(&mut text).await;
        child.wait().await
    });
    match drawing.await {
        Ok(Ok(status)) => last_report(&text).unwrap_or_else(|| {
            Report::Failed(format!("the program that tries it ended ({status})"))
        }),
        Ok(Err(error)) => Report::Failed(error.to_string()),
        Err(_) => {
            let _ = child.start_kill();
            let _ = timeout(KILL_TIMEOUT, child.wait()).await;
            Report::Late
        }
    }
}

/// Behind what libraries may have printed.
fn last_report(text: &[u8]) -> Option<Report> {
    let mut lines = text.rsplit(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    serde_json::from_slice(lines.next()?).ok()
}

/// The line for people. The log is Xorg's.
pub(crate) fn line(report: &Report, found: &Found, xorg_log: &Path) -> String {
    let is_yes = |value: String| YES.contains(&value.to_lowercase().as_str());
    let is_forced = std::env::var(FORCES_SOFTWARE).is_ok_and(is_yes);
    let is_chosen = std::env::var_os(CHOOSES_GPU).is_some();
    line_about(report, found, (is_forced, is_chosen), || why_x_refuses(xorg_log))
}

fn line_about(
    report: &Report,
    found: &Found,
    (is_forced, is_chosen): (bool, bool),
    why_x_refuses: impl FnOnce() -> Option<String>,
) -> String {
    let name = match report {
        Report::Drawn { renderer, .. } => printable(renderer, NAME_CHARS_MAX),
        Report::Failed(why) => return format!("3D: none: {}", printable(why, REASON_CHARS_MAX)),
        Report::Late => return format!("3D: not known: no frame within {DRAWING_TIMEOUT:?}"),
    };
    let without_glx = match report {
        Report::Drawn { without_glx: Some(why), .. } => {
            format!(" (by EGL only; by GLX: {})", printable(why, REASON_CHARS_MAX))
        }
        _ => String::new(),
    };
    let Some(software) = software_in(&name) else {
        // The GPU that was found for X is not the one of another driver or of somebody's choice.
        let node = found.node().filter(|_| !is_chosen && !name.starts_with("NVIDIA"));
        let node = node.map(|node| format!(", {}", node.display())).unwrap_or_default();
        return format!("3D: {name}{node}{without_glx}");
    };
    let why = match is_forced {
        true => format!(", by {FORCES_SOFTWARE}"),
        false => {
            let because = found.node().and_then(|_| why_x_refuses());
            let because = because.map(|why| format!("the X server cannot use it: {why}"));
            found.why_software(because.as_deref())
        }
    };
    format!("3D: software ({software}){why}{without_glx}")
}

/// The software renderer that this is, or draws by.
fn software_in(renderer: &str) -> Option<&'static str> {
    SOFTWARE.into_iter().find(|software| renderer.contains(software))
}

fn draws_by_glx(report: &Report) -> bool {
    match report {
        Report::Drawn { renderer, without_glx: None } => software_in(renderer).is_none(),
        _ => false,
    }
}

/// Words of the system's libraries, as one line of bounded length.
fn printable(text: &str, chars_max: usize) -> String {
    let clean = text.chars().map(|char| if char.is_control() { ' ' } else { char });
    clean.take(chars_max).collect::<String>().trim().to_owned()
}

/// The driver's words in Xorg's log, if it could not use the node.
fn why_x_refuses(log: &Path) -> Option<String> {
    let line = last_lines(log, 1, |line| line.contains(X_REFUSES));
    let (_, reason) = line.rsplit_once("\": ")?;
    Some(printable(reason, REASON_CHARS_MAX))
}

/// Tells the session process, whose viewers show the line. The next one reads it in its
/// configuration, which is written already.
pub(crate) fn tell(share_socket: &Path, line: &str) {
    let request = ShareRequest::Graphics(line.to_owned());
    let mut request = serde_json::to_vec(&request).expect("strings are JSON");
    request.push(b'\n');
    let path = share_socket.to_owned();
    tokio::spawn(timeout(TELLING_TIMEOUT, async move {
        let mut stream = loop {
            match UnixStream::connect(&path).await {
                Ok(stream) => break stream,
                Err(_) => sleep(TELLING_PAUSE).await,
            }
        };
        stream.write_all(&request).await?;
        // Its answer, so that the connection does not end before it.
        stream.read_to_end(&mut Vec::new()).await
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(name: &str) -> Report {
        Report::Drawn { renderer: name.to_owned(), without_glx: None }
    }

    const LLVMPIPE: &str = "llvmpipe (LLVM 15.0.6, 256 bits)";
    const NODE: &str = "/dev/dri/renderD128";

    fn about(report: &Report, found: &Found) -> String {
        line_about(report, found, (false, false), || None)
    }

    #[test]
    fn a_gpu_is_called_by_its_name_and_node() {
        let name = "AMD Radeon RX 6600 (radeonsi, navi23, LLVM 15.0.6, DRM 3.49)";
        assert_eq!(about(&drawn(name), &Found::Node(NODE.into())), format!("3D: {name}, {NODE}"));
        // Programs are sent to another one.
        let chosen = line_about(&drawn(name), &Found::Node(NODE.into()), (false, true), || None);
        assert_eq!(chosen, format!("3D: {name}"));
        // Somebody has set the vendor's library.
        let name = "NVIDIA RTX A4000/PCIe/SSE2";
        assert_eq!(about(&drawn(name), &Found::Nvidia), format!("3D: {name}"));
        assert_eq!(about(&drawn(name), &Found::Node(NODE.into())), format!("3D: {name}"));
        let why = Some("libGL.so.1 is not installed".to_owned());
        let egl = Report::Drawn { renderer: "virgl".to_owned(), without_glx: why };
        assert_eq!(
            about(&egl, &Found::Node(NODE.into())),
            format!("3D: virgl, {NODE} (by EGL only; by GLX: libGL.so.1 is not installed)")
        );
    }

    #[test]
    fn nvidias_library_is_used_where_it_draws_on_a_gpu_by_glx() {
        assert!(draws_by_glx(&drawn("NVIDIA H100 80GB HBM3/PCIe/SSE2")));
        assert!(!draws_by_glx(&drawn(LLVMPIPE)), "libglvnd has taken Mesa's");
        assert!(!draws_by_glx(&drawn("zink (llvmpipe (LLVM 15.0.6, 256 bits))")));
        let why = Some("no".to_owned());
        let egl = Report::Drawn { renderer: "NVIDIA H100".to_owned(), without_glx: why };
        assert!(!draws_by_glx(&egl), "most programs use GLX");
        assert!(!draws_by_glx(&Report::Failed("no".to_owned())));
        for found in [Found::Nothing, Found::Off, Found::Node(NODE.into())] {
            assert_eq!(Graphics::nvidia(&found), None);
        }
        assert_eq!(Graphics::nvidia(&Found::Nvidia), Some(&NVIDIA[..]));
    }

    #[test]
    fn software_is_called_so_with_its_reason() {
        let software = drawn(LLVMPIPE);
        for (found, why) in [
            (Found::Nothing, ", no GPU here"),
            (Found::Off, ", by --gpu off"),
            (Found::Nvidia, "; there is a GPU of NVIDIA's: start programs with vglrun to use it"),
            (
                Found::Locked(NODE.into(), "render".to_owned()),
                "; there is a GPU at /dev/dri/renderD128, but this account may not use it: add it \
                 to the group render",
            ),
            (
                Found::Node(NODE.into()),
                "; there is a GPU at /dev/dri/renderD128, but Mesa does not draw on it; does it \
                 have a driver?",
            ),
        ] {
            assert_eq!(about(&software, &found), format!("3D: software (llvmpipe){why}"));
        }
        let zink = about(&drawn("zink (llvmpipe (LLVM 15.0.6, 256 bits))"), &Found::Nothing);
        assert_eq!(zink, "3D: software (llvmpipe), no GPU here");
        let node = Found::Node(NODE.into());
        let forced = line_about(&software, &node, (true, false), || unreachable!());
        assert_eq!(forced, "3D: software (llvmpipe), by LIBGL_ALWAYS_SOFTWARE");
    }

    #[test]
    fn the_reason_of_the_x_server_is_read_in_its_log() {
        let log = std::env::temp_dir().join(format!("thinc-graphics-{}", std::process::id()));
        let words = "[   1.5] (WW) thinc: no DRI3, cannot use Option \"RenderNode\" \
                     \"/dev/dri/renderD128\": X cannot map its buffers";
        std::fs::write(&log, format!("(II) first\n{words}\n(II) last\n")).unwrap();
        let node = Found::Node(NODE.into());
        let line = line_about(&drawn(LLVMPIPE), &node, (false, false), || why_x_refuses(&log));
        assert_eq!(
            line,
            "3D: software (llvmpipe); there is a GPU at /dev/dri/renderD128, but the X server \
             cannot use it: X cannot map its buffers"
        );
        std::fs::write(&log, "(II) thinc: DRI3 on /dev/dri/renderD128\n").unwrap();
        assert_eq!(why_x_refuses(&log), None);
        std::fs::remove_file(&log).unwrap();
    }

    #[test]
    fn words_of_libraries_stay_one_short_line() {
        let why = "by GLX: libGL.so.1 is not installed; by EGL: libEGL.so.1 is not installed";
        let failed = Report::Failed(why.to_owned());
        assert_eq!(about(&failed, &Found::Nothing), format!("3D: none: {why}"));
        assert_eq!(about(&Report::Late, &Found::Nothing), "3D: not known: no frame within 60s");
        let bad = format!("a\x1b[2J\nb{}", "x".repeat(1000));
        let line = about(&drawn(&bad), &Found::Nothing);
        assert!(line.starts_with("3D: a [2J bxx") && line.len() < 120, "{line}");
    }

    #[tokio::test]
    async fn a_program_that_ends_or_prints_anything_else_drew_nothing() {
        let run = async |script: &str| {
            let mut command = tokio::process::Command::new("sh");
            let child = command.args(["-c", script]).stdout(std::process::Stdio::piped()).spawn();
            let mut graphics = Graphics::default();
            graphics.started(child.unwrap());
            let Event::Reported(report) = graphics.event().await else { panic!() };
            report
        };
        let line = r#"echo a library; echo '{"drawn":{"renderer":"virgl","without_glx":null}}'"#;
        assert_eq!(run(line).await, drawn("virgl"));
        for script in ["echo words", "kill -SEGV $$", "yes | head -c 100000; exit 3"] {
            let Report::Failed(why) = run(script).await else { panic!("{script}") };
            assert!(
                why.starts_with("the program that tries it ended (exit status")
                    || why.starts_with("the program that tries it ended (signal"),
                "{why}"
            );
        }
    }
}
