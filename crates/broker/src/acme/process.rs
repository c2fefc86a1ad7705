//! The process that gets a certificate by ACME and renews it: an account without privileges, that
//! may read files everybody may read, and connect to others. Beside the path: started by mod.rs;
//! its standard input is the socket to the helper. Knows keys of certificates; never people.

use std::collections::BTreeSet;
use std::error::Error;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, SystemTime};

use instant_acme::{
    Account, AccountCredentials, AuthorizationStatus, ChallengeType, Identifier, NewAccount,
    NewOrder, Order, OrderStatus, RetryPolicy,
};
use landlock::{
    ABI, Access as _, AccessFs, CompatLevel, Compatible as _, PathBeneath, PathFd, Ruleset,
    RulesetAttr as _, RulesetCreatedAttr as _,
};
use rcgen::{CertificateParams, CustomExtension, DistinguishedName, KeyPair};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
use thinc_session_server::log::{self, Process};
use thinc_transport::token::random;
use tokio::time::{sleep, timeout};
use tracing::info;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer as _;

use super::client::Https;
use super::{PACKET_BYTES_MAX, READY, Start, Told};
use crate::BrokerError;
use crate::packets::{self, Channel};

/// Longest order, with everything that the ACME server waits for.
const ORDER_TIMEOUT: Duration = Duration::from_secs(300);
/// How long an ACME server may take to look at a challenge, and to issue.
const POLLING: RetryPolicy = RetryPolicy::new().timeout(Duration::from_secs(120));
/// After a failure: Let's Encrypt allows 5 failed validations of a name in an hour.
const RETRY_FIRST: Duration = Duration::from_secs(15 * 60);
const RETRY_MAX: Duration = Duration::from_secs(12 * 3600);
/// A machine may sleep, and its clock be set: the time is looked at this often.
const LOOK_INTERVAL: Duration = Duration::from_secs(3600);

type AnyError = Box<dyn Error + Send + Sync>;

/// Runs until the helper ends it.
pub(crate) fn main(socket: OwnedFd) -> Result<(), BrokerError> {
    log::start(Process { part: "acme", ..Process::default() });
    let failed = |error| BrokerError::System("listen to the helper", error);
    let packet = packets::receive(&socket, PACKET_BYTES_MAX).map_err(failed)?;
    let start: Start = serde_json::from_slice(&packet.bytes).map_err(|e| failed(e.into()))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| BrokerError::System("start the event loop", error))?;
    let https = Https::new(start.roots.as_deref());
    enter_sandbox().map_err(|error| BrokerError::Sandbox(error.to_string()))?;
    runtime.block_on(async {
        let helper = Channel::new(socket).map_err(failed)?;
        renew(start, https, &helper).await.map_err(failed)
    })
}

/// Reads what everybody may read, for names of hosts; writes nothing, starts nothing, listens
/// nowhere and sees no other process.
fn enter_sandbox() -> Result<(), AnyError> {
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(ABI::V5))?
        .create()?;
    let folders = ["/etc", "/lib", "/lib64", "/usr/lib", "/usr/share/zoneinfo", "/run"];
    let folders = folders.iter().filter_map(|folder| PathFd::new(folder).ok());
    folders
        .map(|folder| Ok::<_, landlock::RulesetError>(PathBeneath::new(folder, read)))
        .try_fold(rules, |rules, rule| rules.add_rule(rule?))?
        .restrict_self()?;
    let denied = [
        libc::SYS_execve,
        libc::SYS_execveat,
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_kill,
        libc::SYS_pidfd_open,
        libc::SYS_listen,
        libc::SYS_mount,
        libc::SYS_unshare,
        libc::SYS_setns,
        libc::SYS_bpf,
        libc::SYS_io_uring_setup,
        libc::SYS_userfaultfd,
        libc::SYS_keyctl,
        libc::SYS_add_key,
    ];
    let program: BpfProgram = SeccompFilter::new(
        denied.into_iter().map(|call| (call, Vec::new())).collect(),
        SeccompAction::Allow,
        SeccompAction::Errno(libc::EPERM as u32),
        std::env::consts::ARCH.try_into()?,
    )?
    .try_into()?;
    seccompiler::apply_filter(&program)?;
    Ok(())
}

