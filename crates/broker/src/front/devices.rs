//! Remembered devices, as pages and viewers in windows use them: to sign in, to be remembered, to
//! be listed and forgotten. Beside the path: from http.rs, login.rs and native.rs, to the helper.
//! Knows requests of devices; never whether a signature is right.

use std::io;
use std::net::IpAddr;

use hyper::body::Incoming;
use hyper::header::{HeaderMap, HeaderName};
use hyper::{Request, StatusCode, header};
use serde::{Deserialize, Serialize};
use thinc_session_server::answer::{self, Answer, plain};
use thinc_transport::base64url;
use thinc_transport::device::{DeviceId, PublicKey, Signature};
use tracing::info;

use super::http::Connection;
use super::logins::{Attempt, Login, Logins, mapped};
use crate::message::{DeviceReply, DeviceRequest, ListedDevice, Reply, is_device_name, is_place};

/// With the banner: how many seconds a device can be remembered; it is missing if none is.
pub(super) const REMEMBERS: HeaderName = HeaderName::from_static("thinc-remembers");

impl Logins {
    /// Begins an attempt of a device, which knows this server as `place`.
    pub(super) async fn begin_sign_in(
        &self,
        source: IpAddr,
        device: DeviceId,
        place: String,
    ) -> io::Result<Attempt> {
        let attempt = self.register(source);
        let (number, source) = (attempt.number, mapped(source));
        let request = DeviceRequest::SignIn { attempt: number, source, device, place };
        self.send_device(request).await?;
        Ok(attempt)
    }

    /// Passes a device's signature on.
    pub(super) async fn sign(&self, attempt: &Attempt, signature: Signature) -> io::Result<()> {
        self.send_device(DeviceRequest::Signed { attempt: attempt.number, signature }).await
    }

    /// Has a device remembered; for how many seconds, unless the helper does not.
    pub(super) async fn remember(
        &self,
        login: &Login,
        source: IpAddr,
        key: PublicKey,
        name: String,
    ) -> Option<u64> {
        let cookie = *login.cookie();
        let request = |attempt| DeviceRequest::Remember { attempt, cookie, key, name };
        match self.ask_about_devices(source, request).await? {
            DeviceReply::Remembered { seconds, .. } => Some(seconds),
            _ => None,
        }
    }

    async fn devices(&self, login: &Login, source: IpAddr) -> Option<Vec<ListedDevice>> {
        let cookie = *login.cookie();
        let request = |attempt| DeviceRequest::List { attempt, cookie };
        match self.ask_about_devices(source, request).await? {
            DeviceReply::Devices { devices, .. } => Some(devices),
            _ => None,
        }
    }

    async fn forget_device(&self, login: &Login, source: IpAddr, device: DeviceId) -> bool {
        let cookie = *login.cookie();
        let request = |attempt| DeviceRequest::Forget { attempt, cookie, device };
        let reply = self.ask_about_devices(source, request).await;
        matches!(reply, Some(DeviceReply::Forgotten { .. }))
    }

    /// `None` if the helper refuses.
    async fn ask_about_devices(
        &self,
        source: IpAddr,
        request: impl FnOnce(u64) -> DeviceRequest,
    ) -> Option<DeviceReply> {
        let mut attempt = self.register(source);
        self.send_device(request(attempt.number)).await.ok()?;
        match self.next(&mut attempt).await?.0 {
            Reply::Device(reply) => Some(reply),
            _ => None,
        }
    }
}

