//! The servers that questions about many people compare: thinc with and without priority, xrdp and
//! TigerVNC, each on processors of its own, with a desktop for each of several people. From the
//! names on the command line to desktops with viewers; session.rs starts programs in them. Knows
//! servers, people and processors; never what is measured.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, OnceLock};

use x11rb::connection::Connection as _;

use super::memory_group::MemoryGroup;
use super::session::{Session, share_program};
use super::{PASSWORD, SHOWN_MAX};
use crate::Error;
use crate::display::DisplayNumber;
use crate::observe::account::Group;
use crate::observe::connect;
use crate::peers::accounts::Accounts;
use crate::peers::{Desk, Peer, broker, thinc, tigervnc, xrdp};
use crate::process::{Running, wait_for};
use crate::results::PeerRecord;
use crate::stage::Site;
use crate::workloads::processors::Division;

/// The name of thinc with `real-time = true`.
const REAL_TIME: &str = "thinc-real-time";

/// A server whose sessions do what is written into a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Server {
    Thinc { priority: bool },
    Xrdp,
    TigerVnc,
}

impl Server {
    fn named(name: &str) -> Result<Server, Error> {
        Ok(match name {
            "thinc" => Server::Thinc { priority: true },
            REAL_TIME => Server::Thinc { priority: true },
            "thinc-off" => Server::Thinc { priority: false },
            "xrdp" => Server::Xrdp,
            "tigervnc" => Server::TigerVnc,
            other => {
                let known = "thinc, thinc-real-time, thinc-off, xrdp, tigervnc";
                return Err(format!("there is no server {other:?}; there are {known}").into());
            }
        })
    }
}

/// A server, a column of the table, and more lines of thinc's configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Subject {
    pub(super) name: String,
    pub(super) server: Server,
    pub(super) config: String,
}

impl Subject {
    /// Those of these names.
    pub(super) fn named(names: &[String]) -> Result<Vec<Subject>, Error> {
        let subject = |name: &String| {
            let config = if name == REAL_TIME { "real-time = true\n" } else { "" };
            let (server, config) = (Server::named(name)?, config.to_owned());
            Ok(Subject { name: name.clone(), server, config })
        };
        names.iter().map(subject).collect()
    }

    /// Its programs, with what is special here.
    pub(super) fn record(&self) -> PeerRecord {
        let (viewer, setting) = (thinc::Viewer::Native, thinc::Setting::Default);
        let mut record = match self.server {
            Server::Thinc { .. } => thinc::Thinc { viewer, setting }.record(),
            Server::Xrdp => xrdp::Xrdp { remotefx: false }.record(),
            Server::TigerVnc => tigervnc::TigerVnc { lossless: false }.record(),
        };
        if let Server::Thinc { priority } = self.server {
            record.title = format!("{} ({})", record.title, self.name);
            record.settings = format!("thinc broker, priority = {priority} {}", self.config.trim());
        }
        record
    }
}

/// A server on processors of its own, as if the client were another machine.
pub(super) struct Host {
    pub(super) subject: Subject,
    /// Who may log in, from 0.
    pub(super) people: u32,
    pub(super) division: Option<Division>,
    /// Where the server and its desktops have their memory, if that is limited.
    pub(super) memory: OnceLock<Arc<MemoryGroup>>,
}

impl Host {
    /// What is started from now on belongs to the server.
    pub(super) fn on_server(&self) -> Result<(), Error> {
        self.memory.get().map_or(Ok(()), |group| group.enter())?;
        self.division.as_ref().map_or(Ok(()), Division::start_on_server)
    }

    /// What is started from now on belongs to the client.
    pub(super) fn on_client(&self) -> Result<(), Error> {
        self.memory.get().map_or(Ok(()), |group| group.leave())?;
        self.division.as_ref().map_or(Ok(()), Division::start_on_client)
    }

    /// Processors of the server, and of the client.
    pub(super) fn processors(&self) -> (u32, u32) {
        let all = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
        self.division.as_ref().map_or((all, all), Division::counts)
    }

    /// Starts the server, with a pipe for each person's session. TigerVNC has no server for all.
    pub(super) fn start_server(&self, site: &Site) -> Result<Desk, Error> {
        let home = site.folder.path();
        share_program(home)?;
        for person in 0..self.people {
            Session::of(home, &Accounts::name(person))?;
        }
        let (script, people) =
            (Session::script(home), Accounts::with_password(self.people, PASSWORD));
        self.on_server()?;
        let desk = match self.subject.server {
            Server::Thinc { priority } => {
                let config = format!("priority = {priority}\n{}", self.subject.config);
                let server = broker::start_configured(site, &script, &people, &config)?;
                Desk { held: vec![server], ..Desk::default() }
            }
            Server::Xrdp => {
                let reserved = (0..self.people).map(|_| DisplayNumber::reserve());
                let displays = reserved.collect::<Result<Vec<_>, _>>()?;
                let server = xrdp::start_server(site, &displays, &script, &people)?;
                Desk { held: vec![server], displays, ..Desk::default() }
            }
            Server::TigerVnc => {
                std::fs::write(home.join("session.sh"), script)?;
                Desk::default()
            }
        };
        self.on_client()?;
        Ok(desk)
    }

