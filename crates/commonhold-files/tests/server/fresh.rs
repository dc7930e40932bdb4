//! Files that change or vanish are not served in their old form for longer than promised.

use super::client::{Answer, Client, simple};
use super::site::{database, put};
use super::{Choices, KEPT, Naming, Served};
use commonhold::Hold;
use commonhold_files::LayoutKind;
use commonhold_files::store::{CacheKind, EvictionKind};
use commonhold_testing::support::test_dir::TestDir;
use std::collections::HashMap;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

/// The time after a change until contents are kept again.
const SETTLED: Duration = Duration::from_millis(150);

/// A directory whose files change.
struct Changing {
    test_dir: TestDir,
    is_database: bool,
    /// Entity tags, each with the one body that it is of.
    tags: HashMap<String, Vec<u8>>,
}

impl Changing {
    fn new(is_database: bool) -> Changing {
        let changing = Changing { test_dir: TestDir::memory(), is_database, tags: HashMap::new() };
        // A file is there at any time.
        changing.put("other", 0);
        changing
    }

    fn place(&self) -> PathBuf {
        self.test_dir.path(if self.is_database { "it.db" } else { "root" })
    }

    /// All versions have the same length, and some the same time.
    fn contents(version: u32) -> Vec<u8> {
        format!("version {version:08}").repeat(100).into_bytes()
    }

    fn put(&self, name: &str, version: u32) {
        let root = self.test_dir.path("root");
        put(&root, name.as_bytes(), &Changing::contents(version), 0);
        self.changed();
    }

    /// Another file takes the place of the old one.
    fn replace(&self, name: &str, version: u32) {
        let root = self.test_dir.path("root");
        put(&self.test_dir.path("new"), name.as_bytes(), &Changing::contents(version), 0);
        fs::rename(self.test_dir.path("new").join(name), root.join(name)).unwrap();
        self.changed();
    }

    fn remove(&self, name: &str) {
        fs::remove_file(self.test_dir.path("root").join(name)).unwrap();
        self.changed();
    }

    fn changed(&self) {
        if self.is_database {
            let place = self.test_dir.path("it.db");
            database(&self.test_dir.path("root"), LayoutKind::Tree, &place);
        }
    }

    /// The version that an answer has; `None` if nothing was found.
    #[track_caller]
    fn version(&mut self, answer: &Answer) -> Option<u32> {
        if answer.status == 404 {
            return None;
        }
        assert_eq!(answer.status, 200);
        let etag = answer.field("ETag").unwrap().to_owned();
        let of_tag = self.tags.entry(etag).or_insert_with(|| answer.body.clone());
        assert!(*of_tag == answer.body, "one tag for two bodies");
        Some(version(&answer.body))
    }
}

#[track_caller]
fn version(body: &[u8]) -> u32 {
    let text = std::str::from_utf8(&body[8..16]).unwrap();
    let version = text.parse().unwrap();
    assert!(body == Changing::contents(version), "parts of several versions");
    version
}

/// Enough clients that every thread of a server has some of them.
fn clients(addresses: &[SocketAddr]) -> Vec<Client> {
    addresses.iter().cycle().take(8).map(|&address| Client::to(address)).collect()
}

/// All clients see the version, from now on.
#[track_caller]
fn all_see(changing: &mut Changing, clients: &mut [Client], wanted: Option<u32>) {
    for client in clients.iter_mut() {
        assert_eq!(changing.version(&client.get_after_change("/it")), wanted);
    }
}

/// Changes a file in every way. After each, the old one may be served for `wait`.
fn change(changing: &mut Changing, addresses: &[SocketAddr], wait: Duration) {
    let mut clients = clients(addresses);
    all_see(changing, &mut clients, None);
    for round in 0..12 {
        let version = round + 1;
        match round % 4 {
            0 | 3 => changing.put("it", version),
            _ => changing.replace("it", version),
        }
        sleep(wait);
        all_see(changing, &mut clients, Some(version));
        let address = addresses[round as usize % addresses.len()];
        assert_eq!(self::version(&simple(address, b"it\n")), version);
        // Every other version is kept before it is replaced.
        if round % 2 == 0 {
            sleep(SETTLED);
            all_see(changing, &mut clients, Some(version));
            all_see(changing, &mut clients, Some(version));
        }
        if round % 3 == 2 {
            changing.remove("it");
            sleep(wait);
            all_see(changing, &mut clients, None);
            assert_eq!(simple(address, b"it\n"), [0]);
        }
    }
}

#[test]
fn with_no_time_to_be_stale_nothing_is() {
    for choices in Choices::some() {
        let _naming = Naming::new(choices);
        let mut changing = Changing::new(choices.is_database());
        let served = Served::new(choices, &changing.place(), |options| {
            options.fresh = Duration::ZERO;
        });
        change(&mut changing, &[served.address], Duration::ZERO);
        served.finish();
    }
}

