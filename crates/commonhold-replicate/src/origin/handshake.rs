//! The introduction of a replica, as an origin receives it: preface, HELLO and, if there is a
//! secret, the proof.
//!
//! Invariant: nothing that depends on the origin's maps is sent or done before the proof.

use crate::protocol::inbox::Inbox;
use crate::protocol::secret::{self, Secret, Side};
use crate::protocol::wire::{self, Broken, HANDSHAKE_FRAME, Hello, NONCE, PREFACE, broken, code};

/// A replica that has identified itself.
pub(crate) struct Greeted {
    pub(crate) hello: Hello,
    /// The challenge that it has met; zeros if there is no secret.
    pub(crate) challenge: [u8; NONCE],
}

/// See the module.
pub(crate) enum Handshake {
    Preface,
    Hello,
    Proof(Box<Greeted>),
    Over,
}

impl Handshake {
    /// Processes the received bytes, and appends the messages to send. Returns the replica once it
    /// has identified itself.
    ///
    /// # Errors
    /// The fault of the bytes.
    pub(crate) fn advance(
        &mut self,
        inbox: &mut Inbox,
        secret: Option<&Secret>,
        words: &mut Vec<u8>,
    ) -> Result<Option<Greeted>, Broken> {
        if matches!(self, Handshake::Preface) {
            if !wire::check_preface(inbox.rest())? {
                return Ok(None);
            }
            inbox.advance(PREFACE);
            *self = Handshake::Hello;
        }
        while let Some(frame) = inbox.next(HANDSHAKE_FRAME)? {
            match (std::mem::replace(self, Handshake::Over), secret) {
                (Handshake::Hello, secret) => {
                    let Some(hello) = Hello::read(&frame) else { return unexpected(frame.code) };
                    words.extend_from_slice(&wire::preface());
                    if secret.is_none() {
                        return Ok(Some(Greeted { hello, challenge: [0; NONCE] }));
                    }
                    let challenge = secret::nonce()
                        .map_err(|e| Broken(format!("cannot get random numbers: {e}")))?;
                    wire::put_challenge(words, &challenge);
                    *self = Handshake::Proof(Box::new(Greeted { hello, challenge }));
                }
                (Handshake::Proof(greeted), Some(secret)) if frame.code == code::PROOF => {
                    let Greeted { hello, challenge } = &*greeted;
                    return match secret.is_proof(Side::Replica, challenge, hello, frame.key) {
                        true => Ok(Some(*greeted)),
                        false => broken("does not know the secret"),
                    };
                }
                _ => return unexpected(frame.code),
            }
        }
        Ok(None)
    }
}

pub(crate) fn unexpected<T>(code: u32) -> Result<T, Broken> {
    broken(format!("sent an unexpected frame (code {code:#x})"))
}
