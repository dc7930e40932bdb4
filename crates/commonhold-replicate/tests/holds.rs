//! Whole holds: one origin serves all maps, and one replica follows them, as they come and go.
//!
//! | module | idea |
//! |---|---|
//! | [`load`] | real processes under load, killed and started again |
//! | [`strangers`] | peers without the secret, of other users, and too many of them |
//! | [`versions`] | origins of one map, and of earlier versions |

mod load;
mod strangers;
mod versions;

use crate::party::{LONG, Source, eager, pairs};
use commonhold::map::{Map, MapOptions};
use commonhold::{ErrorKind, Hold};
use commonhold_replicate::{
    Address, FollowState, FollowedMap, HoldOrigin, HoldOriginOptions, HoldReplica,
    HoldReplicaOptions, HoldReplicaStatus, OriginOptions, Replica, ReplicaOptions, Transmission,
    promote,
};
use commonhold_testing::support::process::until;
use commonhold_testing::support::refused;
use commonhold_testing::support::test_dir::TestDir;
use std::sync::{Arc, Mutex};

/// A hold, and an origin that serves its maps.
struct Shop {
    test_dir: TestDir,
    hold: Hold,
    address: Address,
    origin: Option<HoldOrigin>,
    /// The lines of the origin.
    said: Arc<Mutex<Vec<String>>>,
}

fn small_streams() -> OriginOptions {
    OriginOptions { stream_bytes: 1 << 20, ..OriginOptions::default() }
}

impl Shop {
    fn new(maps: &[&str]) -> Shop {
        Shop::with(maps, |_| ())
    }

    /// Each map has one pair, which is its name.
    fn with(maps: &[&str], change: impl FnOnce(&mut HoldOriginOptions)) -> Shop {
        let test_dir = TestDir::memory();
        let hold = Hold::create(test_dir.path("shop.hold")).unwrap();
        let address = Address::Unix(test_dir.path("socket"));
        let mut shop = Shop { test_dir, hold, address, origin: None, said: Arc::default() };
        maps.iter().for_each(|map| drop(shop.map(map)));
        shop.begin(change);
        shop
    }

    fn begin(&mut self, change: impl FnOnce(&mut HoldOriginOptions)) {
        let said = Arc::clone(&self.said);
        let notice = Arc::new(move |text: &str| said.lock().unwrap().push(text.to_owned()));
        let origin = OriginOptions { notice: Some(notice), ..small_streams() };
        let mut options = HoldOriginOptions { origin, maps: Vec::new() };
        change(&mut options);
        let origin = HoldOrigin::start(&self.hold, options).unwrap();
        assert_eq!(origin.listen(&self.address).unwrap(), self.address);
        self.origin = Some(origin);
    }

    fn map(&self, name: &str) -> Map {
        let map = self.hold.maps().open_or_create(name, MapOptions::general()).unwrap();
        map.set(name, name).unwrap();
        map
    }

    fn copy_hold(&self) -> Hold {
        Hold::open_or_create(self.test_dir.path("copy.hold")).unwrap()
    }

    /// A replica of all maps, in the hold of the copy.
    fn follow(&self) -> HoldReplica {
        self.follow_with(|_| ())
    }

    fn follow_with(&self, change: impl FnOnce(&mut HoldReplicaOptions)) -> HoldReplica {
        let mut options = HoldReplicaOptions { replica: eager(), maps: Vec::new() };
        change(&mut options);
        HoldReplica::connect(&self.copy_hold(), &self.address, options, ()).unwrap()
    }

    fn reports(&self, text: &str) {
        let says = || self.said.lock().unwrap().iter().any(|line| line.contains(text));
        until(&format!("the origin reports '{text}'"), says);
    }

    /// Waits until the copy of a map has the same pairs.
    #[track_caller]
    fn agrees(&self, name: &str) {
        let (map, copy) = (self.hold.maps().open(name).unwrap(), self.copy_hold());
        let is_same = || copy.maps().open(name).is_ok_and(|copy| pairs(&copy) == pairs(&map));
        until(&format!("the copy of {name} agrees"), is_same);
    }
}

fn one<'a>(status: &'a HoldReplicaStatus, name: &str) -> Option<&'a FollowedMap> {
    status.maps.iter().find(|map| map.name == name)
}

/// Waits until a map has this state.
#[track_caller]
fn is(replica: &HoldReplica, name: &str, state: FollowState) -> FollowedMap {
    let has = |status: &HoldReplicaStatus| one(status, name).is_some_and(|map| map.state == state);
    assert!(replica.wait(LONG, has), "{name} is not {state:?}: {:?}", replica.status());
    one(&replica.status(), name).unwrap().clone()
}