/// Gets a certificate when it is time, without end. An error is one of the helper's socket.
async fn renew(start: Start, https: Result<Https, AnyError>, helper: &Channel) -> io::Result<()> {
    let mut kept = start.certificate.as_deref().and_then(Kept::parse);
    if kept.as_ref().is_some_and(|kept| kept.names != start.names.iter().cloned().collect()) {
        info!("the certificate has other names; getting another one");
        if let Some(kept) = &mut kept {
            kept.renew_at = SystemTime::UNIX_EPOCH;
        }
    }
    let mut account = start.account.clone();
    let mut failures = 0;
    loop {
        if let Some(at) = kept.as_ref().map(|kept| kept.renew_at) {
            while let Ok(rest) = at.duration_since(SystemTime::now()) {
                sleep(rest.min(LOOK_INTERVAL)).await;
            }
        }
        let key = kept.as_ref().map(|kept| kept.key.as_str());
        let result = match &https {
            Ok(https) => {
                let obtained = obtain(&start, https, &mut account, key, helper);
                timeout(ORDER_TIMEOUT, obtained).await.unwrap_or_else(|_| {
                    Err(format!("the order was not done within {ORDER_TIMEOUT:?}").into())
                })
            }
            Err(error) => Err(error.to_string().into()),
        };
        match result.map(|pem| (Kept::parse(&pem), pem)) {
            Ok((Some(new), pem)) => {
                failures = 0;
                helper.send(&Told::Certificate(pem.into_bytes()).encode(), &[]).await?;
                let at = humantime::format_rfc3339_seconds(new.renew_at);
                info!(
                    "a certificate for {} by ACME; it is renewed at {at}",
                    start.names.join(", ")
                );
                kept = Some(new);
            }
            other => {
                let error = match other {
                    Err(error) => error,
                    Ok(_) => "the server issued what is no certificate".into(),
                };
                let delay = retry_delay(failures, random());
                failures += 1;
                let seconds = Duration::from_secs(delay.as_secs());
                let next = humantime::format_duration(seconds);
                let text = format!("{error}; the next try is in {next}");
                helper.send(&Told::Failed(text).encode(), &[]).await?;
                sleep(delay).await;
            }
        }
    }
}

/// Doubled by each failure, and a fifth more or less, so that not all servers come back at once.
fn retry_delay(failures: u32, seed: [u8; 4]) -> Duration {
    let delay = (RETRY_FIRST * 2u32.saturating_pow(failures.min(16))).min(RETRY_MAX);
    delay.mul_f64(0.8 + 0.4 * f64::from(u32::from_le_bytes(seed)) / f64::from(u32::MAX))
}

/// A certificate, and when another one is wanted.
struct Kept {
    /// As PEM; kept by renewals, so that viewers in windows find the key that they know.
    key: String,
    names: BTreeSet<String>,
    renew_at: SystemTime,
}

