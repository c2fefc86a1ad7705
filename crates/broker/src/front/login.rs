//! A person logs in on a page: a name and a password, or answers to what was asked after that, or
//! their device signs them in. Beside the path: from http.rs, to logins.rs. Knows the bodies of
//! these requests; never who may log in.

use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header;
use hyper::{Request, StatusCode};
use serde::{Deserialize, Serialize};
use thinc_session_server::answer::{self, Answer, plain, with_header};
use thinc_session_server::gate::AUTH_TIMEOUT;
use thinc_transport::base64url;
use tokio::time::Instant;
use tracing::info;

use super::devices;
use super::http::{COOKIE, Connection, check_origin};
use super::logins::{Attempt, Logins};
use crate::message::{DeviceReply, Prompt, Reason, Reply, Style, are_answers, is_user_name};

/// The body of a login: a name and a password, or answers to what was asked after that.
#[derive(Deserialize)]
#[serde(untagged)]
enum LoginBody {
    Begin { user: String, password: String },
    Continue { attempt: String, answers: Vec<String> },
    SignIn { device: String },
    Signed { attempt: String, signature: String },
}

/// What the person is asked, or told.
#[derive(Serialize)]
struct Asked {
    /// Names the attempt in the answers.
    attempt: String,
    prompts: Vec<AskedPrompt>,
}

#[derive(Serialize)]
struct AskedPrompt {
    /// "hidden" or "shown" for questions, "text" for what is only read.
    style: &'static str,
    text: String,
}

/// What a remembered device has to sign.
#[derive(Serialize)]
struct AskedToSign {
    /// As above.
    attempt: String,
    /// As base64url.
    challenge: String,
}

#[derive(Serialize)]
struct LoggedIn {
    #[serde(rename = "originSecret")]
    origin_secret: String,
}

pub(super) async fn log_in(connection: &Arc<Connection>, request: Request<Incoming>) -> Answer {
    if let Err(reason) = check_origin(request.headers()) {
        return plain(StatusCode::FORBIDDEN, reason);
    }
    let Some(place) = devices::place_of_page(request.headers()) else {
        return plain(
            StatusCode::FORBIDDEN,
            "this page's address cannot be signed for: it has 1 to 300 characters of ASCII",
        );
    };
    let expected = "expected a name and a password, or answers, or a device";
    let body = match answer::login_body::<LoginBody>(request, expected).await {
        Ok(body) => body,
        Err(answer) => return answer,
    };
    // The helper limits how long an attempt takes.
    if connection.is_stranger() {
        connection.deadline.send_replace(None);
    }
    let answer = attempt(connection, body, place).await;
    if connection.is_stranger() {
        connection.deadline.send_replace(Some(Instant::now() + AUTH_TIMEOUT));
    }
    answer
}