/// The server as a page knows it, whose origin was checked; none if no device can sign for it.
pub(super) fn place_of_page(headers: &HeaderMap) -> Option<String> {
    let place = headers.get(header::ORIGIN)?.to_str().ok()?.to_ascii_lowercase();
    is_place(&place).then_some(place)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RememberBody {
    /// As base64url.
    key: String,
    name: String,
}

#[derive(Serialize)]
struct Remembered {
    seconds: u64,
}

/// Has the device of a page remembered.
pub(super) async fn remember(
    connection: &Connection,
    login: &Login,
    request: Request<Incoming>,
) -> Answer {
    let expected = "expected a key and a name";
    let RememberBody { key, name } = match answer::login_body(request, expected).await {
        Ok(body) => body,
        Err(answer) => return answer,
    };
    let key: Option<PublicKey> = base64url::decode(&key).and_then(|bytes| bytes.try_into().ok());
    let (Some(key), true) = (key, is_device_name(&name)) else {
        return plain(
            StatusCode::BAD_REQUEST,
            "a key is a point of P-256, and a name has 1 to 64 bytes in one line",
        );
    };
    let (logins, source) = (&connection.shared.logins, connection.peer.address);
    match logins.remember(login, source, key, name).await {
        Some(seconds) => {
            info!("{}: a device of {} is remembered", connection.peer, login.user);
            answer::json(&Remembered { seconds })
        }
        None => plain(StatusCode::CONFLICT, NOT_REMEMBERED),
    }
}

/// Told to a person whose device is not remembered.
pub(super) const NOT_REMEMBERED: &str =
    "this server remembers no devices, or you have not just logged in with a password";

#[derive(Serialize)]
struct Listed {
    devices: Vec<ListedOne>,
}

/// Times in seconds since 1970.
#[derive(Serialize)]
struct ListedOne {
    id: String,
    name: String,
    made_s: u64,
    used_s: u64,
    until_s: u64,
    /// It is the one that asks.
    is_own: bool,
}

/// A person's devices.
pub(super) async fn list(connection: &Connection, login: &Login) -> Answer {
    let (logins, source) = (&connection.shared.logins, connection.peer.address);
    let Some(devices) = logins.devices(login, source).await else {
        return plain(StatusCode::BAD_GATEWAY, "your devices are not known at this moment");
    };
    let devices = devices.into_iter().map(|device| ListedOne {
        id: device.device.to_string(),
        name: device.name,
        made_s: device.made_s,
        used_s: device.used_s,
        until_s: device.until_s,
        is_own: device.is_own,
    });
    answer::json(&Listed { devices: devices.collect() })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ForgetBody {
    device: String,
}

/// Forgets a device of a person.
pub(super) async fn forget(
    connection: &Connection,
    login: &Login,
    request: Request<Incoming>,
) -> Answer {
    let ForgetBody { device } = match answer::login_body(request, "expected a device").await {
        Ok(body) => body,
        Err(answer) => return answer,
    };
    let Ok(device) = device.parse() else {
        return plain(StatusCode::BAD_REQUEST, "a device's ID has 22 characters");
    };
    let (logins, source) = (&connection.shared.logins, connection.peer.address);
    if logins.forget_device(login, source, device).await {
        info!("{}: {} has a device forgotten", connection.peer, login.user);
        plain(StatusCode::NO_CONTENT, "")
    } else {
        plain(StatusCode::NOT_FOUND, "you have no such device")
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::message;

    fn place(origin: &[u8]) -> Option<String> {
        let origin = HeaderValue::from_bytes(origin).ok()?;
        place_of_page(&HeaderMap::from_iter([(header::ORIGIN, origin)]))
    }

    #[test]
    fn a_page_is_named_by_its_origin() {
        assert_eq!(place(b"https://Desk.example:8443").unwrap(), "https://desk.example:8443");
        let long = [b"https://".as_slice(), &[b'a'; 400]].concat();
        for bad in [b"https://a b".as_slice(), b"https://a\tb", b"", "https://ä".as_bytes(), &long]
        {
            assert_eq!(place(bad), None, "{bad:?}");
        }
        assert_eq!(place_of_page(&HeaderMap::new()), None);
    }

    proptest! {
        /// The helper ends a front that sends what it cannot read.
        #[test]
        fn the_helper_reads_the_place_of_every_page(origin in vec(any::<u8>(), 0..310)) {
            let plain = origin.iter().map(|byte| byte & 0x7f).collect();
            for origin in [origin, plain] {
                let Some(place) = place(&origin) else { continue };
                let (attempt, source, device) = (1, 0.into(), DeviceId([0; 16]));
                let request = DeviceRequest::SignIn { attempt, source, device, place };
                let request = message::Request::Device(request);
                prop_assert_eq!(message::Request::decode(&request.encode()), Ok(request));
            }
        }
    }
}
