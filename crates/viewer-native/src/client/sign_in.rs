//! Path 10/13: beside connection.rs; how a person gets into a server where people log in: by this
//! device's key, or by their password on the terminal, after which the server may remember the
//! device. Knows the terminal's questions and the key's file; never what is shown.

use std::io::{self, Write as _};

use thinc_protocol::auth::PromptStyle;
use thinc_protocol::session::CloseCode;
use thinc_transport::device::DeviceKey;
use thinc_transport::{ConnectError, Established, Link, SpkiPin};

use super::Shared;
use super::connection::Session;
use crate::desktops::Account;
use crate::device_key::{KeyFile, Remember, delete_unwanted, device_name};
use crate::error::{ViewError, report};
use crate::question::{self, Echo};

/// True for a server's word that it does not know a credential or a device.
fn is_refusal(error: &ConnectError) -> bool {
    matches!(error, ConnectError::Refused { code: CloseCode::Unauthorized, .. })
}

impl Shared {
    /// The file of this device's key for the server that has shown its key.
    fn key_file(&self, link: &Link, reached: &Established) -> Option<KeyFile> {
        KeyFile::new(&self.config.devices, &link.authority(), reached.pin())
    }

    /// Deletes the key of a person who does not stay signed in here.
    pub(super) fn delete_unwanted_key(&self, link: &Link) {
        if let Err((path, error)) = delete_unwanted(&self.config.devices, &link.authority()) {
            report(format_args!("{} cannot be deleted: {error}", path.display()));
        }
    }

    /// Logs in, and connects again with what that gives.
    pub(super) fn log_in(
        &self,
        link: &Link,
        reached: Established,
        session: &mut Session,
    ) -> Result<Established, ViewError> {
        let (file, pin) = (self.key_file(link, &reached), reached.pin());
        let key = match file.as_ref().map_or(Ok(None), KeyFile::load) {
            Ok(key) => key,
            Err(error) => {
                let path = file.as_ref().map(|file| file.path().display().to_string());
                report(format_args!("{}: {error}", path.unwrap_or_default()));
                None
            }
        };
        let reached = match key {
            None => reached,
            Some(key) => match reached.sign_in(&key, session.earlier_credential.as_deref()) {
                Ok(credential) => {
                    let credential = match session.earlier_credential {
                        Some(_) => credential,
                        None => self.choose_desktop(link, pin, credential, session)?,
                    };
                    session.session_credential = Some(credential);
                    return Ok(thinc_transport::establish(link, &self.options(session))?);
                }
                // The key stays: the refusal may be temporary, as while nobody may log in. It is
                // replaced when the person has the device remembered again.
                Err(error) if is_refusal(&error) && self.may_ask(session) => {
                    report(format_args!("this device was not signed in: {error}"));
                    thinc_transport::establish(link, &self.options(session))?
                }
                Err(error) => return Err(error.into()),
            },
        };
        if !self.may_ask(session) {
            return Err(ConnectError::NoToken.into());
        }
        let credential = ask(&link.authority(), reached)?;
        session.session_credential = Some(credential.clone());
        let is_wanted = || match self.config.devices.remember {
            Remember::No => false,
            Remember::Yes => true,
            Remember::Ask => {
                self.may_be_remembered(link, pin, &credential, session)
                    && question::ask("Stay signed in on this device?")
            }
        };
        if let Some(file) = file.filter(|_| is_wanted())
            && let Err(error) = self.remember(link, session, &file)
        {
            report(format_args!("this device is not remembered: {error}"));
        }
        let credential = self.choose_desktop(link, pin, credential, session)?;
        session.session_credential = Some(credential);
        Ok(thinc_transport::establish(link, &self.options(session))?)
    }

    /// While somebody works they are not asked: the terminal may be out of sight.
    fn may_ask(&self, session: &Session) -> bool {
        !session.was_connected && question::can_ask()
    }

    /// Has the server remember a new key for this device.
    fn remember(&self, link: &Link, session: &Session, file: &KeyFile) -> Result<(), ViewError> {
        let unusable = |error| ViewError::File { path: file.path().to_owned(), error };
        let key = DeviceKey::generate().map_err(unusable)?;
        // Written before the server remembers it, which would be for nothing otherwise.
        let new = file.prepare(&key).map_err(unusable)?;
        let reached = thinc_transport::establish(link, &self.options(session))?;
        reached.remember_device(&key, &device_name())?;
        new.keep().map_err(unusable)
    }

    /// Whether the server remembers devices at all; true if it does not say.
    fn may_be_remembered(
        &self,
        link: &Link,
        pin: SpkiPin,
        credential: &[u8],
        session: &Session,
    ) -> bool {
        let options = self.options(session);
        let account = Account::new(link, &options, pin, credential, |text| report(text));
        account.is_none_or(|account| account.can_remember_devices().unwrap_or(true))
    }

    /// After a refusal of the last connection's credential: a new one by this device's key, without
    /// a question. The refusal itself if there is no key.
    pub(super) fn sign_in_again(
        &self,
        link: &Link,
        session: &mut Session,
        refusal: ViewError,
    ) -> Result<(), ViewError> {
        let ViewError::Connect(error) = &refusal else { return Err(refusal) };
        if link.token.is_some() || !is_refusal(error) {
            return Err(refusal);
        }
        // The desktop that was open is wanted again.
        // After a second refusal it is still the one of the last connection.
        if let Some(last) = session.session_credential.take() {
            session.earlier_credential = Some(last);
        }
        let reached = thinc_transport::establish(link, &self.options(session))?;
        let file = self.key_file(link, &reached);
        let Some(key) = file.and_then(|file| file.load().ok().flatten()) else {
            return Err(refusal);
        };
        let earlier = session.earlier_credential.as_deref();
        session.session_credential = Some(reached.sign_in(&key, earlier)?);
        Ok(())
    }
}

/// Has the person log in on the terminal.
fn ask(authority: &str, reached: Established) -> Result<Vec<u8>, ViewError> {
    let own = std::env::var("USER").unwrap_or_default();
    let default = if own.is_empty() { String::new() } else { format!(" [{own}]") };
    let _ = writeln!(io::stderr(), "Log in at {authority}");
    let name = question::read_line(&format!("User name{default}: "), Echo::On);
    let name = name.map(|name| if name.is_empty() { own } else { name });
    let Some(name) = name.filter(|name| !name.is_empty()) else {
        return Err(ConnectError::NotLoggedIn(authority.to_owned()).into());
    };
    let credential = reached.log_in(&name, &mut |prompts| {
        let mut answers = Vec::new();
        for prompt in prompts {
            let text = thinc_protocol::wire::printable(prompt.text);
            let echo = match prompt.style {
                PromptStyle::Text => {
                    let _ = writeln!(io::stderr(), "{text}");
                    continue;
                }
                PromptStyle::Hidden => Echo::Off,
                PromptStyle::Shown => Echo::On,
            };
            let text = format!("{} ", text.trim_end());
            answers.push(question::read_line(&text, echo)?.into_bytes());
        }
        Some(answers)
    })?;
    Ok(credential)
}
