//! Many people behind one uplink: all viewers are at the far end of one link, one person watches a
//! video or repaints that would fill it alone, one types, and the others read or rest. How late is
//! the echo, and how much of the link is used? thinc, also with an uplink named in its
//! configuration, xrdp and TigerVNC. Knows people, packets and frames; never who sends first.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::columns::{self, Common};
use super::people::Work;
use super::seat::Seat;
use super::servers::{Guest, Host, Server, Subject};
use super::session::Session;
use super::typist::Typist;
use super::{SHOWN_MAX, SIZE, link};
use crate::Error;
use crate::apps::overwrite::KEY_START;
use crate::net::testbed::{Direction, Testbed};
use crate::observe::account::{Accounts as CpuAccounts, Kind};
use crate::observe::frames::FrameWatch;
use crate::peers::accounts::Accounts;
use crate::process::wait_for;
use crate::questions::pause;
use crate::results::{Measure, quantity};
use crate::stage::Stage;
use crate::workloads::typing::{ECHO, Echoes};

/// Options of `hosting uplink`.
#[derive(clap::Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// Desktops, each of another person: the first types, the second watches a video, of the others
    /// every second one reads.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(2..=200))]
    desktops: u32,
    /// What the uplink carries, Mbit/s of IP packets.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rate: u32,
    /// Its round trip, ms.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(0..=2000))]
    rtt: u32,
    /// More figures of the link, as in `queue=200ms`.
    #[arg(long, value_name = "FIGURES")]
    link: Option<String>,
    /// Keys at 20 Hz, on an empty uplink and on the full one.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(20..=600))]
    keys: u32,
    /// Also measures thinc with this value of the broker's key `uplink`, such as 19M.
    #[arg(long, value_name = "RATE", value_parser = parse_uplink)]
    uplink: Option<String>,
    /// What the second person watches, one after the other.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "video,repaint")]
    loads: Vec<Load>,
    /// Grain of the video, levels of 255: 3 is a camera's, and of 40 no encoding makes little.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(0..=127))]
    grain: u8,
    /// Seed of what people do.
    #[arg(long, default_value_t = 31)]
    seed: u64,
}

const PERIOD: Duration = Duration::from_millis(50);
/// From the load's first frame: congestion control has found the link's rate by then. And from its
/// end: the link is empty again.
const SETTLES: Duration = Duration::from_secs(5);
const LOAD_JOB: &str = "load";
/// Random bytes of each repainted screen, of which no encoding makes fewer.
const REPAINT_BYTES: u32 = 60_000;

/// What is to fill the uplink.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Load {
    /// A video over the whole screen, 24 frames a second. A system that encodes it well, or at a
    /// rate of its own, does not fill the link.
    Video,
    /// The whole screen is drawn again all the time, half as fast again as the link carries.
    Repaint,
}

impl Load {
    fn part(self) -> &'static str {
        match self {
            Load::Video => "beside a video",
            Load::Repaint => "beside repaints",
        }
    }

    /// The application that draws it, for a link of so many Mbit/s.
    fn application(self, plan: &Plan) -> String {
        let ((width, height), grain) = (SIZE, plan.grain);
        let size = format!("--width {width} --height {height}");
        match self {
            Load::Video => format!("pan {size} --grain {grain}"),
            Load::Repaint => {
                let fill = u64::from(plan.rate_mbit) * 1_000_000 / (u64::from(REPAINT_BYTES) * 8);
                // At most what the application draws.
                let rate = (fill * 3 / 2).clamp(10, 1000);
                format!("overwrite {size} --noise-bytes {REPAINT_BYTES} --rate {rate}")
            }
        }
    }
}

/// A rate as the broker takes it; what it means is the broker's business.
fn parse_uplink(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '.';
    if text.starts_with(|c: char| c.is_ascii_digit()) && text.chars().all(fits) {
        Ok(text.to_owned())
    } else {
        Err(format!("{text:?} is no rate: write digits and a unit, as in 19M"))
    }
}