#[test]
fn nothing_is_stale_for_longer_than_is_allowed() {
    const FRESH: Duration = Duration::from_millis(100);
    for choices in Choices::some() {
        let _naming = Naming::new(choices);
        let mut changing = Changing::new(choices.is_database());
        let served = Served::new(choices, &changing.place(), |options| options.fresh = FRESH);
        change(&mut changing, &[served.address], FRESH);
        // Within that time it is the old one or the new one.
        let mut clients = clients(&[served.address]);
        changing.put("it", 100);
        sleep(FRESH);
        all_see(&mut changing, &mut clients, Some(100));
        changing.replace("it", 101);
        for client in &mut clients {
            let seen = changing.version(&client.get_after_change("/it"));
            assert!(matches!(seen, Some(100 | 101)), "{seen:?}");
        }
        served.finish();
    }
}

#[test]
fn servers_that_share_a_cache_see_every_change() {
    let of_holds = |choices: &Choices| choices.cache == CacheKind::Hold;
    for eviction in EvictionKind::ALL {
        for fresh in [Duration::ZERO, Duration::from_millis(100)] {
            let both = Choices::of(commonhold_io::sockets::LoopKind::Epoll);
            let choices = Choices { eviction, ..*both.iter().find(|c| of_holds(c)).unwrap() };
            let _naming = Naming::new((choices, fresh));
            let mut changing = Changing::new(choices.is_database());
            let path = changing.test_dir.path("shared.hold");
            drop(Hold::create(&path).unwrap());
            let server = || {
                Served::with(choices, &changing.place(), TestDir::memory(), |options| {
                    (options.fresh, options.hold) = (fresh, Some(Hold::open(&path).unwrap()));
                })
            };
            let servers = [server(), server()];
            let addresses = servers.each_ref().map(|served| served.address);
            change(&mut changing, &addresses, fresh);
            servers.into_iter().for_each(Served::finish);
            assert!(Hold::open(&path).unwrap().check().unwrap().ok);
        }
    }
}

/// Puts a file of this version into a directory that takes the place of the served one, in one way
/// after the other.
fn replace_directory(changing: &Changing, version: u32) {
    let path = |name| changing.test_dir.path(name);
    let (root, new, newer) = (path("root"), path("new"), path("newer"));
    let build = |place: &Path| put(place, b"it", &Changing::contents(version), 0);
    match version % 4 {
        // A directory that was built under another name takes the place.
        0 => {
            build(&new);
            fs::rename(&root, path("old")).unwrap();
            fs::rename(&new, &root).unwrap();
        }
        // It is removed, then built again.
        1 => {
            fs::remove_dir_all(&root).unwrap();
            build(&root);
        }
        // A link comes, and later leads elsewhere.
        2 => {
            build(&new);
            fs::remove_dir_all(&root).unwrap();
            symlink("new", &root).unwrap();
        }
        _ => {
            build(&newer);
            symlink("newer", path("link")).unwrap();
            fs::rename(path("link"), &root).unwrap();
        }
    }
}

#[test]
fn another_directory_in_the_place_is_noticed() {
    for choices in Choices::of_directories() {
        // Files are kept in memory, and kept open.
        for (fresh, most_kept) in [(Duration::ZERO, KEPT), (Duration::from_millis(100), 0)] {
            let _naming = Naming::new((choices, fresh));
            let mut changing = Changing::new(false);
            let served = Served::new(choices, &changing.place(), |options| {
                (options.fresh, options.most_kept) = (fresh, most_kept);
            });
            let mut clients = clients(&[served.address]);
            all_see(&mut changing, &mut clients, None);
            for version in 0..4 {
                replace_directory(&changing, version);
                sleep(fresh.max(SETTLED));
                all_see(&mut changing, &mut clients, Some(version));
                all_see(&mut changing, &mut clients, Some(version));
                for client in &mut clients {
                    assert_eq!(client.get("/other").status, 404);
                }
            }
            fs::remove_file(changing.test_dir.path("root")).unwrap();
            sleep(fresh);
            // Nothing is there for the moment: the server keeps the old directory.
            all_see(&mut changing, &mut clients, Some(3));
            served.finish();
        }
    }
}

/// Looks are trusted for a minute here; companions seen then may have vanished by now.
#[test]
fn a_coded_file_that_goes_leaves_the_plain_one() {
    for choices in Choices::of_directories() {
        for cache in CacheKind::ALL {
            let choices = Choices { cache, ..choices };
            let _naming = Naming::new(choices);
            let changing = Changing::new(false);
            let root = changing.test_dir.path("root");
            put(&root, b"it", b"plain", 0);
            put(&root, b"it.br", b"coded", 0);
            let served = Served::new(choices, &root, |options| {
                (options.fresh, options.threads) = (Duration::from_secs(60), 1);
            });
            let mut client = Client::to(served.address);
            let mut ask = || {
                let answer = client.ask("GET", "/it", "Accept-Encoding: br\r\n");
                let coding = answer.field("Content-Encoding").map(str::to_owned);
                (answer.status, answer.body, coding)
            };
            let coded = (200, b"coded".to_vec(), Some("br".to_owned()));
            assert_eq!(ask(), coded);
            fs::remove_file(root.join("it.br")).unwrap();
            let answer = ask();
            assert!(answer == coded || answer == (200, b"plain".to_vec(), None), "{answer:?}");
            // A file that vanishes is missing, or served in its old form.
            fs::remove_file(root.join("it")).unwrap();
            let (status, body, _) = ask();
            assert!(status == 404 || (status == 200 && body != b"Not Found"), "{status}");
            served.finish();
        }
    }
}
