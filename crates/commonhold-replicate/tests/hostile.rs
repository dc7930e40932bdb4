//! Any bytes may come over the wire. A peer that sends bad ones harms only itself: it is
//! disconnected, a line names the reason, and honest peers are served as before.
//!
//! | module | idea |
//! |---|---|
//! | [`words`] | the protocol's messages, right and wrong, made by hand |
//! | [`to_origin`] | peers that send wrong messages to an origin |
//! | [`crowds`] | many of them, and what they leave behind: memory, threads, descriptors |
//! | [`slow`] | peers that read slowly, or never, or leave in the middle |
//! | [`to_replica`] | origins that lie |
//! | [`packed`] | origins that lie in compressed blocks |
//! | [`deceived`] | the replica that they lie to |

mod crowds;
mod deceived;
mod packed;
mod slow;
mod to_origin;
mod to_replica;
pub mod words;

use crate::party::{Copy, LONG, Source, eager};
use commonhold::Hold;
use commonhold::map::MapOptions;
use commonhold_replicate::{Address, OriginOptions, Replica, ReplicaOptions, Secret};
use commonhold_testing::support::process::until;
use words::Peer;

/// An origin with an honest replica, and the attacks on it.
struct Besieged {
    source: Source,
    honest: Copy,
    /// The number of the origin's lines that were checked.
    seen: usize,
    round: u32,
}

impl Besieged {
    fn new() -> Besieged {
        Besieged::with(None, |_| ())
    }

    fn with(secret: Option<Secret>, change: impl FnOnce(&mut OriginOptions)) -> Besieged {
        let source = Source::with(MapOptions::general(), |options| {
            options.secret = secret.clone();
            change(options);
        });
        for id in 0..100u32 {
            source.map.set(id.to_be_bytes(), [7; 20]).unwrap();
        }
        let honest = follow(&source, "honest.hold", &source.address, secret);
        honest.agrees(&source);
        Besieged { source, honest, seen: 0, round: 0 }
    }

    fn peer(&self) -> Peer {
        Peer::of(&self.source.address)
    }

    /// Sends bytes to the origin; waits until it disconnects the peer, with a line that names the
    /// reason.
    #[track_caller]
    fn refuses(&mut self, words: &[u8], why: &str) {
        let mut peer = self.peer();
        peer.say(words);
        peer.is_sent_away();
        self.reports(why);
    }

    /// The origin prints one more line, which contains this.
    #[track_caller]
    fn reports(&mut self, why: &str) {
        let said = &self.source.said;
        until("the origin to say why", || said.lock().unwrap().len() > self.seen);
        let line = said.lock().unwrap()[self.seen].clone();
        self.seen += 1;
        assert!(line.contains(why), "'{line}', where '{why}' was awaited");
    }

    /// The origin prints this many more lines.
    #[track_caller]
    fn reports_often(&mut self, lines: usize) {
        let said = &self.source.said;
        until("the origin to say all", || said.lock().unwrap().len() >= self.seen + lines);
        self.seen += lines;
    }

    /// The honest replica is served as before: it gets a new change over its first connection.
    #[track_caller]
    fn holds(&mut self) {
        self.round += 1;
        self.source.map.set("round", self.round.to_le_bytes()).unwrap();
        self.honest.agrees(&self.source);
        let status = self.honest.replica.status();
        assert_eq!((status.connections, status.synchronisations), (1, 1), "{status:?}");
    }

    /// Like [`holds`](Self::holds); and another replica can connect, and only these two are left.
    #[track_caller]
    fn has_held(mut self, secret: Option<Secret>) {
        self.holds();
        let late = follow(&self.source, "late.hold", &self.source.address, secret);
        late.agrees(&self.source);
        until("all others to be gone", || self.source.origin().replicas().len() == 2);
        assert_eq!(self.source.said.lock().unwrap().len(), self.seen, "{:?}", self.source.said);
    }
}

fn follow(source: &Source, name: &str, address: &Address, secret: Option<Secret>) -> Copy {
    let hold = Hold::open_or_create(source.test_dir.path(name)).unwrap();
    let options = ReplicaOptions { secret, ..eager() };
    let replica = Replica::connect(&hold, "it", address, options, ()).unwrap();
    let copy = Copy { hold, replica };
    assert!(copy.replica.wait_ready(LONG), "{:?}", copy.replica.status());
    copy
}