impl Kept {
    /// `None` if it is none.
    fn parse(pem: &str) -> Option<Kept> {
        let first = CertificateDer::from_pem_slice(pem.as_bytes()).ok()?;
        let (_, certificate) = x509_parser::certificate::X509Certificate::from_der(&first).ok()?;
        let names = &certificate.subject_alternative_name().ok()??.value.general_names;
        let names = names.iter().filter_map(|name| match name {
            GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
            _ => None,
        });
        let time = |time: x509_parser::time::ASN1Time| {
            let seconds = u64::try_from(time.timestamp()).ok()?;
            Some(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
        };
        let validity = certificate.validity();
        let (begin, end) = (time(validity.not_before)?, time(validity.not_after)?);
        let key = KeyPair::from_pem(pem).ok()?.serialize_pem();
        let renew_at = renewal_time(begin, end, random());
        Some(Kept { key, names: names.collect(), renew_at })
    }
}

/// After two thirds of the life, and up to a thirtieth of it earlier: servers that were set up at
/// the same time do not come back together, and a failure leaves time for many tries.
fn renewal_time(begin: SystemTime, end: SystemTime, seed: [u8; 4]) -> SystemTime {
    let life = end.duration_since(begin).unwrap_or_default();
    let jitter = f64::from(u32::from_le_bytes(seed)) / f64::from(u32::MAX) / 30.0;
    begin + life.mul_f64(2.0 / 3.0 - jitter)
}

/// Key and chain of a new certificate, as PEM.
async fn obtain(
    start: &Start,
    https: &Https,
    account: &mut Option<String>,
    key: Option<&str>,
    helper: &Channel,
) -> Result<String, AnyError> {
    let client = open_account(start, https, account, helper).await?;
    let names: Vec<Identifier> = start.names.iter().cloned().map(Identifier::Dns).collect();
    let mut order = client.new_order(&NewOrder::new(&names)).await?;
    answer_challenges(&mut order, helper).await?;
    match order.poll_ready(&POLLING).await {
        Ok(OrderStatus::Ready) => {}
        // It says which name only with the challenges.
        Ok(_) | Err(instant_acme::Error::Api(_)) => return Err(refusal(&mut order).await),
        Err(error) => return Err(error.into()),
    }
    let key = match key {
        Some(key) => KeyPair::from_pem(key)?,
        None => KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?,
    };
    let mut params = CertificateParams::new(start.names.clone())?;
    params.distinguished_name = DistinguishedName::new();
    order.finalize_csr(params.serialize_request(&key)?.der()).await?;
    let chain = order.poll_certificate(&POLLING).await?;
    Ok(format!("{}{chain}", key.serialize_pem()))
}

/// The account of before if it is one of this server, or a new one, which the helper keeps.
async fn open_account(
    start: &Start,
    https: &Https,
    account: &mut Option<String>,
    helper: &Channel,
) -> Result<Account, AnyError> {
    let builder = || Account::builder_with_http(Box::new(https.clone()));
    if let Some(text) = account.as_deref()
        && serde_json::from_str::<serde_json::Value>(text)?["directory"] == start.directory
    {
        let credentials: AccountCredentials = serde_json::from_str(text)?;
        return Ok(builder().from_credentials(credentials).await?);
    }
    let contact: Vec<&str> = start.contact.as_deref().into_iter().collect();
    let new = NewAccount {
        contact: &contact,
        terms_of_service_agreed: true,
        only_return_existing: false,
    };
    let (client, credentials) = builder().create(&new, start.directory.clone(), None).await?;
    let text = serde_json::to_string(&credentials)?;
    helper.send(&Told::Account(text.clone().into_bytes()).encode(), &[]).await?;
    *account = Some(text);
    Ok(client)
}

async fn answer_challenges(order: &mut Order, helper: &Channel) -> Result<(), AnyError> {
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization?;
        match authorization.status {
            AuthorizationStatus::Valid => continue,
            AuthorizationStatus::Pending => {}
            other => return Err(format!("an authorization is {other:?}").into()),
        }
        let name = authorization.identifier().to_string();
        let mut challenge = authorization
            .challenge(ChallengeType::TlsAlpn01)
            .ok_or_else(|| format!("{name}: the server offers no challenge tls-alpn-01"))?;
        let pem = challenge_pem(&name, challenge.key_authorization().digest().as_ref())?;
        helper.send(&Told::Challenge(name, pem.into_bytes()).encode(), &[]).await?;
        let answer = helper.receive(PACKET_BYTES_MAX).await?;
        if answer.bytes != READY {
            return Err("the helper has ended".into());
        }
        challenge.set_ready().await?;
    }
    Ok(())
}

/// Why a server refuses: what it says of the challenges.
async fn refusal(order: &mut Order) -> AnyError {
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        let name = authorization.identifier().to_string();
        if let Ok(state) = authorization.refresh().await
            && let Some(error) =
                state.challenges.iter().find_map(|challenge| challenge.error.as_ref())
        {
            return format!("{name}: {error}").into();
        }
    }
    "the server refuses the order".into()
}

/// What a challenge is answered with (RFC 8737, section 3), key and certificate.
fn challenge_pem(name: &str, digest: &[u8]) -> Result<String, rcgen::Error> {
    let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
    let mut params = CertificateParams::new([name.to_owned()])?;
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
    Ok(format!("{}{}", key.serialize_pem(), params.self_signed(&key)?.pem()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_renewed_in_time_and_failures_are_far_apart() {
        let (begin, day) = (SystemTime::UNIX_EPOCH, Duration::from_secs(24 * 3600));
        assert_eq!(renewal_time(begin, begin + day * 90, [0; 4]), begin + day * 60);
        assert_eq!(renewal_time(begin, begin + day * 90, [0xff; 4]), begin + day * 57);
        let delays: Vec<u64> = (0..8).map(|at| retry_delay(at, [0; 4]).as_secs() / 60).collect();
        assert_eq!(delays, [12, 24, 48, 96, 192, 384, 576, 576]);
        assert_eq!(retry_delay(0, [0xff; 4]).as_secs() / 60, 18);
        // Fewer than 5 tries in the first hour.
        assert!(delays[..3].iter().sum::<u64>() > 60);
    }
}
