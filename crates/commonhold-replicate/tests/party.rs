//! Origins and replicas with holds of their own, and whether they agree.

use commonhold::Hold;
use commonhold::map::{Map, MapOptions};
use commonhold_replicate::{Address, Origin, OriginOptions, Replica, ReplicaOptions};
use commonhold_testing::support::test_dir::TestDir;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub use commonhold_testing::alone::LONG;

/// A map with an origin.
pub struct Source {
    pub test_dir: TestDir,
    pub hold: Hold,
    pub map: Map,
    pub origin: Option<Origin>,
    pub address: Address,
    /// The origin's lines, except those about joining replicas.
    pub said: Arc<Mutex<Vec<String>>>,
    /// The origin's lines about joining replicas.
    pub joined: Arc<Mutex<Vec<String>>>,
}

pub const SMALL_STREAM: u64 = 64 << 10;

impl Source {
    pub fn new(map: MapOptions) -> Source {
        Source::with(map, |_| ())
    }

    pub fn with(map: MapOptions, change: impl FnOnce(&mut OriginOptions)) -> Source {
        let test_dir = TestDir::memory();
        let hold = Hold::create(test_dir.path("origin.hold")).unwrap();
        let map = hold.maps().open_or_create("it", map).unwrap();
        let address = Address::Unix(test_dir.path("socket"));
        let (said, joined) = Default::default();
        let mut source = Source { test_dir, hold, map, origin: None, address, said, joined };
        source.begin(change);
        source
    }

    /// Starts an origin and listens.
    pub fn begin(&mut self, change: impl FnOnce(&mut OriginOptions)) {
        let [said, joined] = [&self.said, &self.joined].map(Arc::clone);
        let mut options = OriginOptions {
            stream_bytes: 4 << 20,
            notice: Some(Arc::new(move |text: &str| {
                let to = if is_of_joining(text) { &joined } else { &said };
                to.lock().unwrap().push(text.to_owned());
            })),
            ..OriginOptions::default()
        };
        change(&mut options);
        let origin = Origin::start(&self.hold, "it", options).unwrap();
        origin.listen(&self.address).unwrap();
        self.origin = Some(origin);
    }

    pub fn origin(&self) -> &Origin {
        self.origin.as_ref().expect("it runs")
    }

    /// The end of the stream.
    pub fn end(&self) -> commonhold::stream::StreamPosition {
        self.map.follow().unwrap().end().unwrap()
    }

    pub fn has_said(&self, text: &str) -> bool {
        let has = |lines: &Mutex<Vec<String>>| {
            lines.lock().unwrap().iter().any(|line| line.contains(text))
        };
        has(&self.said) || has(&self.joined)
    }
}

/// Whether a line of an origin reports that a replica has joined.
pub fn is_of_joining(line: &str) -> bool {
    line.contains(": joined at ")
}

/// A map that follows.
pub struct Copy {
    pub hold: Hold,
    pub replica: Replica,
}

impl Copy {
    pub fn of(source: &Source, name: &str) -> Copy {
        Copy::at(source, name, &source.address)
    }

    pub fn at(source: &Source, name: &str, address: &Address) -> Copy {
        let hold = Hold::open_or_create(source.test_dir.path(name)).unwrap();
        let replica = Replica::connect(&hold, "it", address, eager(), ()).unwrap();
        Copy { hold, replica }
    }

    pub fn pairs(&self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        pairs(&self.hold.maps().open("it").unwrap())
    }

    /// Waits until it has everything that the source has, and compares.
    #[track_caller]
    pub fn agrees(&self, source: &Source) {
        let ready = self.replica.wait_ready(LONG);
        assert!(ready, "{:?}, the origin said {:?}", self.replica.status(), source.said.lock());
        let there = self.replica.wait_for(source.end(), LONG);
        assert!(there, "{:?}, the origin said {:?}", self.replica.status(), source.said.lock());
        assert_eq!(self.pairs(), pairs(&source.map));
    }
}

/// Options with short pauses before the next connection.
pub fn eager() -> ReplicaOptions {
    let (first_pause, longest_pause) = (Duration::from_millis(5), Duration::from_millis(50));
    ReplicaOptions { first_pause, longest_pause, ..ReplicaOptions::default() }
}

pub fn pairs(map: &Map) -> BTreeMap<Vec<u8>, Vec<u8>> {
    map.iter().map(Result::unwrap).collect()
}
