//! A thousand connections, files of a gibibyte, files that change while they are sent.

use super::client::{Client, get, request};
use super::site::{LARGE, Site, bytes, database};
use super::{Choices, Naming, Served};
use commonhold_files::LayoutKind;
use commonhold_files::store::{CacheKind, EvictionKind};
use commonhold_testing::alone::alone;
use commonhold_testing::support::test_dir::TestDir;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

const CROWD: usize = 1000;

#[test]
fn a_thousand_connections_at_once() {
    alone("server::many::a_thousand_connections_at_once", || {
        let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        assert!(most > 2500, "there may be {most} descriptors here");
        setrlimit(Resource::RLIMIT_NOFILE, most, most).unwrap();
        let (site, ten, large) = (Site::new(), bytes(b"ten.txt", 10), bytes(b"large.bin", LARGE));
        let some = Choices::some();
        for choices in Choices::all() {
            let _naming = Naming::new(choices);
            let served = Served::new(choices, &site.place(choices.is_database()), |_| ());
            let mut crowd: Vec<_> = (0..CROWD).map(|_| Client::to(served.address)).collect();
            // No client has sent a request until all have begun to.
            crowd.iter_mut().for_each(|client| client.say("GET /ten.txt HTTP/1.1\r\nHo"));
            crowd.iter_mut().for_each(|client| client.say("st: test\r\n\r\n"));
            crowd.iter_mut().for_each(|client| assert!(client.answer(false).body == ten));
            if some.contains(&choices) {
                // No client reads until all have sent a request.
                crowd.iter_mut().for_each(|client| client.say(request("GET", "/large.bin", "")));
                for client in &mut crowd {
                    assert!(client.answer(false).body == large);
                }
            }
            drop(crowd);
            served.finish();
        }
    });
}

const CHUNK: usize = 1 << 20;
/// A mark in every chunk of this many.
const MARKS: u64 = 16;

/// Makes a file of zeros, with a mark here and there, and a last byte.
fn make_sparse(path: &Path, len: u64) {
    let file = File::create(path).unwrap();
    file.set_len(len).unwrap();
    for chunk in (0..len / CHUNK as u64).step_by(MARKS as usize) {
        file.write_all_at(&(chunk + 1).to_le_bytes(), chunk * CHUNK as u64).unwrap();
    }
    file.write_all_at(&[0xff], len - 1).unwrap();
}

/// The contents of a chunk of such a file.
fn sparse_chunk(chunk: u64, len: u64) -> Vec<u8> {
    let mut bytes = vec![0; CHUNK];
    if chunk.is_multiple_of(MARKS) {
        bytes[..8].copy_from_slice(&(chunk + 1).to_le_bytes());
    }
    if (chunk + 1) * CHUNK as u64 == len {
        bytes[CHUNK - 1] = 0xff;
    }
    bytes
}

/// Reads all of it, and has no more than a chunk in memory.
fn is_sparse(served: &Served, len: u64) {
    let mut client = Client::to(served.address);
    client.say(request("GET", "/sparse.bin", ""));
    let head = client.head().expect("an answer");
    assert_eq!((head.status, head.len() as u64), (200, len));
    for chunk in 0..len / CHUNK as u64 {
        assert!(client.take(CHUNK) == sparse_chunk(chunk, len), "chunk {chunk}");
    }
    // The connection continues.
    let last = client.ask("GET", "/sparse.bin", "Range: bytes=-1\r\n");
    assert_eq!((last.status, &*last.body), (206, &[0xff][..]));
    let mark = (len / 2).next_multiple_of(CHUNK as u64 * MARKS);
    let range = format!("Range: bytes={mark}-{}\r\n", mark + 7);
    let mark = client.ask("GET", "/sparse.bin", &range);
    assert_eq!(mark.body, (len / 2 / CHUNK as u64 + 1).to_le_bytes());
}

#[test]
fn a_file_of_a_gibibyte() {
    let (test_dir, len) = (TestDir::memory(), 1 << 30);
    fs::create_dir(test_dir.path("root")).unwrap();
    make_sparse(&test_dir.path("root/sparse.bin"), len);
    // So large a file is never kept: the caches do not differ.
    let kept = (CacheKind::Hold, EvictionKind::Lockfree);
    let is_one =
        |choices: &Choices| !choices.is_database() && (choices.cache, choices.eviction) == kept;
    for choices in Choices::all().filter(is_one) {
        let _naming = Naming::new(choices);
        let served = Served::new(choices, &test_dir.path("root"), |_| ());
        is_sparse(&served, len);
        served.finish();
    }
}

/// A database has all bytes, zeros too, in chunks that are read one after the other whatever their
/// number: 64 MiB are 256.
#[test]
fn a_large_file_of_a_database() {
    let (test_dir, len) = (TestDir::memory(), 64 << 20);
    fs::create_dir(test_dir.path("root")).unwrap();
    make_sparse(&test_dir.path("root/sparse.bin"), len);
    database(&test_dir.path("root"), LayoutKind::Tree, &test_dir.path("it.db"));
    for choices in Choices::some().into_iter().filter(|choices| choices.is_database()) {
        let _naming = Naming::new(choices);
        let served = Served::new(choices, &test_dir.path("it.db"), |_| ());
        is_sparse(&served, len);
        served.finish();
    }
}

