//! Before the path: a person's desktops behind a broker, chosen, started, renamed and ended on the
//! terminal. From client/connection.rs, once they have logged in, by the requests that the broker's
//! page makes. Knows what the server says of desktops, and trusts none of its words; never what a
//! desktop shows.

use std::fmt::Write as _;
use std::time::{Duration, Instant, SystemTime};

use serde::Deserialize;
use serde_json::json;
use thinc_protocol::session::CloseCode;
use thinc_protocol::wire::printable;
use thinc_transport::https::{self, Answer, Request};
use thinc_transport::{ConnectError, ConnectOptions, Link, SpkiPin, base64url};

/// Starting a desktop may take as long as the broker waits for it.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(75);
/// Secrets of a login in a credential, each of as many bytes; the desktop's name follows.
const SECRET_BYTES: usize = 32;
/// A start is asked for again after this time at least, while the server says that it has to wait:
/// it holds its answers back itself.
const WAIT_PAUSE: Duration = Duration::from_secs(1);
/// How long it may say so; the server gives up before.
const WAIT_MAX: Duration = Duration::from_secs(600);
/// Longest text of the server's that is shown, in characters.
const SHOWN_CHARS_MAX: usize = 200;

/// Which desktop is opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DesktopChoice {
    /// The only one; the person chooses among several.
    #[default]
    Any,
    /// The person chooses, whatever there is.
    List,
    /// The one with this name, or that is called so.
    Named(String),
    /// Another one, of this name.
    New {
        /// Its name.
        name: String,
        /// A program with its arguments; none: the usual desktop.
        program: Option<String>,
    },
}

/// As the server lists it.
#[derive(Deserialize)]
struct Desktop {
    name: String,
    title: Option<String>,
    started_s: u64,
    shown: Vec<Shown>,
}

#[derive(Deserialize)]
struct Shown {
    from: String,
    since_s: u64,
    is_guest: bool,
}

#[derive(Deserialize)]
struct Sessions {
    user: String,
    sessions: Vec<Desktop>,
}

#[derive(Deserialize)]
struct Started {
    name: String,
}

/// Of who waits until the server can take another desktop.
#[derive(Deserialize)]
struct Waiting {
    ahead: u32,
}

/// Tells the person something while they wait.
pub(crate) type Tell<'a> = dyn Fn(&str) + 'a;

/// Asks the person, and returns their line; `None` at its end.
pub(crate) type Ask<'a> = dyn FnMut(&str) -> Option<String> + 'a;

/// A request: method, path and body.
type Send<'a> = dyn Fn(&str, &str, &str) -> Result<Answer, ConnectError> + 'a;

/// A login, by whose secrets the broker is asked.
pub(crate) struct Account<'a> {
    send: Box<Send<'a>>,
    tell: Box<Tell<'a>>,
    wait_pause: Duration,
}

fn failed(reason: impl Into<String>) -> ConnectError {
    ConnectError::Refused { code: CloseCode::Protocol, reason: reason.into() }
}

/// A text of the server, fit for a line of a terminal.
fn line(text: &str) -> String {
    let text: String = text.chars().take(SHOWN_CHARS_MAX).collect();
    printable(&text).replace(['\n', '\t'], " ")
}

