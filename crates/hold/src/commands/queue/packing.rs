//! The layout of a message in an element, which has a size but no length.
//!
//! - plain: the message from byte 0 on, then zeros to the end. A reader omits the zeros at the end:
//!   right for text, and for any bytes that do not end with zeros.
//! - sized: the length of the message (4 bytes, little-endian), the message, zeros. Right for any
//!   bytes.
//!
//! Invariant: every byte of an element is written, so nothing of an earlier message remains in it.

use commonhold::queue::Queue;
use commonhold_terminal::failure::{Failure, Result};

/// Bytes of the length.
const HEAD: usize = 4;

/// The layout of messages in elements.
#[derive(clap::Args, Debug, Clone, Copy)]
pub struct Packing {
    /// Elements begin with the length of the message (4 bytes, little-endian); this option is
    /// required if messages may end with zero bytes
    #[arg(long)]
    pub sized: bool,
}

impl Packing {
    /// The most bytes of a message in such an element.
    pub fn most(self, element_bytes: usize) -> usize {
        element_bytes.saturating_sub(self.head())
    }

    fn head(self) -> usize {
        if self.sized { HEAD } else { 0 }
    }

    /// Fills `element` with the bytes of an element that carries `message`.
    pub fn pack(self, message: &[u8], element: &mut [u8]) -> Result<()> {
        let (head, rest) = element.split_at_mut(self.head().min(element.len()));
        let fits = head.len() == self.head() && message.len() <= rest.len();
        let length = u32::try_from(message.len()).ok().filter(|_| fits);
        let length = length.ok_or_else(|| {
            let (bytes, room) = (message.len(), rest.len());
            Failure::failed(format!("a message has {bytes} bytes; the maximum is {room}"))
        })?;
        if self.sized {
            head.copy_from_slice(&length.to_le_bytes());
        }
        let (own, zeros) = rest.split_at_mut(message.len());
        own.copy_from_slice(message);
        zeros.fill(0);
        Ok(())
    }

    /// The message in the bytes of an element of `queue`.
    pub fn unpack<'e>(self, element: &'e [u8], queue: &Queue) -> Result<&'e [u8]> {
        if !self.sized {
            let end = element.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            return Ok(&element[..end]);
        }
        let split = element.split_first_chunk::<HEAD>();
        let message = split.and_then(|(head, rest)| rest.get(..u32::from_le_bytes(*head) as usize));
        message.ok_or_else(|| {
            Failure::failed(format!(
                "queue '{}': expected an element that begins with the length of a message, as \
                 'hold queue push --sized' stores it; omit --sized if the message was pushed \
                 without it; the element stays in its queue",
                queue.name()
            ))
        })
    }
}
