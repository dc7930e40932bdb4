//! The answer to one request as its bytes come in, in either protocol, checked while they do.
//!
//! Invariant: an answer is complete only if it is right. An error is a text that follows the id.

use super::ask::Request;
use super::content::Body;
use super::http::{self, MOST_HEAD};
use super::protocol::Protocol;

/// An answer that is complete and right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Complete {
    /// Bytes of its body.
    pub bytes: u64,
    /// Whether the server ends the connection after it.
    pub closes: bool,
}

/// Where in the answer the next byte belongs.
enum Stage {
    Head,
    Body { left: u64, closes: bool },
}

/// One answer.
pub struct Incoming {
    protocol: Protocol,
    /// The beginning of a head that is not whole yet.
    head: Vec<u8>,
    stage: Stage,
    body: Body,
    /// Of a body in the simple protocol.
    first: u8,
}

/// The error in an answer.
pub type Fault = String;

impl Incoming {
    /// Nothing has come yet.
    pub fn new(protocol: Protocol) -> Incoming {
        let (head, body) = (Vec::new(), Body::new());
        Incoming { protocol, head, stage: Stage::Head, body, first: 0 }
    }

    /// Whether nothing of the answer has come.
    pub fn is_untouched(&self) -> bool {
        self.head.is_empty() && matches!(self.stage, Stage::Head) && self.body.bytes() == 0
    }

    /// Forgets what came: the next byte begins an answer.
    pub fn clear(&mut self) {
        self.head.clear();
        self.stage = Stage::Head;
        self.body.clear();
    }

    /// Takes the bytes that belong to the answer to `request`; returns their number, and the answer
    /// if it is complete.
    pub fn take(
        &mut self,
        bytes: &[u8],
        request: &Request,
    ) -> Result<(usize, Option<Complete>), Fault> {
        match self.protocol {
            Protocol::Simple => self.take_all(bytes, request).map(|()| (bytes.len(), None)),
            Protocol::Http => self.take_http(bytes, request),
        }
    }

    /// The other end has closed: in the simple protocol that is what completes an answer.
    pub fn end(&mut self, request: &Request) -> Result<Complete, Fault> {
        let came = self.body.bytes();
        match (self.protocol, &self.stage) {
            (Protocol::Simple, _) => self.verify(request)?,
            (Protocol::Http, Stage::Head) if self.head.is_empty() => {
                return Err("the connection was closed without a response".to_owned());
            }
            (Protocol::Http, Stage::Head) => {
                return Err("the connection was closed within the head".to_owned());
            }
            (Protocol::Http, Stage::Body { left, .. }) => {
                let all = came + left;
                return Err(format!("the connection was closed after {came} of {all} bytes"));
            }
        }
        self.clear();
        Ok(Complete { bytes: came, closes: true })
    }

    fn take_all(&mut self, bytes: &[u8], request: &Request) -> Result<(), Fault> {
        if self.body.bytes() == 0 {
            self.first = bytes.first().copied().unwrap_or_default();
        }
        self.body.take(bytes);
        // A server that sends more than the file has may never end.
        let most = request.content.map_or(1, |content| content.bytes.max(1));
        if self.body.bytes() > most { self.verify(request) } else { Ok(()) }
    }

    fn take_http(
        &mut self,
        bytes: &[u8],
        request: &Request,
    ) -> Result<(usize, Option<Complete>), Fault> {
        let mut taken = 0;
        if matches!(self.stage, Stage::Head) {
            match self.take_head(bytes, request)? {
                Some(count) => taken = count,
                None => return Ok((bytes.len(), None)),
            }
        }
        let Stage::Body { left, closes } = &mut self.stage else { return Ok((taken, None)) };
        let piece = &bytes[taken..];
        let piece = &piece[..piece.len().min(usize::try_from(*left).unwrap_or(usize::MAX))];
        self.body.take(piece);
        taken += piece.len();
        *left -= piece.len() as u64;
        let closes = *closes;
        if *left > 0 {
            return Ok((taken, None));
        }
        if request.content.is_some() {
            self.verify(request)?;
        }
        let complete = Complete { bytes: self.body.bytes(), closes };
        self.clear();
        Ok((taken, Some(complete)))
    }

    /// How many of the bytes belong to the head, if it is whole now; else all of them do.
    fn take_head(&mut self, bytes: &[u8], request: &Request) -> Result<Option<usize>, Fault> {
        let before = self.head.len();
        // Most heads come whole, and need no copy.
        let head = if before == 0 {
            http::head(bytes)?
        } else {
            let room = MOST_HEAD.saturating_sub(before);
            self.head.extend_from_slice(&bytes[..bytes.len().min(room)]);
            http::head(&self.head)?
        };
        let Some(head) = head else {
            if before == 0 {
                self.head.extend_from_slice(bytes);
            }
            return Ok(None);
        };
        self.head.clear();
        check_head(head, request)?;
        self.stage = Stage::Body { left: head.body_bytes, closes: head.closes };
        Ok(Some(head.bytes - before))
    }

    /// Whether the body is what it should be.
    fn verify(&self, request: &Request) -> Result<(), Fault> {
        let Some(content) = request.content else {
            return match (self.body.bytes(), self.first) {
                (1, 0) => Ok(()),
                (0, _) => Err("unknown: expected one zero byte, got nothing".to_owned()),
                (count, first) => Err(format!(
                    "unknown: expected one zero byte, got {count} bytes that begin with \
                     {first:#04x}"
                )),
            };
        };
        let is_refusal =
            self.protocol == Protocol::Simple && (self.body.bytes(), self.first) == (1, 0);
        match content.fault(&self.body) {
            Some(_) if is_refusal => Err("the server reports it as unknown".to_owned()),
            Some(fault) => Err(fault),
            None => Ok(()),
        }
    }
}

fn check_head(head: http::Head, request: &Request) -> Result<(), Fault> {
    let status = head.status;
    match request.content {
        None if status == 404 => Ok(()),
        None => Err(format!("unknown: expected the status 404, got {status}")),
        Some(_) if status == 404 => Err("the server reports it as unknown (404)".to_owned()),
        Some(_) if status != 200 => Err(format!("expected the status 200, got {status}")),
        Some(content) if content.bytes != head.body_bytes => {
            Err(format!("expected the Content-Length {}, got {}", content.bytes, head.body_bytes))
        }
        Some(_) => Ok(()),
    }
}