/// A time in its largest unit.
fn age(seconds: u64) -> String {
    match seconds {
        0..3600 => format!("{} min", seconds / 60),
        3600..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

impl Desktop {
    fn title(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.name)
    }

    fn where_shown(&self) -> String {
        let shown: Vec<String> = self
            .shown
            .iter()
            .map(|one| {
                let who = if one.is_guest { "a guest at" } else { "shown at" };
                format!("{who} {}, {}", line(&one.from), age(one.since_s))
            })
            .collect();
        if shown.is_empty() { "not shown anywhere".to_owned() } else { shown.join("; ") }
    }
}

impl<'a> Account<'a> {
    /// Of a credential that a login has given; `None` if it is not one of a broker's.
    pub(crate) fn new(
        link: &'a Link,
        options: &'a ConnectOptions,
        pin: SpkiPin,
        credential: &[u8],
        tell: impl Fn(&str) + 'a,
    ) -> Option<Account<'a>> {
        let (cookie, rest) = credential.split_at_checked(SECRET_BYTES)?;
        let (secret, _) = rest.split_at_checked(SECRET_BYTES)?;
        let cookie = format!("__Host-thinc-broker={}", base64url::encode(cookie));
        let secret = base64url::encode(secret);
        let send = move |method: &str, path: &str, body: &str| {
            let headers = [("Cookie", cookie.as_str()), ("Thinc-Origin-Secret", secret.as_str())];
            let request = Request { method, path, headers: &headers, body };
            https::request(link, options, pin, request, ANSWER_TIMEOUT)
        };
        Some(Account { send: Box::new(send), tell: Box::new(tell), wait_pause: WAIT_PAUSE })
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> Result<Answer, ConnectError> {
        let answer = (self.send)(method, path, body)?;
        match answer.status {
            200 | 202 | 204 => Ok(answer),
            _ => Err(failed(line(&String::from_utf8_lossy(&answer.body)))),
        }
    }

    /// Whether the server's administrator lets people stay signed in.
    pub(crate) fn can_remember_devices(&self) -> Result<bool, ConnectError> {
        let answer = self.ask("GET", "/banner", "")?;
        let seconds = answer.header("thinc-remembers").and_then(|text| text.parse::<u64>().ok());
        Ok(seconds.is_some_and(|seconds| seconds > 0))
    }

    fn list(&self) -> Result<Sessions, ConnectError> {
        let answer = self.ask("GET", "/sessions", "")?;
        let mut found: Sessions = serde_json::from_slice(&answer.body)
            .map_err(|error| failed(format!("the server's list of desktops: {error}")))?;
        found.sessions.retain(|desktop| is_name(&desktop.name));
        Ok(found)
    }

    fn start(&self, name: Option<&str>, program: Option<&str>) -> Result<String, ConnectError> {
        let body = match (name, program) {
            (None, None) => String::new(),
            (name, None) => json!({ "what": "default", "name": name }).to_string(),
            (name, Some(line)) => json!({ "what": { "program": line }, "name": name }).to_string(),
        };
        let answer = self.start_in_turn(&body)?;
        let started: Started = serde_json::from_slice(&answer.body)
            .map_err(|error| failed(format!("the server's answer: {error}")))?;
        if is_name(&started.name) { Ok(started.name) } else { Err(failed("no desktop's name")) }
    }

    /// The answer once a desktop has started. The server may have the person wait, who can end the
    /// viewer and so lose their place.
    fn start_in_turn(&self, body: &str) -> Result<Answer, ConnectError> {
        let (until, mut told) = (Instant::now() + WAIT_MAX, None);
        loop {
            let path =
                told.map_or("/start?waits".to_owned(), |ahead| format!("/start?waits={ahead}"));
            let answer = self.ask("POST", &path, body)?;
            if answer.status != 202 {
                return Ok(answer);
            }
            if Instant::now() >= until {
                return Err(failed("the server has had this viewer wait for too long"));
            }
            let Waiting { ahead } = serde_json::from_slice(&answer.body)
                .map_err(|error| failed(format!("the server's answer: {error}")))?;
            if told != Some(ahead) {
                (self.tell)(&waits(ahead));
            }
            told = Some(ahead);
            std::thread::sleep(self.wait_pause);
        }
    }

    /// The name of the desktop that is to be opened.
    pub(crate) fn choose(
        &self,
        choice: &DesktopChoice,
        can_ask: bool,
        ask: &mut Ask<'_>,
    ) -> Result<String, ConnectError> {
        match choice {
            DesktopChoice::New { name, program } => self.start(Some(name), program.as_deref()),
            DesktopChoice::Named(wanted) => {
                let found = self.list()?.sessions;
                let is_it = |desktop: &&Desktop| desktop.name == *wanted;
                let is_called = |desktop: &&Desktop| desktop.title() == wanted;
                let named = found.iter().find(is_it).or_else(|| found.iter().find(is_called));
                named.map(|desktop| desktop.name.clone()).ok_or_else(|| {
                    let names: Vec<String> = found.iter().map(|it| line(it.title())).collect();
                    failed(format!("you have no desktop {wanted}; there is {}", names.join(", ")))
                })
            }
            DesktopChoice::Any | DesktopChoice::List => self.choose_from_list(choice, can_ask, ask),
        }
    }

    fn choose_from_list(
        &self,
        choice: &DesktopChoice,
        can_ask: bool,
        ask: &mut Ask<'_>,
    ) -> Result<String, ConnectError> {
        let mut said = String::new();
        loop {
            let Sessions { user, sessions } = self.list()?;
            match (sessions.as_slice(), choice) {
                ([only], DesktopChoice::Any) => return Ok(only.name.clone()),
                ([], DesktopChoice::Any) => return self.start(None, None),
                _ => {}
            }
            if !can_ask {
                let names: Vec<String> = sessions.iter().map(|it| line(it.title())).collect();
                let names = names.join(", ");
                return Err(failed(format!("name one of your desktops with --desktop: {names}")));
            }
            let text = format!("{}{said}{HELP}", table(&user, &sessions));
            let Some(answer) = ask(&text) else { return Err(failed("no desktop was chosen")) };
            match self.act(&sessions, answer.trim()) {
                Ok(Acted::Opens(name)) => return Ok(name),
                Ok(Acted::Done(text)) => said = text,
                Err(error) => said = format!("{error}\n"),
            }
        }
    }

    fn act(&self, sessions: &[Desktop], answer: &str) -> Result<Acted, ConnectError> {
        let (first, rest) = answer.split_once(' ').unwrap_or((answer, ""));
        let (first, rest) = (first.trim(), rest.trim());
        let of = |number: &str| {
            let at = number.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
            at.and_then(|at| sessions.get(at))
                .ok_or_else(|| failed(format!("{:?} is no number of the list", line(number))))
        };
        Ok(match first {
            "" => Acted::Opens(of("1")?.name.clone()),
            "n" if rest.is_empty() => Acted::Opens(self.start(None, None)?),
            "n" => {
                let (name, program) = rest.split_once(' ').unwrap_or((rest, ""));
                let program = Some(program.trim()).filter(|program| !program.is_empty());
                Acted::Opens(self.start(Some(name), program)?)
            }
            "r" => {
                let (number, title) = rest.split_once(' ').unwrap_or((rest, ""));
                let desktop = of(number)?;
                let body = json!({ "title": title.trim() }).to_string();
                self.ask("POST", &format!("/desk/{}/rename", desktop.name), &body)?;
                Acted::Done(format!("{} is renamed.\n", line(desktop.title())))
            }
            "e" => {
                let desktop = of(rest)?;
                self.ask("POST", &format!("/desk/{}/end", desktop.name), "")?;
                Acted::Done(format!("{} has ended.\n", line(desktop.title())))
            }
            number => Acted::Opens(of(number)?.name.clone()),
        })
    }
}

fn waits(ahead: u32) -> String {
    let place = match ahead {
        0 => "it is the next to start".to_owned(),
        1 => "one person is before you".to_owned(),
        ahead => format!("{ahead} people are before you"),
    };
    format!("the server is busy: your desktop starts by itself as soon as it can, and {place}")
}

/// What the person has done.
enum Acted {
    Opens(String),
    /// In words; the list is shown again.
    Done(String),
}

const HELP: &str = "NUMBER: open it (Return: the first). n [NAME [PROGRAM…]]: start another. \
                    r NUMBER NEW NAME: rename. e NUMBER: end.\n> ";

fn table(user: &str, sessions: &[Desktop]) -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let mut text = format!("Desktops of {}:\n", line(user));
    for (number, desktop) in (1..).zip(sessions) {
        let since = age(now.as_secs().saturating_sub(desktop.started_s));
        let (title, shown) = (line(desktop.title()), desktop.where_shown());
        let _ = writeln!(text, "{number:>3}  {title}, {since}: {shown}");
    }
    text
}