/// The first start of a map's replica fails before it has a connection.
#[cfg(feature = "steps")]
#[test]
fn a_replica_that_could_not_start_adopts_later() {
    let mut shop = Shop::new(&["apples"]);
    let replica = shop.follow();
    assert!(replica.wait_ready(LONG), "{:?}", replica.status());
    drop(replica);
    shop.origin = None;
    let other = Shop::new(&["apples"]);
    other.map("apples").set("of", "another lineage").unwrap();
    commonhold_testing::alone::cast("the replica", || {
        commonhold_replicate::faults::arm("replica.thread:EAGAIN:once").unwrap();
        let replica = ReplicaOptions { adopt: true, ..eager() };
        let options = HoldReplicaOptions { replica, maps: Vec::new() };
        let copy = shop.copy_hold();
        let replica = HoldReplica::connect(&copy, &other.address, options, ()).unwrap();
        is(&replica, "apples", FollowState::Followed);
        assert!(replica.wait_ready(LONG), "{:?}", replica.status());
        let apples = copy.maps().open("apples").unwrap();
        assert_eq!(apples.get("of").unwrap().as_deref(), Some(&b"another lineage"[..]));
    })
    .finish();
}

fn names(status: &HoldReplicaStatus) -> Vec<&str> {
    status.maps.iter().map(|map| map.name.as_str()).collect()
}

#[test]
fn maps_are_followed_as_they_come_and_stay_when_they_are_dropped() {
    let shop = Shop::new(&["apples", "pears"]);
    let replica = shop.follow();
    assert!(replica.wait_ready(LONG), "{:?}", replica.status());
    assert_eq!(names(&replica.status()), ["apples", "pears"]);
    shop.agrees("apples");
    shop.agrees("pears");

    let plums = shop.map("plums");
    is(&replica, "plums", FollowState::Followed);
    shop.agrees("plums");
    // Each map as if it were alone: with a lag, and writers that wait.
    plums.set("more", "plums").unwrap();
    assert_eq!(plums.wait_for_replicas(1, LONG).unwrap(), 1);
    let copy = shop.copy_hold();
    let seen = copy.maps().open("plums").unwrap();
    assert_eq!(seen.get("more").unwrap().as_deref(), Some(&b"plums"[..]));
    assert!(seen.lag().unwrap().is_some());
    refused(seen.set("a", "b"), ErrorKind::ReadOnly, "is a replica");

    assert!(shop.hold.maps().drop("plums").unwrap());
    let dropped = is(&replica, "plums", FollowState::Dropped);
    assert!(dropped.reason.unwrap().starts_with("dropped at the origin"), "{replica:?}");
    assert_eq!(pairs(&seen).len(), 2);
    // A map of the same name replaces the contents.
    shop.map("plums").set("new", "plums").unwrap();
    is(&replica, "plums", FollowState::Followed);
    shop.agrees("plums");

    refused(promote(&copy, "pears"), ErrorKind::Busy, "pears");
    drop(replica);
    assert_eq!(promote(&copy, "pears").unwrap().unwrap().epoch, 2);
    copy.maps().open("pears").unwrap().set("a", "b").unwrap();
}

/// A replica that did not run when a map was dropped.
#[test]
fn a_map_that_was_dropped_meanwhile_is_reported() {
    let mut shop = Shop::new(&["apples", "pears"]);
    let replica = shop.follow();
    assert!(replica.wait_ready(LONG), "{:?}", replica.status());
    drop((replica, shop.origin.take()));
    assert!(shop.hold.maps().drop("pears").unwrap());
    // An ordinary map of its own is nobody else's business.
    shop.copy_hold().maps().create("own", MapOptions::general()).unwrap();
    shop.begin(|_| ());
    let replica = shop.follow();
    let dropped = is(&replica, "pears", FollowState::Dropped);
    assert!(dropped.reason.unwrap().contains("a replica of map 'pears' of hold 'shop.hold'"));
    assert!(replica.wait_ready(LONG), "{:?}", replica.status());
    assert_eq!(names(&replica.status()), ["apples", "pears"]);
    let copy = shop.copy_hold();
    assert_eq!(pairs(&copy.maps().open("pears").unwrap()).len(), 1);
    // Promoted, it is an ordinary map like the other.
    assert!(promote(&copy, "pears").unwrap().is_some());
    assert!(replica.wait(LONG, |status| names(status) == ["apples"]), "{:?}", replica.status());
}

