//! A replica that had an honest origin, and has a liar now.

use super::words::{GREETING, IDENTITY, LINEAGE, Welcome, place};
use crate::party::{LONG, Source, pairs};
use commonhold::Hold;
use commonhold::map::{MapMode, MapOptions};
use commonhold::stream::StreamPosition;
use commonhold_replicate::{Address, Compression, Replica, ReplicaOptions, Secret};
use commonhold_testing::support::process::until;
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

pub type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// A replica that has a map and whose origin has ended; a liar listens at the origin's address.
pub struct Deceived {
    pub source: Source,
    pub hold: Hold,
    pub replica: Replica,
    /// Its pairs.
    pub was: Pairs,
    pub position: StreamPosition,
    mode: MapMode,
    secret: Option<Secret>,
    liar: UnixListener,
    /// The present connection.
    pub talk: UnixStream,
    /// The replica's first message in it.
    pub greeting: Vec<u8>,
}

pub fn key(id: u32) -> [u8; 4] {
    id.to_be_bytes()
}

impl Deceived {
    pub fn new(options: MapOptions) -> Deceived {
        Deceived::with(options, None)
    }

    pub fn with(options: MapOptions, secret: Option<Secret>) -> Deceived {
        let mut source = Source::with(options, |options| options.secret = secret.clone());
        for id in 0..10 {
            source.map.set(key(id), [7; 4]).unwrap();
        }
        let hold = Hold::create(source.test_dir.path("copy.hold")).unwrap();
        let pause = Duration::from_millis(1);
        let secret_too = secret.clone();
        let hasty = ReplicaOptions {
            secret: secret_too,
            first_pause: pause,
            longest_pause: pause,
            compression: Compression::Always,
            ..ReplicaOptions::default()
        };
        let replica = Replica::connect(&hold, "it", &source.address, hasty, ()).unwrap();
        let (position, was) = (source.end(), pairs(&source.map));
        assert!(replica.wait_ready(LONG) && replica.wait_for(position, LONG));
        let mode = hold.maps().open("it").unwrap().options().mode();
        source.origin = None;
        let Address::Unix(path) = &source.address else { unreachable!() };
        let liar = UnixListener::bind(path).unwrap();
        liar.set_nonblocking(true).unwrap();
        let (talk, greeting) = meet(&liar);
        Deceived { source, hold, replica, was, position, mode, secret, liar, talk, greeting }
    }

    pub fn welcome(&self) -> Welcome {
        let position = StreamPosition { stream: 77, offset: 4096 };
        Welcome { lineage: self.lineage(), ..Welcome::to(self.mode, position) }
    }

    /// The lineage that the replica keeps to.
    fn lineage(&self) -> [u8; 16] {
        self.greeting[LINEAGE].try_into().unwrap()
    }

    /// The replica's stored position.
    pub fn nowhere_else(&self) -> Welcome {
        Welcome { whole: 0, lineage: self.lineage(), ..Welcome::to(self.mode, self.position) }
    }

    pub fn has(&self) -> Pairs {
        pairs(&self.hold.maps().open("it").unwrap())
    }

    pub fn say(&mut self, words: &[u8]) {
        match self.talk.write_all(words) {
            Err(error)
                if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {}
            said => said.unwrap(),
        }
    }

    /// Waits until it reconnects.
    #[track_caller]
    pub fn comes_again(&mut self) {
        (self.talk, self.greeting) = meet(&self.liar);
    }

    /// Sends it these bytes; it disconnects, names the reason, and reconnects unchanged.
    #[track_caller]
    pub fn is_not_believed(&mut self, words: &[u8], why: &str) {
        self.say(words);
        self.comes_again();
        self.is_as_it_was(why);
    }

    #[track_caller]
    pub fn is_as_it_was(&self, why: &str) {
        let status = self.replica.status();
        let error = status.last_error.unwrap_or_default();
        assert!(error.contains(why), "'{error}', where '{why}' was awaited");
        assert!(status.ready && !status.connected && status.position == Some(self.position));
        assert_eq!(self.has(), self.was, "{why}");
        assert_eq!(self.greeting[16 + 72..16 + 92], place(Some(self.position)), "{why}");
        // Both stored bounds are this position.
        let places = self.hold.maps().open(".applied/it").unwrap();
        assert_eq!(places.get(b"applied\0").unwrap(), places.get(b"applying").unwrap(), "{why}");
    }

    /// The honest origin is back: the replica follows it as if nothing had happened.
    pub fn finds_back(mut self) {
        let Address::Unix(path) = &self.source.address else { unreachable!() };
        std::fs::remove_file(path).unwrap();
        drop((self.liar, self.talk));
        let secret = self.secret.take();
        self.source.begin(|options| options.secret = secret);
        self.source.map.set(key(1), [8; 4]).unwrap();
        let replica = &self.replica;
        assert!(replica.wait_for(self.source.end(), LONG), "{:?}", replica.status());
        until("it to agree", || {
            pairs(&self.hold.maps().open("it").unwrap()) == pairs(&self.source.map)
        });
        assert!(self.hold.check().unwrap().ok);
    }
}

/// The next connection, and the replica's first message.
#[track_caller]
fn meet(liar: &UnixListener) -> (UnixStream, Vec<u8>) {
    let mut talk = None;
    until("the replica to come", || {
        talk = liar.accept().ok();
        talk.is_some()
    });
    let (mut talk, _) = talk.unwrap();
    talk.set_nonblocking(false).unwrap();
    talk.set_read_timeout(Some(LONG)).unwrap();
    talk.set_write_timeout(Some(LONG)).unwrap();
    let mut greeting = vec![0; GREETING + IDENTITY];
    talk.read_exact(&mut greeting).unwrap();
    (talk, greeting)
}