struct Plan {
    desktops: u32,
    rate_mbit: u32,
    keys: usize,
    loads: Vec<Load>,
    grain: u8,
    seed: u64,
}

/// Measures and prints.
pub(super) fn run(options: &Options) -> Result<(), Error> {
    let more = options.link.as_ref().map(|figures| format!(",{figures}")).unwrap_or_default();
    let (rate, rtt) = (options.rate, options.rtt);
    let bed = Testbed::start(&link(&format!("rtt={rtt}ms,rate={rate}mbit{more}"))?, None)?;
    let bed = Arc::new(bed);
    let (desktops, keys) =
        if options.common.smoke { (4, 20) } else { (options.desktops, options.keys) };
    let Options { grain, seed, .. } = *options;
    let (keys, loads) = (keys as usize, options.loads.clone());
    let plan = Plan { desktops, rate_mbit: rate, keys, loads, grain, seed };
    let subjects = with_uplink(options.common.subjects()?, options.uplink.as_deref());
    let columns = columns::of_each(subjects, desktops, |host| measure(host, &bed, &plan))?;
    let title = format!("{desktops} desktops behind one uplink, {keys} keys at 20 Hz");
    columns::finish(&options.common, "uplink", &title, &bed, columns)
}

/// One more thinc after the first, with the key set.
fn with_uplink(subjects: Vec<Subject>, uplink: Option<&str>) -> Vec<Subject> {
    let mut subjects = subjects;
    let is_thinc = |subject: &Subject| subject.server == Server::Thinc { priority: true };
    if let Some((value, place)) = uplink.zip(subjects.iter().position(is_thinc)) {
        let name = format!("thinc, uplink {value}");
        let config = format!("uplink = \"{value}\"\n");
        let server = Server::Thinc { priority: true };
        subjects.insert(place + 1, Subject { name, server, config });
    }
    subjects
}

fn measure(host: &Host, bed: &Arc<Testbed>, plan: &Plan) -> Result<Vec<Measure>, Error> {
    host.on_client()?;
    // Without control groups: they would divide the processors between the parts of this harness.
    let cpu = Arc::new(CpuAccounts::of_kind("uplink", Kind::Proc)?);
    let stage = Stage::start(host, bed, &cpu, SIZE)?;
    let home = stage.site.folder.path();
    let session = |person| Session::at(home, &Accounts::name(person));
    let mut typist = Typist::open(&stage, &session(0), ECHO)?;
    let alone = typist.type_keys(&stage, plan.keys, PERIOD)?;
    let mut found = alone.measures("empty", PERIOD);

    let guest = Guest { host, home: home.to_owned(), person: 1 };
    let watcher = Watcher { stage: Stage::start(&guest, bed, &cpu, SIZE)?, session: session(1) };
    let mut seats = Vec::new();
    for person in 2..plan.desktops {
        let mut seat = Seat::take(host, &stage.site, person)?;
        let work = if person % 2 == 0 { Work::Nothing } else { Work::Pages };
        seat.begin(work, plan.seed ^ u64::from(person) << 32)?;
        seats.push(seat);
    }
    for &load in &plan.loads {
        let frames = watcher.begin(load, plan)?;
        let (mark, begun) = (bed.mark(), Instant::now());
        let typed = type_beside(&stage, &mut typist, &mut seats, plan.keys)?;
        let (traffic, ended) = (bed.since(&mark), Instant::now());
        let frames = frames.map(FrameWatch::finish).transpose()?;
        watcher.session.end_job(LOAD_JOB)?;
        pause(SETTLES)?;
        let part = load.part();
        found.extend(typed.measures(part, PERIOD));
        let seconds = ended.duration_since(begun).as_secs_f64();
        if let Some(frames) = frames {
            let seen = frames.seen.iter().filter(|(at, _)| (begun..ended).contains(at)).count();
            let rate = seen as f64 / seconds;
            found.push(Measure::higher(quantity::FRAME_RATE, part, "fps", [rate]));
            found.push(Measure::lower("frames_torn", part, "frames", [frames.torn as f64]));
        }
        if traffic.forgotten {
            return Err("more packets crossed the link than are remembered: type fewer keys".into());
        }
        let rate = bed.link().rate_of(Direction::Down).ok_or("an uplink has a rate")?;
        let share = traffic.bytes(Direction::Down) as f64 * 8.0 / (rate as f64 * seconds);
        found.push(Measure::higher("use of the link", part, "share", [share]));
    }
    Ok(found)
}

