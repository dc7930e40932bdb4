//! The introduction of an origin, as a replica receives it: preface, a challenge if there is a
//! secret, ORIGIN and WELCOME.
//!
//! Invariant: a replica with a secret acts on nothing before the origin's proof, except a refusal.

use crate::protocol::inbox::Inbox;
use crate::protocol::introduction::Introduction;
use crate::protocol::secret::{self, Secret, Side};
use crate::protocol::wire::{
    self, Broken, HANDSHAKE_FRAME, Hello, NONCE, PREFACE, Welcome, broken, capability, code,
};
use crate::protocol::wish::Wish;

/// See the module.
pub(crate) struct Greeting {
    hello: Hello,
    secret: Option<Secret>,
    has_preface: bool,
    challenge: Option<[u8; NONCE]>,
    origin: Option<(Introduction, Vec<u8>)>,
}

/// The next step of an introduction.
pub(crate) enum Step {
    /// More bytes must come first.
    More,
    /// Send these bytes.
    Say(Vec<u8>),
    /// The origin refuses the replica, and closes.
    Refused(Introduction),
    /// The origin has identified itself; the capabilities are those that both sides have.
    Done(Introduction, Welcome),
}

/// A random number for a HELLO.
pub(crate) fn nonce() -> Result<[u8; NONCE], Broken> {
    secret::nonce().map_err(|e| Broken(format!("cannot get random numbers: {e}")))
}

impl Greeting {
    /// Begins with the replica's own introduction; returns the bytes to send.
    pub(crate) fn begin(hello: Hello, secret: Option<Secret>) -> (Greeting, Vec<u8>) {
        let mut words = wire::preface().to_vec();
        hello.put(&mut words);
        let (has_preface, challenge, origin) = (false, None, None);
        (Greeting { hello, secret, has_preface, challenge, origin }, words)
    }

    /// Processes the received bytes.
    ///
    /// # Errors
    /// The fault of the bytes, or of the origin.
    pub(crate) fn next(&mut self, inbox: &mut Inbox) -> Result<Step, Broken> {
        if !self.has_preface {
            if !wire::check_preface(inbox.rest())? {
                return Ok(Step::More);
            }
            inbox.advance(PREFACE);
            self.has_preface = true;
        }
        let Some(frame) = inbox.next(HANDSHAKE_FRAME)? else { return Ok(Step::More) };
        if self.origin.is_none()
            && let Some(introduction) = Introduction::read(&frame)
        {
            self.origin = Some((introduction.clone(), frame.value.to_vec()));
            return match introduction.refusal {
                Some(_) => Ok(Step::Refused(introduction)),
                None => self.next(inbox),
            };
        }
        if let (Some((introduction, value)), Some(welcome)) = (&self.origin, Welcome::read(&frame))
            && welcome.is_within(introduction.capabilities)
        {
            self.ensure_proved(value, &welcome)?;
            self.ensure_understood(introduction)?;
            let mut introduction = introduction.clone();
            introduction.capabilities &= self.hello.capabilities;
            return Ok(Step::Done(introduction, welcome));
        }
        let nonce = <[u8; NONCE]>::try_from(frame.key).ok();
        let asked = nonce.filter(|_| frame.code == code::CHALLENGE && self.challenge.is_none());
        let (Some(nonce), Some(secret)) = (asked, &self.secret) else {
            return broken(match asked {
                Some(_) => "the origin requires a secret, but this replica has none",
                None => "the origin sent an unexpected frame",
            });
        };
        self.challenge = Some(nonce);
        let mut words = Vec::new();
        wire::put_proof(&mut words, &secret.prove(Side::Replica, &nonce, &self.hello));
        Ok(Step::Say(words))
    }

    fn ensure_proved(&self, origin: &[u8], welcome: &Welcome) -> Result<(), Broken> {
        let proved = match (&self.secret, self.challenge) {
            (Some(secret), Some(challenge)) => {
                secret.is_proof(Side::Origin(origin), &challenge, &self.hello, &welcome.proof)
            }
            (Some(_), None) => false,
            (None, _) => true,
        };
        if proved { Ok(()) } else { broken("the origin does not know the secret") }
    }

    /// An origin without the capabilities serves its only map, and all of it, whatever the replica
    /// wants.
    fn ensure_understood(&self, origin: &Introduction) -> Result<(), Broken> {
        let prefix = self.hello.prefix()?;
        if !prefix.is_of_all() && origin.capabilities & capability::PREFIX == 0 {
            return broken(format!(
                "serves {}, and its version of the program cannot send {prefix} alone; update the \
                 origin's program, or follow the whole map without a prefix",
                origin.lineage.shown()
            ));
        }
        let wish = match self.hello.wish() {
            Some(Wish::Catalogue) => "the maps of a whole hold".to_owned(),
            Some(Wish::Map(name)) => format!("the map '{name}' of a hold"),
            _ => return Ok(()),
        };
        if origin.capabilities & capability::HOLDS != 0 {
            return Ok(());
        }
        broken(format!(
            "serves {}, and its version of the program cannot serve {wish}; update the origin's \
             program, or follow this one map ('hold replica ADDRESS HOLD MAP')",
            origin.lineage.shown()
        ))
    }

    /// The reason of an end before the origin has identified itself.
    pub(crate) fn explained(&self, Broken(why): Broken) -> Broken {
        match self.challenge {
            Some(_) => Broken(format!("{why}; check that both sides have the same secret")),
            None => Broken(why),
        }
    }
}
