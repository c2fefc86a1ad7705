//! Question: what does the driver cost the X server, ring attached and drained, against the dummy driver?
//! The same number of the same x11perf operations runs on both; CPU time of the X server is the kernel's own count.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::Args;

use crate::Error;
use crate::figures::Samples;
use crate::process::{Folder, Running, Session, cpu_ms, wait_for};

/// How `driver-cost` runs.
#[derive(Args)]
pub struct Options {
    /// x11perf tests with the repetitions of each.
    #[arg(long, num_args = 1.., default_values = ["rect10=400000", "dot=2000000", "ftext=20000", "aa10text=10000", "copywinwin10=100000", "putimage10=100000", "noop=400000"])]
    tests: Vec<String>,
    /// Runs of each test on each server, in turn.
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// The X server.
    #[arg(long, default_value = "/usr/lib/xorg/Xorg")]
    xorg: String,
}

struct Server {
    display: String,
    xauthority: String,
    pid: u32,
}

/// Measures and prints.
pub fn run(options: &Options) -> Result<(), Error> {
    let folder = Folder::new("driver-cost")?;
    let (_dummy, dummy) = start_dummy(&options.xorg, folder.path())?;
    let session = Session::start("driver-cost", "1024x768", &["sleep", "infinity"])?;
    let thinc =
        Server { display: session.display.clone(), xauthority: session.xauthority.clone(), pid: session.pid("xorg")? };

    println!("X server CPU, nanoseconds an object: dummy driver, thinc's driver, and the difference of medians");
    for test in &options.tests {
        let (name, reps) = test.split_once('=').ok_or_else(|| format!("`{test}` is not NAME=REPETITIONS"))?;
        let mut samples = [Samples::default(), Samples::default()];
        for _ in 0..options.runs {
            for (server, samples) in [&dummy, &thinc].into_iter().zip(&mut samples) {
                samples.push(cost_ns(server, name, reps)?);
            }
        }
        let (before, after) = (samples[0].median(), samples[1].median());
        println!("  {name:14} {before:9.1} {after:9.1} {:+9.1}   ratio {:.2}", after - before, after / before);
    }
    Ok(())
}

/// Runs one test and gives the X server's CPU time per object.
fn cost_ns(server: &Server, test: &str, reps: &str) -> Result<f64, Error> {
    let before = cpu_ms(server.pid)?;
    let output = Command::new("x11perf")
        .args(["-display", &server.display, "-repeat", "1", "-reps", reps, &format!("-{test}")])
        .env("XAUTHORITY", &server.xauthority)
        .output()?;
    let spent = cpu_ms(server.pid)? - before;
    let text = String::from_utf8_lossy(&output.stdout);
    let objects: f64 = text
        .lines()
        .filter_map(|line| line.split_once(" reps @").map(|(count, _)| count.trim()))
        .filter_map(|count| count.parse::<f64>().ok())
        .sum();
    if objects == 0.0 {
        return Err(format!("x11perf -{test} drew nothing: {text}{}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(spent * 1e6 / objects)
}

fn start_dummy(xorg: &str, folder: &Path) -> Result<(Running, Server), Error> {
    let config = folder.join("dummy.conf");
    fs::write(
        &config,
        "Section \"ServerFlags\"\n Option \"AutoAddDevices\" \"false\"\n Option \"DontVTSwitch\" \"true\"\nEndSection\n\
         Section \"Device\"\n Identifier \"d\"\n Driver \"dummy\"\n VideoRam 64000\nEndSection\n\
         Section \"Monitor\"\n Identifier \"m\"\n HorizSync 5-1000\n VertRefresh 5-200\n Modeline \"1024x768\" 65 1024 1048 1184 1344 768 771 777 806\nEndSection\n\
         Section \"Screen\"\n Identifier \"s\"\n Device \"d\"\n Monitor \"m\"\n DefaultDepth 24\n SubSection \"Display\"\n Depth 24\n Modes \"1024x768\"\n EndSubSection\nEndSection\n",
    )?;
    let number = folder.join("display");
    let mut command = Command::new("sh");
    // The shell only opens the descriptor that -displayfd wants, then becomes the server.
    command.args([
        "-c",
        "exec \"$0\" -displayfd 3 -config \"$1\" -logfile \"$2\" -noreset -nolisten tcp -novtswitch -sharevts 3>\"$3\"",
    ]);
    command.arg(xorg).arg(&config).arg(folder.join("dummy.log")).arg(&number);
    let server = Running::start(
        "Xorg with the dummy driver",
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()),
    )?;
    let display = wait_for(
        "Xorg with the dummy driver starts (package xserver-xorg-video-dummy)",
        Duration::from_secs(15),
        || fs::read_to_string(&number).ok().filter(|text| text.ends_with('\n')),
    )?;
    let pid = server.pid();
    Ok((server, Server { display: format!(":{}", display.trim()), xauthority: "/dev/null".into(), pid }))
}