/// In the simple protocol, the end of the stream would be the end of the contents.
#[test]
fn a_server_that_ends_at_once_resets_simple_clients() {
    let test_dir = TestDir::memory();
    fs::create_dir(test_dir.path("root")).unwrap();
    make_sparse(&test_dir.path("root/sparse.bin"), 64 << 20);
    import(&test_dir);
    for choices in Choices::some() {
        let _naming = Naming::new(choices);
        let place = test_dir.path(if choices.is_database() { "it.db" } else { "root" });
        let served = Served::new(choices, &place, |_| ());
        let mut client = Client::narrow(served.address);
        client.say("sparse.bin\n");
        assert_eq!(client.take(1000).len(), 1000);
        drop(served);
        client.rest_of_reset();
    }
}

const BEFORE: usize = 8 << 20;
const AFTER: usize = 100_000;

/// A file that becomes shorter while it is being sent.
#[test]
fn a_file_that_shrinks_meanwhile_ends_the_connection() {
    for choices in Choices::of_directories() {
        let changed = Changed::new(choices);
        let after = &changed.before[..AFTER];
        for mut client in changed.while_sent(after, |path, _| {
            File::options().write(true).open(path).unwrap().set_len(AFTER as u64).unwrap();
        }) {
            // The received bytes are the old ones; no others come.
            let heard = client.rest_of_reset();
            let len = heard.len().min(AFTER);
            assert!(heard.len() < BEFORE, "it got all");
            assert!(heard[..len] == after[..len]);
        }
        changed.served.finish();
    }
}

/// A file that is written to while it is being sent, and has other contents of the same length
/// then.
#[test]
fn a_file_rewritten_meanwhile_ends_the_connection() {
    for choices in Choices::of_directories() {
        let (changed, after) = (Changed::new(choices), bytes(b"other", BEFORE));
        for mut client in changed.while_sent(&after, |path, _| {
            File::options().write(true).open(path).unwrap().write_all_at(&after, 0).unwrap();
        }) {
            assert!(client.rest_of_reset().len() < BEFORE, "it got all");
        }
        changed.served.finish();
    }
}

/// A file that is replaced, or its whole database, is sent to its end to every client that has
/// begun.
#[test]
fn a_file_replaced_meanwhile_is_sent_to_the_end() {
    for choices in Choices::some() {
        let changed = Changed::new(choices);
        let after = &changed.before[..AFTER];
        for mut client in changed.while_sent(after, |path, root| {
            fs::write(root.join("new"), after).unwrap();
            fs::rename(root.join("new"), path).unwrap();
        }) {
            let heard = client.rest();
            assert!(heard == changed.before, "{} bytes", heard.len());
        }
        changed.served.finish();
    }
}

/// A server of a large file, which changes.
struct Changed {
    test_dir: TestDir,
    served: Served,
    before: Vec<u8>,
    _naming: Naming,
}

impl Changed {
    fn new(choices: Choices) -> Changed {
        let (naming, test_dir) = (Naming::new(choices), TestDir::memory());
        let before = bytes(b"it.bin", BEFORE);
        fs::create_dir(test_dir.path("root")).unwrap();
        fs::write(test_dir.path("root/it.bin"), &before).unwrap();
        import(&test_dir);
        let place = test_dir.path(if choices.is_database() { "it.db" } else { "root" });
        let served = Served::new(choices, &place, |options| options.fresh = Duration::ZERO);
        Changed { test_dir, served, before, _naming: naming }
    }

    /// Clients, and while their answers are in flight the file is changed to `after`, then its
    /// database; the bytes that they have read of the file are put back.
    fn while_sent(&self, after: &[u8], change: impl FnOnce(&Path, &Path)) -> Vec<Client> {
        let mut clients: Vec<_> = (0..6).map(|_| Client::narrow(self.served.address)).collect();
        let (some, others) = clients.split_at_mut(3);
        some.iter_mut()
            .for_each(|client| client.say(request("GET", "/it.bin", "Connection: close\r\n")));
        others.iter_mut().for_each(|client| client.say("it.bin\n"));
        for client in some {
            assert_eq!(client.head().expect("an answer").len(), BEFORE);
        }
        let begun: Vec<_> = clients.iter_mut().map(|client| client.take(10_000)).collect();
        change(&self.test_dir.path("root/it.bin"), &self.test_dir.path("root"));
        import(&self.test_dir);
        // A client that asks now gets the present contents.
        for _ in 0..20 {
            let answer = get(self.served.address, "/it.bin");
            assert!(answer.status == 200 && answer.body == after);
        }
        clients.iter_mut().zip(begun).for_each(|(client, begun)| client.put_back(begun));
        clients
    }
}

fn import(test_dir: &TestDir) {
    database(&test_dir.path("root"), LayoutKind::Tree, &test_dir.path("it.db"));
}
