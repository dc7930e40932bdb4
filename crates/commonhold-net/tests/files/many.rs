//! A thousand connections, files of a gibibyte, files that shrink while they are sent.

use super::client::{Client, get, request};
use super::site::{LARGE, Site, bytes, database};
use super::{Choices, Naming, Served};
use crate::hostile::alone;
use crate::support::ground::Ground;
use commonhold_net::event::LoopKind;
use commonhold_net::files::{LayoutKind, SourceKind};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

const CROWD: usize = 1000;

#[test]
fn a_thousand_connections_at_once() {
    alone("files::many::a_thousand_connections_at_once", || {
        let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        assert!(most > 2500, "there may be {most} descriptors here");
        setrlimit(Resource::RLIMIT_NOFILE, most, most).unwrap();
        let (site, ten, large) = (Site::new(), bytes(b"ten.txt", 10), bytes(b"large.bin", LARGE));
        for choices in Choices::some() {
            let _naming = Naming::new(choices);
            let served = Served::new(choices, &site.place(choices.is_database()), |_| ());
            let mut crowd: Vec<_> = (0..CROWD).map(|_| Client::to(served.address)).collect();
            // Nobody has asked for anything until all have begun to.
            crowd.iter_mut().for_each(|client| client.say("GET /ten.txt HTTP/1.1\r\nHo"));
            crowd.iter_mut().for_each(|client| client.say("st: test\r\n\r\n"));
            crowd.iter_mut().for_each(|client| assert!(client.answer(false).body == ten));
            // Nobody reads until all have asked.
            crowd.iter_mut().for_each(|client| client.say(request("GET", "/large.bin", "")));
            for client in &mut crowd {
                assert!(client.answer(false).body == large);
            }
            drop(crowd);
            served.finish();
        }
    });
}

const CHUNK: usize = 1 << 20;
/// A mark in so many chunks.
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

/// What is in a chunk of such a file.
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
    // The connection goes on.
    let last = client.ask("GET", "/sparse.bin", "Range: bytes=-1\r\n");
    assert_eq!((last.status, &*last.body), (206, &[0xff][..]));
    let mark = (len / 2).next_multiple_of(CHUNK as u64 * MARKS);
    let range = format!("Range: bytes={mark}-{}\r\n", mark + 7);
    let mark = client.ask("GET", "/sparse.bin", &range);
    assert_eq!(mark.body, (len / 2 / CHUNK as u64 + 1).to_le_bytes());
}

#[test]
fn a_file_of_a_gibibyte() {
    let (ground, len) = (Ground::memory(), 1 << 30);
    fs::create_dir(ground.path("root")).unwrap();
    make_sparse(&ground.path("root/sparse.bin"), len);
    for choices in Choices::of_directories() {
        let _naming = Naming::new(choices);
        let served = Served::new(choices, &ground.path("root"), |_| ());
        is_sparse(&served, len);
        served.finish();
    }
}

/// A database has all bytes, zeros too, in chunks that are read one after the other whatever their number: 64 MiB are 256.
#[test]
fn a_large_file_of_a_database() {
    let (ground, len) = (Ground::memory(), 64 << 20);
    fs::create_dir(ground.path("root")).unwrap();
    make_sparse(&ground.path("root/sparse.bin"), len);
    database(&ground.path("root"), LayoutKind::Tree, &ground.path("it.db"));
    for choices in Choices::some().into_iter().filter(|choices| choices.is_database()) {
        let _naming = Naming::new(choices);
        let served = Served::new(choices, &ground.path("it.db"), |_| ());
        is_sparse(&served, len);
        served.finish();
    }
}

const BEFORE: usize = 8 << 20;
const AFTER: usize = 100_000;

/// A file that becomes shorter, and its database that is replaced, while the file is being sent.
#[test]
fn what_shrinks_while_it_is_sent_ends_the_connection() {
    for kind in LoopKind::ALL {
        for choices in Choices::some().into_iter().filter(|choices| choices.kind == kind) {
            let _naming = Naming::new(choices);
            let ground = Ground::memory();
            let (root, path) = (ground.path("root"), ground.path("root/it.bin"));
            let before = bytes(b"it.bin", BEFORE);
            fs::create_dir(&root).unwrap();
            fs::write(&path, &before).unwrap();
            let replace = || database(&root, LayoutKind::Tree, &ground.path("it.db"));
            replace();
            let is_database = choices.source == SourceKind::Sqlite;
            let place = ground.path(if is_database { "it.db" } else { "root" });
            let served =
                Served::new(choices, &place, |options| options.fresh = std::time::Duration::ZERO);

            let mut clients: Vec<_> = (0..6).map(|_| Client::narrow(served.address)).collect();
            let (some, others) = clients.split_at_mut(3);
            some.iter_mut().for_each(|client| client.say(request("GET", "/it.bin", "")));
            others.iter_mut().for_each(|client| client.say("it.bin\n"));
            for client in some {
                assert_eq!(client.head().expect("an answer").len(), BEFORE);
            }
            let heard: Vec<_> = clients.iter_mut().map(|client| client.take(10_000)).collect();
            File::options().write(true).open(&path).unwrap().set_len(AFTER as u64).unwrap();
            replace();
            // Both threads look at what there is now.
            for _ in 0..20 {
                let answer = get(served.address, "/it.bin");
                assert!(answer.status == 200 && answer.body == before[..AFTER]);
            }
            for (client, mut heard) in clients.iter_mut().zip(heard) {
                heard.extend(client.rest());
                // What was on its way already may come still; nothing else.
                assert!(heard.len() < BEFORE, "it got all");
                assert!(is_database || heard[..AFTER] == before[..AFTER]);
                assert!(!is_database || before.starts_with(&heard));
            }
            drop(clients);
            served.finish();
        }
    }
}