async fn attempt(connection: &Connection, body: LoginBody, place: String) -> Answer {
    let logins = &connection.shared.logins;
    let source = connection.peer.address;
    let resume = |attempt: &str| {
        let number = u64::from_str_radix(attempt, 16).ok()?;
        logins.resume_attempt(number, source)
    };
    let (mut attempt, mut password) = match body {
        LoginBody::Begin { user, password } => {
            if !is_user_name(&user) || !are_answers(&[&password]) {
                return plain(StatusCode::BAD_REQUEST, "no account has such a name or password");
            }
            match logins.begin(source, user).await {
                Ok(attempt) => (attempt, Some(password)),
                Err(_) => return helper_is_gone(),
            }
        }
        LoginBody::SignIn { device } => {
            let Ok(device) = device.parse() else {
                return plain(StatusCode::BAD_REQUEST, "a device's ID has 22 characters");
            };
            match logins.begin_sign_in(source, device, place).await {
                Ok(attempt) => (attempt, None),
                Err(_) => return helper_is_gone(),
            }
        }
        LoginBody::Signed { attempt, signature } => {
            let Some(attempt) = resume(&attempt) else { return refused(Reason::Refused) };
            let signature = base64url::decode(&signature).and_then(|bytes| bytes.try_into().ok());
            let Some(signature) = signature else {
                // The helper ends it at its time.
                return plain(StatusCode::BAD_REQUEST, "a signature has 64 bytes");
            };
            if logins.sign(&attempt, signature).await.is_err() {
                return helper_is_gone();
            }
            (attempt, None)
        }
        LoginBody::Continue { attempt, answers } => {
            let Some(attempt) = resume(&attempt) else { return refused(Reason::Refused) };
            if !are_answers(&answers) {
                return plain(StatusCode::BAD_REQUEST, "an answer is too long");
            }
            let answers = answers.into_iter().map(String::into_bytes).collect();
            if logins.answer(&attempt, answers).await.is_err() {
                return helper_is_gone();
            }
            (attempt, None)
        }
    };
    loop {
        let Some((reply, agent)) = logins.next(&mut attempt).await else {
            return helper_is_gone();
        };
        match reply {
            Reply::Prompts { prompts, .. } => match (password.take(), only_question(&prompts)) {
                (Some(password), true) => {
                    if logins.answer(&attempt, vec![password.into_bytes()]).await.is_err() {
                        return helper_is_gone();
                    }
                }
                _ => return ask(logins, attempt, prompts),
            },
            Reply::Drain { .. }
            | Reply::Kept { .. }
            | Reply::Ended { .. }
            | Reply::Certificate
            | Reply::Challenge { .. }
            | Reply::Figures => {
                unreachable!("dispatch passes on what answers the request of an attempt")
            }
            Reply::Device(DeviceReply::Challenge { challenge, .. }) => {
                let number = format!("{:016x}", attempt.number);
                let challenge = base64url::encode(&challenge);
                logins.keep_waiting(attempt);
                return answer::json(&AskedToSign { attempt: number, challenge });
            }
            Reply::Device(_) => return helper_is_gone(),
            Reply::Refused { reason, .. } => {
                info!(connection = connection.number, "{}: login refused", connection.peer);
                return refused(reason);
            }
            Reply::Admitted { cookie, origin_secret, .. } => {
                let Some(login) = logins.admit(reply, agent) else { return helper_is_gone() };
                let (number, user) = (connection.number, login.user.as_str());
                info!(connection = number, user, "{}: {user} logged in", connection.peer);
                connection.set_authenticated(&login);
                let cookie = format!(
                    "{COOKIE}={}; Secure; HttpOnly; SameSite=Strict; Path=/",
                    base64url::encode(&cookie)
                );
                let origin_secret = base64url::encode(&origin_secret);
                let answer = answer::json(&LoggedIn { origin_secret });
                return with_header(answer, header::SET_COOKIE, &cookie);
            }
        }
    }
}

/// True if all that is asked is one answer that is not shown: the password.
fn only_question(prompts: &[Prompt]) -> bool {
    let mut questions = prompts.iter().filter(|prompt| prompt.style != Style::Text);
    questions.next().is_some_and(|prompt| prompt.style == Style::Hidden)
        && questions.next().is_none()
}

fn ask(logins: &Logins, attempt: Attempt, prompts: Vec<Prompt>) -> Answer {
    let prompts = prompts.into_iter().map(|Prompt { style, text }| AskedPrompt {
        style: match style {
            Style::Hidden => "hidden",
            Style::Shown => "shown",
            Style::Text => "text",
        },
        text,
    });
    let number = format!("{:016x}", attempt.number);
    let asked = Asked { attempt: number, prompts: prompts.collect() };
    logins.keep_waiting(attempt);
    answer::json(&asked)
}

fn refused(reason: Reason) -> Answer {
    match reason {
        Reason::Refused => plain(StatusCode::UNAUTHORIZED, "the login was refused"),
        Reason::Draining => {
            plain(StatusCode::SERVICE_UNAVAILABLE, "this server takes no new logins at this moment")
        }
        Reason::Busy => {
            plain(StatusCode::TOO_MANY_REQUESTS, "too many people are logging in at this moment")
        }
    }
}

fn helper_is_gone() -> Answer {
    plain(StatusCode::SERVICE_UNAVAILABLE, "nobody can log in at this moment; try again")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_answers_one_hidden_question_and_nothing_else() {
        let prompt = |style| Prompt { style, text: "?".to_owned() };
        assert!(only_question(&[prompt(Style::Text), prompt(Style::Hidden)]));
        assert!(!only_question(&[prompt(Style::Shown)]));
        assert!(!only_question(&[prompt(Style::Hidden), prompt(Style::Hidden)]));
        assert!(!only_question(&[prompt(Style::Text)]));
    }
}