/// The replica that brought the map does not run.
#[test]
fn a_map_of_another_origin_is_not_reported_as_dropped() {
    let (shop, source) = (Shop::new(&["apples"]), Source::new(MapOptions::general()));
    source.map.set("a", "b").unwrap();
    let other = Replica::connect(&shop.copy_hold(), "it", &source.address, eager(), ()).unwrap();
    assert!(other.wait_ready(LONG), "{:?}", other.status());
    drop(other);
    let replica = shop.follow();
    let reason = is(&replica, "it", FollowState::Dropped).reason.unwrap();
    assert!(!reason.contains("dropped at the origin"), "{reason}");
    assert!(reason.contains("a replica of map 'it' of hold 'origin.hold'"), "{reason}");
    assert!(reason.contains("another origin"), "{reason}");
}

#[test]
fn an_ordinary_map_of_the_same_name_is_skipped_until_it_goes_away() {
    let shop = Shop::new(&["apples", "pears"]);
    let copy = shop.copy_hold();
    let own = copy.maps().create("pears", MapOptions::general()).unwrap();
    own.set("own", "pair").unwrap();
    let replica = shop.follow();
    let skipped = is(&replica, "pears", FollowState::Skipped);
    assert!(skipped.reason.unwrap().contains("'pears'"), "{replica:?}");
    assert!(replica.wait_ready(LONG), "{:?}", replica.status());
    shop.agrees("apples");
    own.set("own", "pair").unwrap();
    assert!(copy.maps().drop("pears").unwrap());
    is(&replica, "pears", FollowState::Followed);
    shop.agrees("pears");
}

#[test]
fn patterns_select_maps_on_both_sides() {
    let shop = Shop::with(&["apples", "session:1", "session:2", "user:1"], |options| {
        options.maps = vec!["session:*".to_owned(), "user:?".to_owned()];
    });
    let replica = shop.follow_with(|options| options.maps = vec!["*:1".to_owned()]);
    assert!(replica.wait_ready(LONG), "{:?}", replica.status());
    assert_eq!(names(&replica.status()), ["session:1", "user:1"]);
    shop.map("session:3:1");
    shop.map("user:3:1");
    is(&replica, "session:3:1", FollowState::Followed);
    assert_eq!(names(&replica.status()), ["session:1", "session:3:1", "user:1"]);
    drop(replica);

    // One of the maps, with the name that it has there, and with another.
    let other = Hold::open_or_create(shop.test_dir.path("other.hold")).unwrap();
    let one = |name: &str, of: Option<&str>| {
        let options = ReplicaOptions { map: of.map(str::to_owned), ..eager() };
        Replica::connect(&other, name, &shop.address, options, ()).unwrap()
    };
    let same = one("session:2", None);
    let renamed = one("mine", Some("user:1"));
    for (replica, name, key) in [(&same, "session:2", "session:2"), (&renamed, "mine", "user:1")] {
        assert!(replica.wait_ready(LONG), "{:?}", replica.status());
        assert!(other.maps().open(name).unwrap().contains(key).unwrap());
    }
    for name in ["apples", "none"] {
        let text = format!("does not serve a map '{name}'");
        let refused = one(name, None);
        let says = |why: &String| why.contains(&text);
        let is_refused = refused.wait(LONG, |status| status.last_error.as_ref().is_some_and(says));
        assert!(is_refused, "{:?}", refused.status());
    }
}

#[test]
fn commonholds_own_maps_queues_and_channels_are_not_served() {
    let shop = Shop::new(&["apples"]);
    let replica = shop.follow();
    assert!(replica.wait_ready(LONG), "{:?}", replica.status());
    // By now there are some.
    let all = shop.hold.maps().list_all().unwrap();
    assert!(all.iter().any(|map| map.name == ".lineage/apples"), "{all:?}");
    shop.hold.channels().create("ticks", commonhold::channel::ChannelOptions::new(4096)).unwrap();
    shop.map("pears");
    is(&replica, "pears", FollowState::Followed);
    assert_eq!(names(&replica.status()), ["apples", "pears"]);
    let served: Vec<_> = shop.origin.as_ref().unwrap().maps();
    let served: Vec<_> = served.iter().map(|map| map.name.as_str()).collect();
    assert_eq!(served, ["apples", "pears"]);
}

#[test]
fn bad_options_are_refused() {
    let shop = Shop::new(&[]);
    let start = |change: fn(&mut HoldOriginOptions)| {
        let mut options = HoldOriginOptions::default();
        change(&mut options);
        HoldOrigin::start(&shop.hold, options)
    };
    let threads = start(|options| options.origin.io_threads = 0);
    refused(threads, ErrorKind::Invalid, "1 to 64 threads");
    let explicit = start(|options| options.origin.transmission = Transmission::Explicit);
    refused(explicit, ErrorKind::Invalid, "Transmission::Automatic");
    refused(
        start(|options| options.maps = vec![String::new()]),
        ErrorKind::Invalid,
        "an empty one",
    );
    let connect = |options| HoldReplica::connect(&shop.copy_hold(), &shop.address, options, ());
    let replica = ReplicaOptions { name: "a\nb".to_owned(), ..eager() };
    let named = connect(HoldReplicaOptions { replica, maps: Vec::new() });
    refused(named, ErrorKind::Invalid, "at most 64 bytes");
    let maps = vec![String::new()];
    refused(
        connect(HoldReplicaOptions { replica: eager(), maps }),
        ErrorKind::Invalid,
        "an empty one",
    );
    let wide = shop.origin.as_ref().unwrap().listen(&"tcp:0.0.0.0:0".parse().unwrap());
    refused(wide, ErrorKind::Invalid, "every client read all maps of the hold");
}

