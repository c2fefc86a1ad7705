//! The messages between the broker's front, its helper and login processes: the helper is root, and
//! reads what a front that was taken over could send. And the configuration, which root reads too.
//! Knows bytes; never passwords.

use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;

use thinc_broker::acme::Told;
use thinc_broker::admin::{AdminRequest, AdminStatus, AdminViewer, Named, VIEWERS_TOLD_MAX};
use thinc_broker::agent::is_session_name;
use thinc_broker::agent::{DesktopFigures, FIGURES_MAX, PREFERENCES_BYTES_MAX, Preferences};
use thinc_broker::config::{CONFIG_BYTES_MAX, Config, ConfigError, KEYS};
use thinc_broker::devices::{AccountDevices, Device};
use thinc_broker::limits::Rates;
use thinc_broker::message::{
    DEVICES_PER_USER_MAX, Deed, DeviceReply, DeviceRequest, Kept, Known, ListedDevice, Prompt,
    Reason, Reply, Request, Start, Style, Verify,
};
use thinc_broker::proxy::{
    ForwardedError, PROXY_BODY_BYTES_MAX, PROXY_HEAD_BYTES, PROXY_SIGNATURE, TrustedProxies,
    proxy_body_length, proxy_client,
};
use thinc_transport::device::DeviceId;

/// One packet, as either side reads it: what is accepted is written the same way again.
pub fn message(input: &[u8]) {
    if let Ok(request) = Request::decode(input) {
        assert_eq!(request.encode(), input);
    }
    if let Ok(reply) = Reply::decode(input) {
        assert_eq!(reply.encode(), input);
    }
    // A failure's control characters become spaces.
    if let Some(told) = Told::decode(input) {
        assert_eq!(Told::decode(&told.encode()), Some(told));
    }
    // Networks may be written in several ways.
    if let Ok(start) = Start::decode(input) {
        assert_eq!(Start::decode(&start.encode()), Ok(start));
    }
}

/// What a client sends before the address that a trusted proxy adds: it changes nothing of what is
/// believed, or the request is refused.
pub fn forwarded(input: &[u8]) {
    let trusted = TrustedProxies(vec!["127.0.0.1".parse().unwrap(), "10.0.0.0/8".parse().unwrap()]);
    let (proxy, client) = (IpAddr::from([127, 0, 0, 1]), IpAddr::from([192, 0, 2, 7]));
    let stranger = IpAddr::from([198, 51, 100, 1]);
    assert_eq!(trusted.client(stranger, &[input], &[input]), Ok(stranger));
    let listed = [input, b", 192.0.2.7, 10.0.0.1"].concat();
    assert_eq!(trusted.client(proxy, &[], &[&listed]), Ok(client));
    assert_eq!(trusted.client(proxy, &[], &[input, b"192.0.2.7"]), Ok(client));
    for value in [b", for=192.0.2.7".as_slice(), b",for=\"192.0.2.7:1\", for=10.0.0.1"] {
        let listed = [input, value].concat();
        let found = trusted.client(proxy, &[&listed], &[]);
        assert!([Ok(client), Err(ForwardedError::Malformed)].contains(&found), "{found:?}");
    }
    // Alone: an address or none, and the other field cannot contradict it unnoticed.
    if let Ok(found) = trusted.client(proxy, &[input], &[])
        && found != client
    {
        let both = trusted.client(proxy, &[input], &[b"192.0.2.7"]);
        assert_eq!(both, Err(ForwardedError::Ambiguous));
    }
}

/// Headers as proxies and clients write them.
pub fn forwarded_seeds() -> Vec<Vec<u8>> {
    let seeds = [
        "192.0.2.60, 10.0.0.1",
        "[2001:db8::7]:4711,unknown",
        "for=192.0.2.60;proto=http;by=203.0.113.43, for=\"[2001:db8::7]:1\"",
        "for=\"a\\\"b\" ; host=\"x,y\", for=_hidden",
        "for=\"",
    ];
    seeds.iter().map(|seed| seed.as_bytes().to_vec()).collect()
}

