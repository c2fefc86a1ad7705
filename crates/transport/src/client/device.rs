//! Path 10/13: beside client.rs; a device that a broker remembers signs its person in, or is to be
//! remembered. Knows the device's key and the authenticating messages; never a password.

use std::time::{Duration, Instant};

use thinc_protocol::auth::AuthOk;
use thinc_protocol::device_auth::{AuthChallenge, DeviceAuth};
use thinc_protocol::framing::MessageFrame;

use super::{ConnectError, Credential, Established, await_answer, await_message};
use crate::device::{DeviceKey, place_of, sign_in_message};

/// The most that a broker takes for each answer: it delays attempts after failures, opens the
/// person's PAM session, and starts a desktop for who has none.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(90);

impl Established {
    /// Signs this device's person in. Returns a session credential for another connection; for the
    /// desktop of an earlier one, if there is one.
    ///
    /// # Errors
    /// The server refuses, as it does not remember the device; or is no `thinc broker`.
    pub fn sign_in(self, key: &DeviceKey, earlier: Option<&[u8]>) -> Result<Vec<u8>, ConnectError> {
        let Established { authority, mut transport, .. } = self;
        let broken = |error| ConnectError::Broken(authority.clone(), error);
        let mut message = Vec::new();
        let id = &key.id().0;
        DeviceAuth::Device { id, earlier: earlier.unwrap_or_default() }.encode(&mut message);
        let deadline = Instant::now() + ANSWER_TIME_MAX;
        transport.send(&message, deadline).map_err(broken)?;
        let mut read = |frame: &MessageFrame<'_>| Some(*AuthChallenge::decode(frame).ok()?.0);
        let (challenge, _) = await_message(transport.as_mut(), &authority, deadline, &mut read)?;
        // Signed for the server that has shown this key, and for no other.
        let place = place_of(&transport.pin());
        let signature = key.sign(&sign_in_message(&place, key.id(), &challenge)).map_err(broken)?;
        message.clear();
        DeviceAuth::Signature(&signature).encode(&mut message);
        let deadline = Instant::now() + ANSWER_TIME_MAX;
        transport.send(&message, deadline).map_err(broken)?;
        Ok(await_answer(transport.as_mut(), &authority, deadline)?.0)
    }

    /// Has the device remembered, under this name, for the person who has just logged in.
    ///
    /// # Errors
    /// The server refuses; its words say why.
    pub fn remember_device(self, key: &DeviceKey, name: &str) -> Result<(), ConnectError> {
        let Established { authority, credential, mut transport, .. } = self;
        let broken = |error| ConnectError::Broken(authority.clone(), error);
        let Credential::Session(session_credential) = &credential else {
            return Err(ConnectError::NoToken);
        };
        let mut message = Vec::new();
        let key = &key.public();
        DeviceAuth::Remember { session_credential, key, name }.encode(&mut message);
        let deadline = Instant::now() + ANSWER_TIME_MAX;
        transport.send(&message, deadline).map_err(broken)?;
        let mut read = |frame: &MessageFrame<'_>| AuthOk::decode(frame).ok().map(drop);
        await_message(transport.as_mut(), &authority, deadline, &mut read)?;
        Ok(())
    }
}