/// A map that cannot be served does not affect the others.
#[test]
fn a_map_without_room_for_its_stream_is_reported() {
    let test_dir = TestDir::memory();
    let hold = Hold::options().max_bytes(32 << 20).create(test_dir.path("shop.hold")).unwrap();
    for name in ["a", "b"] {
        hold.maps().create(name, MapOptions::general()).unwrap();
    }
    let large = hold.maps().create("large", MapOptions::general()).unwrap();
    for key in 0..24u32 {
        large.set(key.to_le_bytes(), vec![7; 1 << 20]).unwrap();
    }
    // There is room for one of two streams.
    let origin = OriginOptions { stream_bytes: 4 << 20, ..OriginOptions::default() };
    let options = HoldOriginOptions { origin, maps: vec!["?".to_owned()] };
    let origin = HoldOrigin::start(&hold, options).unwrap();
    let errors: Vec<_> = origin.maps().into_iter().map(|map| map.error.is_some()).collect();
    assert_eq!(errors, [false, true], "{origin:?}");
    let address = origin.listen(&Address::Unix(test_dir.path("socket"))).unwrap();
    let copy = Hold::create(test_dir.path("copy.hold")).unwrap();
    let options = HoldReplicaOptions { replica: eager(), maps: Vec::new() };
    let replica = HoldReplica::connect(&copy, &address, options, ()).unwrap();
    let is_there = |status: &HoldReplicaStatus| {
        let why = one(status, "b").and_then(|map| map.replica.clone()?.last_error);
        one(status, "a").is_some_and(|map| map.caught_up)
            && why.is_some_and(|why| why.contains("cannot serve the map 'b'"))
    };
    assert!(replica.wait(LONG, is_there), "{:?}", replica.status());
    // Room is made: the origin tries again.
    assert!(hold.maps().drop("large").unwrap());
    assert!(replica.wait_ready(LONG), "{:?}", replica.status());
}

/// The replica's hold is served in its turn.
#[test]
fn a_hold_of_replicas_is_served_to_further_replicas() {
    let shop = Shop::new(&["apples", "pears"]);
    let between = shop.copy_hold();
    let first = shop.follow();
    let options = HoldOriginOptions { origin: small_streams(), maps: Vec::new() };
    let relay = HoldOrigin::start(&between, options).unwrap();
    let address = relay.listen(&Address::Unix(shop.test_dir.path("relay"))).unwrap();
    let last = Hold::create(shop.test_dir.path("last.hold")).unwrap();
    let options = HoldReplicaOptions { replica: eager(), maps: Vec::new() };
    let replica = HoldReplica::connect(&last, &address, options, ()).unwrap();
    is(&replica, "pears", FollowState::Followed);
    shop.map("plums");
    is(&replica, "plums", FollowState::Followed);
    shop.hold.maps().open("apples").unwrap().set("later", "1").unwrap();
    for name in ["apples", "pears", "plums"] {
        let map = shop.hold.maps().open(name).unwrap();
        let is_same = || last.maps().open(name).is_ok_and(|copy| pairs(&copy) == pairs(&map));
        until(&format!("the last copy of {name} agrees"), is_same);
    }
    drop((first, relay));
}

#[test]
fn an_origin_that_ends_sends_everything_first() {
    let mut shop = Shop::new(&["apples", "pears"]);
    let replica = shop.follow();
    assert!(replica.wait_ready(LONG), "{:?}", replica.status());
    for number in 0..2000u32 {
        for map in ["apples", "pears"] {
            shop.hold.maps().open(map).unwrap().set(number.to_le_bytes(), "it").unwrap();
        }
    }
    shop.origin.take().unwrap().finish(LONG);
    let copy = shop.copy_hold();
    for map in ["apples", "pears"] {
        let (map, copy) = (shop.hold.maps().open(map).unwrap(), copy.maps().open(map).unwrap());
        assert_eq!(pairs(&copy), pairs(&map));
    }
    let Address::Unix(path) = &shop.address else { panic!("a path") };
    assert!(!path.exists());
}
