//! Guests of desktops behind the broker: people without an account, in windows. Pages are in
//! web/test/broker.test.mjs. Needs root, as broker.rs does.

use rustix::process::{Pid, Signal, kill_process};
use thinc_protocol::people::{Invite, InviteRights, ShareAction};
use thinc_transport::{
    ConnectError, ConnectOptions, Connection, Link, TransportChoice, connect, establish,
    split_desktop_id,
};

use crate::broker::{Account, Broker, RIGHT, is_skipped};
use crate::harness::{Message, Viewer, connect_options, wait_until};
use crate::sharing::{
    LISTS, answer, as_guest, attempts, invitations, names, people, refusal, send_all,
};

/// The person's viewer of the default desktop.
pub(crate) fn owner(broker: &Broker, account: &Account) -> (Viewer, Vec<u8>) {
    let link = link(broker);
    let answered = establish(&link, &options(broker))
        .unwrap()
        .log_in(&account.name, &mut |prompts| Some(vec![RIGHT.as_bytes().to_vec(); prompts.len()]));
    let credential = answered.unwrap();
    (opened(broker, &credential), credential)
}

fn opened(broker: &Broker, credential: &[u8]) -> Viewer {
    let session_credential = Some(credential.to_vec());
    let options = ConnectOptions { session_credential, ..options(broker) };
    let mut viewer = Viewer::with_caps(connect(&link(broker), &options).unwrap(), LISTS);
    viewer.wait_complete();
    viewer
}

fn link(broker: &Broker) -> Link {
    format!("https://{}/", broker.address).parse().unwrap()
}

fn options(broker: &Broker) -> ConnectOptions {
    ConnectOptions { known_hosts: Some(broker.folder.join("known-hosts")), ..connect_options() }
}

fn with_credential(link: &Link, credential: &[u8]) -> Result<Connection, ConnectError> {
    let session_credential = Some(credential.to_vec());
    connect(link, &ConnectOptions { session_credential, ..connect_options() })
}

/// The link of a new invitation.
pub(crate) fn invite(
    owner: &mut Viewer,
    request: u32,
    uses: u32,
    password: &str,
) -> Result<Link, String> {
    let action = ShareAction::Invite(Invite {
        rights: InviteRights::default(),
        life_s: 3600,
        uses,
        password: password.to_owned(),
        ..Invite::default()
    });
    answer(owner, request, action).map(|link| link.parse().unwrap())
}

#[test]
fn a_guest_of_a_desktop_comes_without_an_account_and_does_what_the_owner_allows() {
    if is_skipped() {
        return;
    }
    let broker = Broker::start();
    let (anna, otto) = (broker.account(), broker.account());
    let (mut hers, credential) = owner(&broker, &anna);
    let invitation = invite(&mut hers, 1, 2, "").unwrap();
    assert_eq!(invitation.authority(), broker.address.to_string());
    assert!(invitation.base_path.starts_with("/join/"), "{invitation}");

    let connection = as_guest(&invitation, "Ada", "").unwrap();
    let guests_credential = connection.session_credential.clone();
    let mut ada = Viewer::new(connection);
    assert_eq!(ada.next(), Some(Message::Hello("desk".into())));
    let size = ada.wait_complete();
    let there = people(&mut hers, |people| people.people.len() == 2);
    assert_eq!(names(&there), [("", true, false), ("Ada", false, false)]);
    // What a guest who only sees the screen tries changes nothing: the size neither.
    send_all(&mut ada, &attempts());

    // By QUIC too, and the second is the last.
    let over_quic = ConnectOptions { transport: TransportChoice::Quic, ..connect_options() };
    let mut quic = invitation.clone();
    quic.guest = Some(thinc_transport::GuestLogin { name: "Bea".into(), ..Default::default() });
    let mut bea = Viewer::new(connect(&quic, &over_quic).unwrap());
    assert_eq!(bea.wait_complete(), size);
    let used = refusal(as_guest(&invitation, "Cy", ""));
    assert!(used.contains("does not let you in"), "{used}");
    // One answer, whatever is wrong: the token, or the desktop, or that it is somebody else's.
    let token = invitation.token.clone().unwrap();
    assert!(split_desktop_id(&token).is_some());
    let (_his, _) = owner(&broker, &otto);
    for at in [20, 57, 66, 72] {
        let mut changed = token.clone();
        changed[at] ^= 1;
        let link = Link { token: Some(changed), ..invitation.clone() };
        assert_eq!(refusal(as_guest(&link, "Cy", "")), used, "changed at {at}");
    }

    // The front is killed: the owner comes back first, as viewers do by themselves.
    let front = broker.front();
    kill_process(Pid::from_raw(front as i32).unwrap(), Signal::KILL).unwrap();
    wait_until("another front", || (broker.front() != front).then_some(()));
    let mut hers = opened(&broker, &credential);
    let mut ada = Viewer::new(with_credential(&invitation, &guests_credential).unwrap());
    ada.wait_complete();
    // A desktop that the front does not know may come: a viewer tries again.
    let mut unknown = guests_credential.clone();
    unknown[8] ^= 1;
    let later = with_credential(&invitation, &unknown).map(drop);
    assert!(matches!(later, Err(ConnectError::Broken(..))), "{later:?}");
    let mut forged = guests_credential.clone();
    *forged.last_mut().unwrap() ^= 1;
    assert!(refusal(with_credential(&invitation, &forged)).contains("does not let you in"));

    // A password, and the end of a visit.
    let locked = invite(&mut hers, 2, 1, "open sesame").unwrap();
    assert!(locked.invitation().unwrap().password);
    assert_eq!(refusal(as_guest(&locked, "Dan", "wrong")), used);
    let mut dan = Viewer::new(as_guest(&locked, "Dan", "open sesame").unwrap());
    dan.wait_complete();
    let there = people(&mut hers, |people| people.people.iter().any(|person| person.name == "Dan"));
    let told = invitations(&mut hers, |list| list.len() == 2 && list[1].used == 1);
    let number = there.people.iter().find(|person| person.name == "Ada").unwrap().guest;
    answer(&mut hers, 3, ShareAction::EndVisit(number)).unwrap();
    ada.until(|message| matches!(message, Message::Close(..)));
    assert!(refusal(with_credential(&invitation, &guests_credential)).contains("does not let you"));

    // Revoked: a guest who is there leaves, and the answer to others is that to every wrong link.
    answer(&mut hers, 4, ShareAction::Revoke(told[1].number)).unwrap();
    dan.until(|message| matches!(message, Message::Close(..)));
    let open = invite(&mut hers, 5, 1, "").unwrap();
    answer(&mut hers, 6, ShareAction::Revoke(told[1].number + 1)).unwrap();
    assert_eq!(refusal(as_guest(&open, "Eve", "")), used);

    let audit = std::fs::read_to_string(broker.folder.join("audit")).unwrap();
    assert_eq!(audit.matches("\"guest-came\"").count(), 4, "{audit}");
}

#[test]
fn an_administrator_who_allows_no_guests_has_none() {
    if is_skipped() {
        return;
    }
    let broker = Broker::with_config(|_| "sharing = false\n".to_owned());
    let anna = broker.account();
    let (mut hers, _) = owner(&broker, &anna);
    let reason = invite(&mut hers, 1, 1, "").unwrap_err();
    assert_eq!(reason, "the administrator of this server allows no guests");
}
