//! A device that a broker remembers: a key pair (ECDSA, P-256) of which the broker keeps the public
//! half, and what the device signs to sign a person in. Beside the path: from thinc-view's key file
//! and the page's WebCrypto, to the broker's login process. Knows keys and bytes; never who may
//! log in.

use std::fmt;
use std::io;
use std::str::FromStr;

use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _,
    UnparsedPublicKey,
};
use sha2::{Digest as _, Sha256};
pub use thinc_protocol::device_auth::{
    CHALLENGE_BYTES, DEVICE_ID_BYTES, DEVICE_KEY_BYTES, SIGNATURE_BYTES,
};
use thinc_protocol::limits::NAME_BYTES_MAX;

use crate::base64url;
use crate::pin::SpkiPin;

/// Longest name of a device, in bytes: that of everything that people name.
pub const DEVICE_NAME_BYTES_MAX: usize = NAME_BYTES_MAX;
/// Longest [`sign_in_message`] place, in bytes: a DNS name with scheme and port.
pub const PLACE_BYTES_MAX: usize = 300;

/// What a device signs begins with this, and no other thing that it signs.
const PURPOSE: &str = "thinc sign-in 1";

/// The public half of a device's key, as WebCrypto exports a "raw" one.
pub type PublicKey = [u8; DEVICE_KEY_BYTES];
/// A device's signature, as WebCrypto makes it.
pub type Signature = [u8; SIGNATURE_BYTES];
/// What a device signs once.
pub type Challenge = [u8; CHALLENGE_BYTES];

/// Names a device: the first half of its public key's SHA-256. No secret.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct DeviceId(pub [u8; DEVICE_ID_BYTES]);

impl DeviceId {
    /// Of the device with this key.
    pub fn of(key: &PublicKey) -> DeviceId {
        let digest: [u8; 32] = Sha256::digest(key).into();
        DeviceId(*digest.first_chunk().expect("it is longer"))
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&base64url::encode(&self.0))
    }
}

impl fmt::Debug for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceId({self})")
    }
}

/// The text names no device.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("a device's ID has 22 base64url characters")]
pub struct DeviceIdError;

impl FromStr for DeviceId {
    type Err = DeviceIdError;

    fn from_str(text: &str) -> Result<DeviceId, DeviceIdError> {
        let bytes = base64url::decode(text).ok_or(DeviceIdError)?;
        Ok(DeviceId(bytes.try_into().map_err(|_| DeviceIdError)?))
    }
}

/// The place of a server that a native viewer knows by its key. Pages sign for their origin.
pub fn place_of(pin: &SpkiPin) -> String {
    format!("thinc:{pin}")
}

/// What a device signs. `place` is the server as the device knows it: another server that passes
/// this challenge on gets a signature that is good for itself only.
///
/// ```text
/// "thinc sign-in 1" LF place LF device's ID (base64url) LF challenge (base64url)
/// ```
pub fn sign_in_message(place: &str, device: DeviceId, challenge: &Challenge) -> Vec<u8> {
    format!("{PURPOSE}\n{place}\n{device}\n{}", base64url::encode(challenge)).into_bytes()
}

/// Whether the owner of this key has signed the message.
pub fn is_signed(key: &PublicKey, message: &[u8], signature: &Signature) -> bool {
    UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key).verify(message, signature).is_ok()
}

/// A device's own key.
pub struct DeviceKey {
    pair: EcdsaKeyPair,
    /// PKCS #8, version 1.
    document: Vec<u8>,
}

/// Never shows the private key.
impl fmt::Debug for DeviceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceKey({})", self.id())
    }
}

impl DeviceKey {
    /// A new one.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn generate() -> io::Result<DeviceKey> {
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let document = EcdsaKeyPair::generate_pkcs8(algorithm, &SystemRandom::new())
            .map_err(|_| io::Error::other("the system has no random numbers"))?;
        DeviceKey::from_pkcs8(document.as_ref())
    }

    /// One that was kept.
    ///
    /// # Errors
    /// It is no such key.
    pub fn from_pkcs8(document: &[u8]) -> io::Result<DeviceKey> {
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, document, &SystemRandom::new())
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
        Ok(DeviceKey { pair, document: document.to_vec() })
    }

    /// To be kept where only its person can read it.
    pub fn pkcs8(&self) -> &[u8] {
        &self.document
    }

    /// The public half.
    pub fn public(&self) -> PublicKey {
        let point = self.pair.public_key().as_ref();
        point.try_into().expect("a point of P-256 has this length")
    }

    /// Names it.
    pub fn id(&self) -> DeviceId {
        DeviceId::of(&self.public())
    }

    /// Signs.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn sign(&self, message: &[u8]) -> io::Result<Signature> {
        let signature = self
            .pair
            .sign(&SystemRandom::new(), message)
            .map_err(|_| io::Error::other("the system has no random numbers"))?;
        Ok(signature.as_ref().try_into().expect("a signature of P-256 has this length"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_good_for_one_key_place_device_and_challenge() {
        let (key, other) = (DeviceKey::generate().unwrap(), DeviceKey::generate().unwrap());
        let message = sign_in_message("https://desk.example", key.id(), &[7; 32]);
        let signature = key.sign(&message).unwrap();
        assert!(is_signed(&key.public(), &message, &signature));
        assert!(!is_signed(&other.public(), &message, &signature));
        for wrong in [
            sign_in_message("https://evil.example", key.id(), &[7; 32]),
            sign_in_message("https://desk.example", other.id(), &[7; 32]),
            sign_in_message("https://desk.example", key.id(), &[8; 32]),
        ] {
            assert!(!is_signed(&key.public(), &wrong, &signature));
        }
        for at in [0, 31, 32, 63] {
            let mut changed = signature;
            changed[at] ^= 1;
            assert!(!is_signed(&key.public(), &message, &changed));
        }
        assert!(!is_signed(&[0; DEVICE_KEY_BYTES], &message, &signature));
        assert!(!is_signed(&key.public(), &message, &[0; SIGNATURE_BYTES]));
    }

    #[test]
    fn a_kept_key_is_the_same_and_a_damaged_one_is_none() {
        let key = DeviceKey::generate().unwrap();
        let again = DeviceKey::from_pkcs8(key.pkcs8()).unwrap();
        assert_eq!((again.public(), again.id()), (key.public(), key.id()));
        assert_eq!(key.id().to_string().parse(), Ok(key.id()));
        assert!(DeviceKey::from_pkcs8(&key.pkcs8()[1..]).is_err());
        assert!(DeviceKey::from_pkcs8(b"").is_err());
        assert!(!format!("{key:?}").contains(&base64url::encode(key.pkcs8())));
    }

    /// The page writes the same bytes (web/store/device.ts).
    #[test]
    fn the_message_has_golden_bytes() {
        let id = DeviceId::of(&[4; DEVICE_KEY_BYTES]);
        let text = String::from_utf8(sign_in_message("https://a:8443", id, &[0; 32])).unwrap();
        let zeros = "A".repeat(43);
        assert_eq!(text, format!("thinc sign-in 1\nhttps://a:8443\n{id}\n{zeros}"));
    }
}