/// The beginning of a connection by the PROXY protocol.
pub fn proxy(input: &[u8]) {
    let Some((head, rest)) = input.split_first_chunk::<PROXY_HEAD_BYTES>() else { return };
    let Ok(length) = proxy_body_length(head) else { return };
    assert!(length <= PROXY_BODY_BYTES_MAX);
    if let (Some(body), Ok(Some(client))) =
        (rest.get(..length), proxy_client(head, &rest[..length.min(rest.len())]))
    {
        let address = match client.ip() {
            IpAddr::V4(v4) => v4.octets().to_vec(),
            IpAddr::V6(v6) => v6.octets().to_vec(),
        };
        assert!(body.windows(address.len()).any(|window| window == address));
    }
}

/// Each family, and the proxy's own connection.
pub fn proxy_seeds() -> Vec<Vec<u8>> {
    let seed = |command: u8, family: u8, body: &[u8]| {
        let length = (body.len() as u16).to_be_bytes();
        [&PROXY_SIGNATURE[..], &[command, family], &length, body].concat()
    };
    vec![
        seed(0x21, 0x11, &[192, 0, 2, 7, 10, 0, 0, 1, 1, 2, 3, 4]),
        seed(0x21, 0x21, &[0x20; 40]),
        seed(0x20, 0x00, b""),
        seed(0x21, 0x31, &[0; 216]),
    ]
}

/// One message of the administrator's socket, either way.
pub fn admin(input: &[u8]) {
    if let Some(request) = AdminRequest::decode(input) {
        assert_eq!(request.encode(), input);
    }
    if let Some(status) = AdminStatus::decode(input) {
        assert_eq!(status.encode(), input);
    }
    // An address may be written in two ways.
    if let Some(viewers) = AdminViewer::decode_all(input) {
        assert!(viewers.len() <= VIEWERS_TOLD_MAX);
        let bytes = AdminViewer::encode_all(&viewers);
        assert_eq!(AdminViewer::decode_all(&bytes), Some(viewers));
    }
}

/// Each kind.
pub fn admin_seeds() -> Vec<Vec<u8>> {
    let status = AdminStatus { is_draining: true, logins: 3, viewers: 2 };
    let named = Named { user: "anna".to_owned(), session: "xfce".to_owned() };
    let requests = [
        AdminRequest::Status,
        AdminRequest::Drain,
        AdminRequest::Resume,
        AdminRequest::Ended(named.clone()),
        AdminRequest::Told(named.clone()),
        AdminRequest::Forget { user: "anna".to_owned(), device: Some(DeviceId([3; 16])) },
        AdminRequest::Viewers,
    ];
    let from = IpAddr::from([192, 0, 2, 7]);
    let viewer = AdminViewer { of: named, from, seconds: 61, is_guest: true };
    let viewers = AdminViewer::encode_all(&[viewer.clone(), viewer]);
    let requests = requests.iter().map(AdminRequest::encode);
    requests.chain([status.encode(), viewers]).collect()
}

/// What a person's agent says of their sessions, which goes to the process for figures.
pub fn figures(input: &[u8]) {
    let Some(found) = thinc_broker::monitor::desktops(input) else { return };
    assert!(found.len() <= FIGURES_MAX);
    for DesktopFigures { name, figures, .. } in found {
        assert!(is_session_name(&name));
        // As many viewers as a session has.
        assert!(figures.is_none_or(|figures| figures.viewers.len() <= 16));
    }
}

/// A session that tells figures, and one that does not.
pub fn figures_seeds() -> Vec<Vec<u8>> {
    let zeros = |count| vec!["0"; count].join(",");
    let times = format!("{{\"counts\":[{}],\"sum_us\":0}}", zeros(15));
    let counts = format!(
        "{{\"echo\":{times},\"round_trip\":{times},\"encode\":{times},\"command_bytes\":[{}],\
         \"sent_bytes\":1,\"updates\":2}}",
        zeros(9)
    );
    let viewers = "[{\"is_guest\":true,\"round_trip_us\":8000}]";
    let told = format!("{{\"screen\":[1280,800],\"viewers\":{viewers},\"counts\":{counts}}}");
    let desktop = |name: &str, figures: &str| {
        format!("{{\"name\":\"{name}\",\"started_s\":1,\"figures\":{figures}}}")
    };
    let answer = format!("{{\"figures\":[{},{}]}}", desktop("xfce", &told), desktop("old", "null"));
    assert!(thinc_broker::monitor::desktops(answer.as_bytes()).is_some(), "{answer}");
    vec![answer.into_bytes()]
}