    /// Shows a person's desktop on the screen of `site`; the server is that of the site with the
    /// folder `home`. What is started comes before what `desk` holds already.
    pub(super) fn view(
        &self,
        site: &Site,
        home: &Path,
        person: u32,
        mut desk: Desk,
    ) -> Result<Desk, Error> {
        let user = Accounts::name(person);
        let session = Session::at(home, &user);
        let mut held = Vec::new();
        match self.subject.server {
            Server::Thinc { .. } => held.push(broker::view(site, &user, PASSWORD)?),
            Server::Xrdp => {
                held.push(xrdp::Xrdp { remotefx: false }.view(site, &user, PASSWORD)?);
            }
            Server::TigerVnc => {
                let opened = self.open_tigervnc(site, home, person)?;
                let viewer = tigervnc::TigerVnc { lossless: false };
                held.push(viewer.view(site, &opened.displays[0])?);
                held.extend(opened.held);
                desk.displays.extend(opened.displays);
            }
        }
        (desk.display, desk.xauthority) = self.shown(site, &session)?;
        held.append(&mut desk.held);
        Ok(Desk { held, ..desk })
    }

    /// Display and cookie of a session, once it has the size of the site.
    fn shown(&self, site: &Site, session: &Session) -> Result<(String, Option<PathBuf>), Error> {
        let (display, xauthority) = session.ready(site)?;
        // TigerVNC's session has no cookie.
        let xauthority = Some(xauthority).filter(|file| file.exists());
        wait_for("the session has the viewer's size", SHOWN_MAX, || {
            let x = connect(&display, xauthority.as_deref()).ok()?;
            let root = &x.setup().roots[0];
            let size = (root.width_in_pixels.into(), root.height_in_pixels.into());
            (size == site.size).then_some(())
        })?;
        Ok((display, xauthority))
    }

    /// Starts a desktop of TigerVNC, which nobody views yet.
    pub(super) fn open_tigervnc(
        &self,
        site: &Site,
        home: &Path,
        person: u32,
    ) -> Result<Desk, Error> {
        self.on_server()?;
        let (server, display) = tigervnc::start_server(site)?;
        let mut command = site.command(Group::Apps, "setsid");
        command.args(["--wait", "sh"]).arg(home.join("session.sh")).env("DISPLAY", display.name());
        command.env("USER", Accounts::name(person)).stdin(Stdio::null());
        command.env_remove("XAUTHORITY");
        let session = Running::start("the session", &mut command)?;
        self.on_client()?;
        // The session ends before its server.
        Ok(Desk {
            display: display.name(),
            held: vec![session, server],
            displays: vec![display],
            ..Desk::default()
        })
    }
}

/// The first person's desktop, with the server.
impl Peer for Host {
    fn name(&self) -> &'static str {
        match self.subject.server {
            Server::Thinc { priority: true } => "thinc",
            Server::Thinc { priority: false } => "thinc-off",
            Server::Xrdp => "xrdp",
            Server::TigerVnc => "tigervnc",
        }
    }

    fn record(&self) -> PeerRecord {
        self.subject.record()
    }

    fn start(&self, site: &Site) -> Result<Desk, Error> {
        let desk = self.start_server(site)?;
        self.view(site, site.folder.path(), 0, desk)
    }
}

/// Another person's desktop on the server of a host, which runs.
pub(super) struct Guest<'a> {
    pub(super) host: &'a Host,
    /// Folder of the site on which the host was started.
    pub(super) home: PathBuf,
    pub(super) person: u32,
}

impl Peer for Guest<'_> {
    fn name(&self) -> &'static str {
        self.host.name()
    }

    fn record(&self) -> PeerRecord {
        self.host.record()
    }

    fn start(&self, site: &Site) -> Result<Desk, Error> {
        self.host.view(site, &self.home, self.person, Desk::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_have_names_and_others_are_named_in_the_error() {
        for name in ["thinc", "thinc-off", "xrdp", "tigervnc"] {
            assert!(Server::named(name).is_ok());
        }
        let names = ["thinc".to_owned(), "vnc".to_owned()];
        let error = Subject::named(&names).err().unwrap().to_string();
        assert!(error.contains("\"vnc\"") && error.contains("thinc-off"), "{error}");
    }
}