/// One types while the others do as they do.
fn type_beside(
    stage: &Stage,
    typist: &mut Typist,
    seats: &mut [Seat],
    keys: usize,
) -> Result<Echoes, Error> {
    let end = Instant::now() + PERIOD * keys as u32;
    std::thread::scope(|scope| {
        let others: Vec<_> =
            seats.iter_mut().map(|seat| scope.spawn(move || seat.work_until(end))).collect();
        let typed = typist.type_keys(stage, keys, PERIOD);
        for other in others {
            other.join().unwrap_or_else(|_| Err("a person's thread panicked".into()))?;
        }
        typed
    })
}

/// Who watches, in a viewer with a window.
struct Watcher {
    stage: Stage,
    session: Session,
}

impl Watcher {
    /// Starts a load, and returns once it is seen and has settled; with the frames that are seen.
    fn begin(&self, load: Load, plan: &Plan) -> Result<Option<FrameWatch>, Error> {
        let screen = &self.stage.site.screen;
        let line = format!("exec thinc-bench app {}", load.application(plan));
        let start = || self.session.start_job(LOAD_JOB, &line);
        let frames = match load {
            Load::Video => {
                let frames = FrameWatch::start(screen, self.stage.view)?;
                start()?;
                wait_for("the video begins", SHOWN_MAX, || frames.last().map(drop))?;
                Some(frames)
            }
            Load::Repaint => {
                let watch = screen.watch()?;
                start()?;
                self.stage.wait_shown("a screen to repaint", watch)?;
                self.stage.input.key(KEY_START)?;
                None
            }
        };
        pause(SETTLES)?;
        Ok(frames)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_gets_a_column_of_its_own_beside_thinc() {
        let names = ["xrdp", "thinc", "thinc-off"].map(str::to_owned);
        let subjects = Subject::named(&names).unwrap();
        assert_eq!(with_uplink(subjects.clone(), None), subjects);
        let with = with_uplink(subjects.clone(), Some("19M"));
        let names: Vec<&str> = with.iter().map(|subject| subject.name.as_str()).collect();
        assert_eq!(names, ["xrdp", "thinc", "thinc, uplink 19M", "thinc-off"]);
        assert_eq!(with[2].config, "uplink = \"19M\"\n");
        assert_eq!(with_uplink(subjects[..1].to_vec(), Some("19M")).len(), 1);
    }

    #[test]
    fn repaints_are_more_than_the_link_carries() {
        let plan =
            |rate_mbit| Plan { desktops: 2, rate_mbit, keys: 20, loads: vec![], grain: 3, seed: 0 };
        let twenty = Load::Repaint.application(&plan(20));
        // 61 screens of 480 kbit are 29 Mbit/s.
        assert!(twenty.ends_with("--noise-bytes 60000 --rate 61"), "{twenty}");
        assert!(Load::Repaint.application(&plan(10_000)).ends_with("--rate 1000"));
        assert!(Load::Video.application(&plan(20)).ends_with("--grain 3"));
    }

    #[test]
    fn a_rate_cannot_end_its_line_of_the_configuration() {
        assert_eq!(parse_uplink("19M"), Ok("19M".to_owned()));
        for bad in ["", "M", "19M\"\npriority = false", "-1", "1 M"] {
            assert!(parse_uplink(bad).is_err(), "{bad:?}");
        }
    }
}