/// Each kind.
pub fn message_seeds() -> Vec<Vec<u8>> {
    let source = Ipv6Addr::LOCALHOST;
    let prompt = |style, text: &str| Prompt { style, text: text.to_owned() };
    let kept = Kept { login: 1, cookie_hash: [1; 32], origin_secret_hash: [2; 32], device: None };
    let of_device = Kept { device: Some(DeviceId([3; 16])), ..kept };
    let (id, place) = (DeviceId([3; 16]), "https://desk.example".to_owned());
    let device = |request| Request::Device(request).encode();
    let listed = ListedDevice {
        device: id,
        name: "Firefox, Linux".to_owned(),
        made_s: 1,
        used_s: 2,
        until_s: 3,
        is_own: true,
    };
    vec![
        Request::Begin { attempt: 1, source, user: "anna".to_owned() }.encode(),
        Request::Answers { attempt: 1, answers: vec![b"secret".to_vec(), Vec::new()] }.encode(),
        Request::Cancel { attempt: 1 }.encode(),
        Request::Resume { attempt: 1, cookie: [1; 32], origin_secret: [2; 32] }.encode(),
        Request::End { attempt: 1, cookie: [1; 32] }.encode(),
        Request::Keep(kept).encode(),
        Request::Keep(of_device).encode(),
        Request::Forget.encode(),
        Request::Note {
            cookie: [1; 32],
            source,
            viewer: 1,
            deed: Deed::Opened,
            session: "desk".to_owned(),
        }
        .encode(),
        Reply::Prompts {
            attempt: 1,
            prompts: vec![
                prompt(Style::Text, "Expired."),
                prompt(Style::Hidden, "Password:"),
                prompt(Style::Shown, "Code:"),
            ],
        }
        .encode(),
        Reply::Refused { attempt: 1, reason: Reason::Busy }.encode(),
        Reply::Refused { attempt: 1, reason: Reason::Draining }.encode(),
        Reply::Drain { is_draining: true }.encode(),
        Reply::Kept { login: 1, age_ms: 9, user: "anna".to_owned(), kept: Some(kept) }.encode(),
        Reply::Kept { login: 1, age_ms: 9, user: "anna".to_owned(), kept: Some(of_device) }
            .encode(),
        Reply::Kept { login: 1, age_ms: 9, user: "anna".to_owned(), kept: None }.encode(),
        Reply::Ended { attempt: 1 }.encode(),
        Told::Challenge("desk.example".to_owned(), b"PEM".to_vec()).encode(),
        Told::Failed("no such host".to_owned()).encode(),
        Reply::Certificate.encode(),
        Reply::Challenge { name: "desk.example".to_owned() }.encode(),
        Reply::Figures.encode(),
        Request::Answering { name: "desk.example".to_owned() }.encode(),
        device(DeviceRequest::SignIn { attempt: 1, source, device: id, place: place.clone() }),
        device(DeviceRequest::Signed { attempt: 1, signature: [5; 64] }),
        device(DeviceRequest::Remember {
            attempt: 1,
            cookie: [1; 32],
            key: [4; 65],
            name: "Firefox, Linux".to_owned(),
        }),
        device(DeviceRequest::List { attempt: 1, cookie: [1; 32] }),
        device(DeviceRequest::Forget { attempt: 1, cookie: [1; 32], device: id }),
        device(DeviceRequest::Verify(Verify {
            attempt: 1,
            source,
            device: id,
            place,
            known: Some(Known {
                user: "anna".to_owned(),
                uid: 1000,
                key: [4; 65],
                password: Some([2; 32]),
            }),
        })),
        Reply::Device(DeviceReply::Challenge { attempt: 1, challenge: [6; 32] }).encode(),
        Reply::Device(DeviceReply::Remembered { attempt: 1, device: id, seconds: 9 }).encode(),
        Reply::Device(DeviceReply::Devices { attempt: 1, devices: vec![listed] }).encode(),
        Reply::Device(DeviceReply::Forgotten { attempt: 1 }).encode(),
        Reply::Device(DeviceReply::Ended { cookie_hash: [1; 32] }).encode(),
        Reply::Device(DeviceReply::Changed { attempt: 1 }).encode(),
        Start {
            trusted_proxies: TrustedProxies(vec!["fd00::/8".parse().unwrap()]),
            udp_sockets: 2,
            has_guests: true,
            remember_s: 86_400,
            banner: "For staff.\nNo games.".to_owned(),
            rates: Rates { uplink: Some(2_500_000), session: Some(250_000) },
        }
        .encode(),
        Reply::Admitted {
            attempt: 1,
            cookie: [1; 32],
            origin_secret: [2; 32],
            user: "anna".to_owned(),
        }
        .encode(),
    ]
}

