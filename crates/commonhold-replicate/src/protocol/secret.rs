//! A secret that origin and replica share, and how each proves to the other that it knows it.
//!
//! Challenge and response by HMAC-SHA-256 (RFC 2104; FIPS 180-4): each side draws a random number,
//! and proves with the numbers of both, so that no proof is valid twice. The bytes that follow are
//! neither encrypted nor authenticated: use a tunnel for that (`docs/guide/replication.md`).

use crate::protocol::wire::{Hello, NONCE};
use commonhold::{fault, shortened};
use commonhold_io::fault_errno::errno;
use hmac::{Hmac, KeyInit, Mac};
use rustix::io::retry_on_intr;
use rustix::rand::{GetRandomFlags, getrandom};
use sha2::Sha256;
use std::fmt;

/// A secret that only both sides know.
#[derive(Clone)]
pub struct Secret(Vec<u8>);

/// The side that proves.
#[derive(Clone, Copy)]
pub(crate) enum Side<'a> {
    Replica,
    /// With the value of its introduction.
    Origin(&'a [u8]),
}

impl Secret {
    /// A secret of any bytes; at least 16 random ones are hard to guess.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Secret {
        Secret(bytes.into())
    }

    fn mac(&self, side: Side<'_>, challenge: &[u8; NONCE], hello: &Hello) -> Option<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).ok()?;
        mac.update(match side {
            Side::Replica => b"commonhold replica 2",
            Side::Origin(_) => b"commonhold origin 2\0",
        });
        mac.update(challenge);
        mac.update(&hello.nonce);
        mac.update(&hello.value());
        if let Side::Origin(introduction) = side {
            mac.update(introduction);
        }
        Some(mac)
    }

    /// The proof for the other side that this one knows the secret.
    pub(crate) fn prove(&self, side: Side<'_>, challenge: &[u8; NONCE], hello: &Hello) -> Vec<u8> {
        // A key may have any length: there is no other error.
        let mac = self.mac(side, challenge, hello);
        mac.map(|mac| mac.finalize().into_bytes().to_vec()).unwrap_or_default()
    }

    /// Whether `proof` is valid; takes as long for a wrong proof as for a right one.
    pub(crate) fn is_proof(
        &self,
        side: Side<'_>,
        challenge: &[u8; NONCE],
        hello: &Hello,
        proof: &[u8],
    ) -> bool {
        let mac = self.mac(side, challenge, hello);
        mac.is_some_and(|mac| mac.verify_slice(proof).is_ok())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// A random number that was never used before.
///
/// # Errors
/// Those of the system's call.
pub(crate) fn nonce() -> std::io::Result<[u8; NONCE]> {
    let mut bytes = [0; NONCE];
    let mut filled = 0;
    while filled < NONCE {
        let end = filled + shortened!("secret.random-bytes", NONCE - filled);
        filled += retry_on_intr(|| {
            errno(fault!("secret.random"))?;
            getrandom(&mut bytes[filled..end], GetRandomFlags::empty())
        })?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_good_for_one_side_one_challenge_and_one_secret() {
        let secret = Secret::new("open sesame, and some more");
        let hello = Hello::new([1; NONCE]);
        let proof = secret.prove(Side::Replica, &[2; NONCE], &hello);
        assert_eq!(proof.len(), 32);
        assert!(secret.is_proof(Side::Replica, &[2; NONCE], &hello, &proof));
        assert!(!secret.is_proof(Side::Origin(b""), &[2; NONCE], &hello, &proof));
        assert!(!secret.is_proof(Side::Replica, &[3; NONCE], &hello, &proof));
        let other = Hello { nonce: [9; NONCE], ..hello.clone() };
        assert!(!secret.is_proof(Side::Replica, &[2; NONCE], &other, &proof));
        assert!(!Secret::new("").is_proof(Side::Replica, &[2; NONCE], &hello, &proof));
        assert!(!secret.is_proof(Side::Replica, &[2; NONCE], &hello, &proof[..31]));
        assert!(!secret.is_proof(Side::Replica, &[2; NONCE], &hello, &[]));
        assert_ne!(nonce().unwrap(), nonce().unwrap());
        assert_eq!(format!("{secret:?}"), "Secret");
    }
}
