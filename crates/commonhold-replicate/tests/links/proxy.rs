//! A process between a replica and its origin with bad manners: it passes bytes on in random
//! pieces, some of them late, and breaks connections off at random bytes, anywhere in a frame. It
//! reorders nothing.

use commonhold_io::address::Address;
use commonhold_testing::alone::cast;
use commonhold_testing::support::Dice;
use commonhold_testing::support::process::Child;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

/// How a proxy behaves.
#[derive(Clone, Copy, Debug)]
pub struct Manners {
    pub seed: u64,
    /// Bytes that it passes on at a time, at most.
    pub largest_piece: u64,
    /// One piece in this many is late; none if it is 0.
    pub late_one_in: u64,
    /// Bytes after which a connection is broken off, at most; never if it is 0.
    pub longest_life: u64,
}

impl Manners {
    pub fn breaks(&self) -> bool {
        self.longest_life > 0
    }

    /// Listens, and connects every client, until it is dropped.
    pub fn stand(self, door: &Address, to: &Address) -> Child {
        let (Address::Unix(door), Address::Unix(to)) = (door, to) else { panic!("want paths") };
        cast(format!("proxy {}", self.seed), || {
            let listener = UnixListener::bind(door).unwrap();
            let mut dice = Dice::new(self.seed);
            for incoming in listener.incoming() {
                let (Ok(near), Ok(far)) = (incoming, UnixStream::connect(to)) else { continue };
                self.connect(&near, &far, dice.roll());
                self.connect(&far, &near, dice.roll());
            }
        })
    }

    fn connect(self, from: &UnixStream, to: &UnixStream, seed: u64) {
        let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
        std::thread::spawn(move || {
            // Errors are ends.
            let _ = self.pass(&mut from, &mut to, Dice::new(seed));
            let _ = from.shutdown(Shutdown::Both);
            let _ = to.shutdown(Shutdown::Both);
        });
    }

    fn pass(
        self,
        from: &mut UnixStream,
        to: &mut UnixStream,
        mut dice: Dice,
    ) -> std::io::Result<()> {
        let mut life = match self.longest_life {
            0 => u64::MAX,
            most => dice.below(most),
        };
        let mut piece = vec![0; self.largest_piece as usize];
        while life > 0 {
            let most = (1 + dice.below(self.largest_piece)).min(life) as usize;
            let len = from.read(&mut piece[..most])?;
            if len == 0 {
                break;
            }
            if self.late_one_in > 0 && dice.one_in(self.late_one_in) {
                std::thread::sleep(Duration::from_micros(dice.below(3000)));
            }
            to.write_all(&piece[..len])?;
            life -= len as u64;
        }
        Ok(())
    }
}