/// A file of remembered devices: what is accepted is written so that it is read again.
pub fn devices(input: &[u8]) {
    let Ok(account) = AccountDevices::parse(input) else { return };
    assert!(account.devices.len() <= DEVICES_PER_USER_MAX);
    assert_eq!(AccountDevices::parse(&account.encode()), Ok(account));
}

/// A file without devices, and one with two.
pub fn devices_seeds() -> Vec<Vec<u8>> {
    let device = |number: u8, password| {
        let mut key = [number; 65];
        key[0] = 4;
        let life = std::time::Duration::from_secs(86_400);
        Device::new(key, "Firefox, Linux".to_owned(), password, 1_700_000_000, life)
    };
    let devices = vec![device(1, Some([7; 32])), device(2, None)];
    [Vec::new(), devices]
        .into_iter()
        .map(|devices| AccountDevices { user: "anna".to_owned(), uid: 1000, devices }.encode())
        .collect()
}

/// A configuration file: whatever it holds, an error is one line of bounded length that names the
/// line of the file.
pub fn config(input: &[u8]) {
    let Err(error) = Config::parse(Path::new("broker.toml"), input) else { return };
    let text = error.to_string();
    assert!(text.len() < 2048 && !text.contains(char::is_control), "{text:?}");
    match error {
        ConfigError::Line { line, .. } => {
            assert!(line > 0 && line <= 1 + input.iter().filter(|&&byte| byte == b'\n').count());
        }
        ConfigError::TooLong(_) => assert!(input.len() > CONFIG_BYTES_MAX),
        other => panic!("{other} does not come from bytes"),
    }
}

/// A person's file, and what their pages send: what is accepted is written the same way again.
pub fn preferences(input: &[u8]) {
    let Ok(read) = Preferences::parse(input) else { return };
    let bytes = read.to_bytes();
    assert!(bytes.len() <= PREFERENCES_BYTES_MAX);
    assert_eq!(Preferences::parse(&bytes).ok().as_ref(), Some(&read));
    assert_eq!(Preferences::default().changed(&read), Ok(read));
}

/// One with every key.
pub fn preferences_seeds() -> Vec<Vec<u8>> {
    let all = r#"{"opening":"join","clipboard":"to-viewer","layout":"de(neo)","scale":150}"#;
    vec![all.into(), b"{}".to_vec()]
}

/// The example with every key, and one file for each key with a value of the wrong type.
pub fn config_seeds() -> Vec<Vec<u8>> {
    let example = include_str!("../../../packaging/host/broker.toml").replace("\n#", "\n");
    let settings = example.lines().filter(|line| line.contains(" = "));
    let settings = settings.collect::<Vec<_>>().join("\n").into_bytes();
    let wrong = KEYS.iter().map(|key| format!("{key} = [1, 2.5, true]\n").into_bytes());
    std::iter::once(settings).chain(wrong).collect()
}
