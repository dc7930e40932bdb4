//! Several clients at once, and clients that do not behave.

use super::client::{Client, get, request, simple, target};
use super::every::Stage;
use super::site::{FILES, HUGE, bytes};
use commonhold_testing::support::Dice;
use std::net::SocketAddr;
use std::thread;

/// Requests one file after the other, in several ways; checks every byte.
pub fn wander(address: SocketAddr, seed: u64, turns: usize) {
    let mut dice = Dice::new(seed);
    let mut client = Client::to(address);
    for _ in 0..turns {
        let (name, len) = FILES[dice.below(FILES.len() as u64) as usize];
        let (all, target) = (bytes(name, len), target(name));
        match dice.below(8) {
            0 => assert!(simple(address, &[name, b"\n"].concat()) == all, "{target}"),
            1 => {
                client = Client::to(address);
                let last = client.ask("GET", &target, "Connection: close\r\n");
                assert!(last.body == all, "{target}");
                client.is_over();
                client = Client::to(address);
            }
            2 if len > 0 => {
                let start = dice.below(len as u64) as usize;
                let answer = client.ask("GET", &target, &format!("Range: bytes={start}-\r\n"));
                assert!(answer.status == 206 && answer.body == all[start..], "{target} {start}");
            }
            3 => assert_eq!(client.get("/absent").status, 404),
            4 => assert_eq!(client.ask("HEAD", &target, "").len(), len),
            _ => assert!(client.get(&target).body == all, "{target}"),
        }
    }
}

/// Some request a lot and leave, at any moment.
fn be_rude(address: SocketAddr, seed: u64) {
    let mut dice = Dice::new(seed);
    for turn in 0..12 {
        let mut client = Client::narrow(address);
        match turn % 3 {
            0 => client.say(request("GET", "/huge.bin", "").repeat(3)),
            1 => client.say("huge.bin\n"),
            _ => client.say("GET /huge.bin HTTP/1.1\r\nHost:"),
        }
        if turn % 3 < 2 {
            client.take(dice.below(100_000) as usize);
        }
        match dice.below(2) {
            0 => client.reset(),
            _ => drop(client),
        }
    }
}

/// Reads a little at a time.
fn read_slowly(address: SocketAddr) {
    let mut client = Client::narrow(address);
    client.say(request("GET", "/huge.bin", "Connection: close\r\n"));
    let mut all = client.head().expect("an answer");
    while all.body.len() < HUGE {
        let part = client.take(50_000.min(HUGE - all.body.len()));
        assert!(!part.is_empty(), "it ended after {}", all.body.len());
        all.body.extend(part);
        thread::yield_now();
    }
    assert!(all.body == bytes(b"huge.bin", HUGE));
    client.is_over();
}

pub fn the_rude_the_slow_and_the_others(stage: &Stage) {
    let address = stage.address;
    thread::scope(|scope| {
        scope.spawn(|| read_slowly(address));
        scope.spawn(|| be_rude(address, 1));
        for seed in 0..3 {
            scope.spawn(move || wander(address, seed, 15));
        }
    });
    assert_eq!(get(address, "/one.txt").status, 200);
}