/// As the broker has them; they become parts of paths.
fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && !name.starts_with('.')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte))
}

/// The credential that opens another desktop of the same login.
pub(crate) fn with_desktop(credential: &[u8], name: &str) -> Vec<u8> {
    [&credential[..credential.len().min(2 * SECRET_BYTES)], name.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn the_list_shows_the_servers_words_and_no_control_characters() {
        let shown = |from: &str| Shown { from: from.into(), since_s: 7300, is_guest: false };
        let desktop = |name: &str, title: Option<&str>, shown: Vec<Shown>| Desktop {
            name: name.into(),
            title: title.map(str::to_owned),
            started_s: u64::MAX,
            shown,
        };
        let all = [
            desktop("xfce", Some("Work\u{1b}[2J\nat home"), vec![shown("192.0.2.7")]),
            desktop("two", None, vec![]),
        ];
        let text = table("anna", &all);
        assert!(!text.contains('\u{1b}') && text.lines().count() == 3, "{text}");
        assert!(text.contains("  1  Work"), "{text}");
        assert!(text.contains("shown at 192.0.2.7, 2 h"), "{text}");
        assert!(text.contains("  2  two, 0 min: not shown anywhere"), "{text}");
    }

    fn without_telling<'a>(
        send: impl Fn(&str, &str, &str) -> Result<Answer, ConnectError> + 'a,
    ) -> Account<'a> {
        let tell = |text: &str| panic!("nobody waits: {text}");
        Account { send: Box::new(send), tell: Box::new(tell), wait_pause: Duration::ZERO }
    }

    #[test]
    fn who_waits_is_told_their_place_whenever_it_changes_and_then_has_a_desktop() {
        let answers = RefCell::new(vec![
            (200, r#"{"name":"new"}"#),
            (202, r#"{"ahead":0,"short_of":null}"#),
            (202, r#"{"ahead":2,"short_of":"memory"}"#),
            (202, r#"{"ahead":2,"short_of":"memory"}"#),
        ]);
        let (asked, told) = (RefCell::new(Vec::new()), RefCell::new(Vec::new()));
        let send = |method: &str, path: &str, _: &str| {
            asked.borrow_mut().push(format!("{method} {path}"));
            let (status, body) = answers.borrow_mut().pop().unwrap();
            Ok(Answer { status, headers: Vec::new(), body: body.as_bytes().to_vec() })
        };
        let tell = |text: &str| told.borrow_mut().push(text.to_owned());
        let account =
            Account { send: Box::new(send), tell: Box::new(tell), wait_pause: Duration::ZERO };
        assert_eq!(account.start(None, None).unwrap(), "new");
        let wanted = [
            "POST /start?waits",
            "POST /start?waits=2",
            "POST /start?waits=2",
            "POST /start?waits=0",
        ];
        assert_eq!(*asked.borrow(), wanted);
        let told = told.borrow();
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].ends_with("and 2 people are before you"), "{told:?}");
        assert!(told[1].ends_with("and it is the next to start"), "{told:?}");

        answers.borrow_mut().push((202, "not JSON"));
        assert!(account.start(None, None).is_err());
    }

    /// A broker that answers with this list, and notes what it is asked for.
    fn account<'a>(asked: &'a RefCell<Vec<String>>, list: &'a str) -> Account<'a> {
        let send = move |method: &str, path: &str, body: &str| {
            asked.borrow_mut().push(format!("{method} {path} {body}"));
            let mut headers = Vec::new();
            let (status, body) = match path {
                "/banner" => {
                    headers.extend([("thinc-remembers".to_owned(), list.to_owned())]);
                    (200, String::new())
                }
                "/sessions" => (200, list.to_owned()),
                "/start?waits" => (200, r#"{"name":"new"}"#.to_owned()),
                "/desk/two/rename" => (409, "it is called\u{1b} so already".to_owned()),
                _ => (204, String::new()),
            };
            Ok(Answer { status, headers, body: body.into_bytes() })
        };
        without_telling(send)
    }

    const TWO: &str = r#"{"user":"anna","sessions":[
        {"name":"one","title":null,"command":"x","started_s":0,"shown":[]},
        {"name":"two","title":"Work at home","command":"x","started_s":0,
         "shown":[{"from":"192.0.2.7","since_s":60,"is_guest":false}]},
        {"name":"../x","title":null,"command":"x","started_s":0,"shown":[]}]}"#;
    const ONE: &str = r#"{"user":"anna","sessions":[
        {"name":"one","title":null,"command":"x","started_s":0,"shown":[]}]}"#;

    /// What is opened if the person types these lines, and all that they were shown.
    fn chosen(
        account: &Account<'_>,
        choice: &DesktopChoice,
        lines: &[&str],
    ) -> (Result<String, String>, String) {
        let (mut lines, mut shown) = (lines.iter(), String::new());
        let result = account.choose(choice, true, &mut |text| {
            shown += text;
            lines.next().map(|line| (*line).to_owned())
        });
        (result.map_err(|error| error.to_string()), shown)
    }

    #[test]
    fn a_person_opens_renames_ends_and_starts_desktops_of_the_list() {
        let asked = RefCell::default();
        let account = account(&asked, TWO);
        let lines = ["7", "r 2 Other", "r 1 My  desk", "e 2", "2"];
        let (result, shown) = chosen(&account, &DesktopChoice::Any, &lines);
        assert_eq!(result, Ok("two".to_owned()));
        assert!(shown.contains("  2  Work at home, "), "{shown}");
        assert!(shown.contains("\"7\" is no number of the list"), "{shown}");
        assert!(shown.contains("it is called\u{fffd} so already"), "{shown}");
        assert!(!shown.contains("../x"), "{shown}");
        let wanted = ["POST /desk/one/rename {\"title\":\"My  desk\"}", "POST /desk/two/end "];
        assert!(wanted.iter().all(|it| asked.borrow().iter().any(|asked| asked == it)));

        asked.borrow_mut().clear();
        assert_eq!(
            chosen(&account, &DesktopChoice::List, &["n work xterm -e top"]).0.unwrap(),
            "new"
        );
        let body = r#"POST /start?waits {"name":"work","what":{"program":"xterm -e top"}}"#;
        assert_eq!(asked.borrow().last().unwrap(), body);
        assert_eq!(chosen(&account, &DesktopChoice::List, &[""]).0.unwrap(), "one");
        assert!(chosen(&account, &DesktopChoice::Any, &[]).0.is_err());
    }

    #[test]
    fn the_only_desktop_and_a_named_one_are_opened_without_a_question() {
        let asked = RefCell::default();
        let one = account(&asked, ONE);
        assert_eq!(chosen(&one, &DesktopChoice::Any, &[]), (Ok("one".to_owned()), String::new()));
        assert!(chosen(&one, &DesktopChoice::List, &["1"]).1.contains("Desktops of anna"));
        let none = account(&asked, r#"{"user":"anna","sessions":[]}"#);
        assert_eq!(chosen(&none, &DesktopChoice::Any, &[]).0.unwrap(), "new");
        assert_eq!(asked.borrow().last().unwrap(), "POST /start?waits ");
        assert!(chosen(&none, &DesktopChoice::List, &[]).0.is_err());
        let two = account(&asked, TWO);
        let named = |name: &str| chosen(&two, &DesktopChoice::Named(name.to_owned()), &[]).0;
        assert_eq!(named("two").unwrap(), "two");
        assert_eq!(named("Work at home").unwrap(), "two");
        assert!(named("three").unwrap_err().contains("one, Work at home"));
        let new = DesktopChoice::New { name: "x".to_owned(), program: None };
        assert_eq!(chosen(&two, &new, &[]).0.unwrap(), "new");
        let refused = two.choose(&DesktopChoice::Any, false, &mut |_| unreachable!());
        assert!(refused.unwrap_err().to_string().contains("--desktop"));
        let broken = account(&asked, "{\"user\":7}");
        assert!(chosen(&broken, &DesktopChoice::Any, &[]).0.is_err());
    }

    #[test]
    fn a_server_says_whether_it_remembers_devices() {
        let asked = RefCell::default();
        let can = |said: &str| account(&asked, said).can_remember_devices().unwrap();
        assert!(can("2592000") && !can("0") && !can("yes"));
        let none = |_: &str, _: &str, _: &str| {
            Ok(Answer { status: 204, headers: Vec::new(), body: Vec::new() })
        };
        assert!(!without_telling(none).can_remember_devices().unwrap());
    }

    #[test]
    fn a_credential_opens_another_desktop_of_its_login() {
        let credential = [&[1; 64][..], b"desk"].concat();
        assert_eq!(with_desktop(&credential, "two"), [&[1; 64][..], b"two"].concat());
        assert!(is_name("a.b-c_9") && !is_name("../x") && !is_name(""));
    }
}
