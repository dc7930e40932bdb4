//! Slow clients are disconnected, excess clients wait, and clients that left leave nothing behind.

use super::client::{Client, get, request};
use super::people::wander;
use super::site::{HUGE, Site, bytes};
use super::{Choices, Naming, Served};
use commonhold_files::Patience;
use commonhold_testing::alone::alone;
use commonhold_testing::support::process::until;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

const MOMENT: Duration = Duration::from_millis(300);
/// Longer than any of these tests takes.
const LONG: Duration = Duration::from_secs(600);

fn patience(change: impl FnOnce(&mut Patience)) -> Patience {
    let [head, idle, idle_if_full, send] = [LONG; 4];
    let mut patience = Patience { head, idle, idle_if_full, send, close: MOMENT };
    change(&mut patience);
    patience
}

#[test]
fn a_head_has_to_come_in_time() {
    let site = Site::new();
    for choices in Choices::some() {
        let _naming = Naming::new(choices);
        let served = Served::new(choices, &site.place(choices.is_database()), |options| {
            options.patience = patience(|patience| patience.head = MOMENT);
        });
        let address = served.address;
        // Nothing; part of an id; a byte now and then; the same behind a request that was answered.
        let mut silent = Client::to(address);
        let mut half = Client::to(address);
        half.say("one.t");
        let mut drips: Vec<Client> = (0..8).map(|_| Client::to(address)).collect();
        drips.iter_mut().for_each(|client| client.say("GET /one.txt HTTP/1.1\r\nA: "));
        for client in &mut drips[4..] {
            client.say("b\r\nHost: test\r\n\r\n");
            assert_eq!(client.answer(false).status, 200);
            client.say("GET /one.txt HTTP/1.1\r\nA: ");
        }
        let good = thread::spawn(move || wander(address, 1, 100));
        for mut client in drips {
            let mut hands = client.stream.try_clone().unwrap();
            let drip = thread::spawn(move || {
                use std::io::Write;
                while hands.write_all(b"b").is_ok() {
                    thread::sleep(Duration::from_millis(10));
                }
            });
            let answer = client.answer(false);
            assert_eq!((answer.status, answer.field("Connection")), (408, Some("close")));
            client.is_over();
            drop(client);
            drip.join().unwrap();
        }
        silent.is_over();
        half.is_over();
        good.join().unwrap();
        served.finish();
    }
}

#[test]
fn idle_clients_are_disconnected() {
    let site = Site::new();
    for choices in Choices::some() {
        let _naming = Naming::new(choices);
        let served = Served::new(choices, &site.place(choices.is_database()), |options| {
            options.patience =
                patience(|patience| (patience.send, patience.idle) = (MOMENT, MOMENT));
        });
        let mut deaf = Client::narrow(served.address);
        deaf.say(request("GET", "/huge.bin", ""));
        let mut idle = Client::to(served.address);
        assert_eq!(idle.get("/one.txt").status, 200);
        let mut lingering = Client::to(served.address);
        assert_eq!(lingering.ask("GET", "/one.txt", "Connection: close\r\n").status, 200);
        idle.is_over();
        lingering.is_over();
        // It has closed completely, and later bytes are refused.
        until("it is closed", || !lingering.try_say(b"GET"));
        until("it is closed, too", || !deaf.try_say(b"G"));
        let heard = deaf.rest().len();
        assert!(heard < HUGE, "{heard}");
        served.finish();
    }
}

/// The connection that has been idle the longest is closed long before its time limit.
#[test]
fn idle_clients_make_room_for_others() {
    let site = Site::new();
    for choices in Choices::some() {
        let _naming = Naming::new(choices);
        let served = Served::new(choices, &site.place(choices.is_database()), |options| {
            (options.most_connections, options.threads) = (2, 1);
            options.patience = patience(|patience| patience.idle_if_full = MOMENT);
        });
        let mut idle = [Client::to(served.address), Client::to(served.address)];
        idle.iter_mut().for_each(|client| assert_eq!(client.get("/one.txt").status, 200));
        let mut third = Client::to(served.address);
        assert_eq!(third.get("/ten.txt").body, bytes(b"ten.txt", 10));
        idle[0].is_over();
        served.finish();
    }
}

#[test]
fn one_too_many_waits() {
    let site = Site::new();
    for choices in Choices::some() {
        let _naming = Naming::new(choices);
        let served = Served::new(choices, &site.place(choices.is_database()), |options| {
            (options.most_connections, options.threads) = (2, 1);
            options.patience = patience(|_| ());
        });
        for _ in 0..3 {
            let mut two = [Client::to(served.address), Client::to(served.address)];
            for _ in 0..3 {
                two.iter_mut().for_each(|client| assert_eq!(client.get("/one.txt").status, 200));
            }
            let mut more: Vec<_> = (0..4).map(|_| Client::to(served.address)).collect();
            more.iter_mut().for_each(|client| client.say(request("GET", "/ten.txt", "")));
            for _ in 0..20 {
                two.iter_mut().for_each(|client| assert_eq!(client.get("/one.txt").status, 200));
            }
            for client in &more {
                client.stream.set_nonblocking(true).unwrap();
                let heard = client.stream.peek(&mut [0]);
                assert!(heard.is_err(), "it is served, though there are two already");
                client.stream.set_nonblocking(false).unwrap();
            }
            // A client that leaves makes room for another, in whatever way it leaves.
            let [first, second] = two;
            first.reset();
            drop(second);
            for mut client in more {
                assert_eq!(client.answer(false).body, bytes(b"ten.txt", 10));
            }
        }
        assert_eq!(get(served.address, "/one.txt").status, 200);
        served.finish();
    }
}

#[test]
fn an_address_has_so_many_connections_and_no_more() {
    let site = Site::new();
    for choices in Choices::some() {
        let _naming = Naming::new(choices);
        let said = Arc::new(Mutex::new(Vec::new()));
        let ear = Arc::clone(&said);
        let served = Served::new(choices, &site.place(choices.is_database()), |options| {
            options.per_address = Some(2);
            options.notice = Some(Arc::new(move |text| ear.lock().unwrap().push(text.to_owned())));
        });
        let address = served.address;
        let mut two = [Client::to(address), Client::to(address)];
        two.iter_mut().for_each(|client| assert_eq!(client.get("/one.txt").status, 200));
        assert!(said.lock().unwrap().is_empty());
        // A byte at a time, so that it is not refused before the request.
        let mut third = Client::to(address);
        for byte in request("GET", "/ten.txt", "").as_bytes() {
            third.say([*byte]);
        }
        let answer = third.answer(false);
        assert_eq!((answer.status, answer.field("Retry-After")), (503, Some("1")));
        assert_eq!(answer.field("Connection"), Some("close"));
        third.is_over();
        drop(third);
        let mut simple = Client::to(address);
        simple.say("ten.txt\n");
        assert_eq!(simple.rest_of_reset(), b"");
        // One that sends nothing leaves soon, and one beyond those that get an answer at once.
        let mut silent: Vec<_> = (0..3).map(|_| Client::to(address)).collect();
        silent.iter_mut().for_each(|client| assert_eq!(client.rest(), b""));
        // Another address has connections of its own.
        let mut other = Client::from([127, 0, 0, 2].into(), address);
        assert_eq!(other.get("/ten.txt").body, bytes(b"ten.txt", 10));
        two.iter_mut().for_each(|client| assert_eq!(client.get("/one.txt").status, 200));
        let [first, second] = two;
        first.reset();
        drop(second);
        until("there is room again", || {
            let mut client = Client::to(address);
            let is_said = client.try_say(request("GET", "/one.txt", "").as_bytes());
            is_said && client.head().is_some_and(|answer| answer.status == 200)
        });
        let said = said.lock().unwrap();
        let [line] = &said[..] else { panic!("{said:?}") };
        assert!(line.starts_with("127.0.0.1 already has 2 connections"), "{line}");
        drop(said);
        served.finish();
    }
}

/// The last answer of a connection announces its end. Together, the answers exceed all buffers.
#[test]
fn a_server_that_drains_announces_the_end() {
    let site = Site::new();
    for choices in Choices::some() {
        let _naming = Naming::new(choices);
        let served = Served::new(choices, &site.place(choices.is_database()), |_| ());
        let mut client = Client::narrow(served.address);
        client.say(request("GET", "/huge.bin", "").repeat(32));
        let mut answer = client.head().expect("an answer");
        let server = served.server.as_ref().unwrap();
        server.drain();
        answer.body = client.take(HUGE);
        while answer.field("Connection").is_none() {
            assert!(answer.body == bytes(b"huge.bin", HUGE));
            answer = client.answer(false);
        }
        assert_eq!(answer.field("Connection"), Some("close"));
        assert!(answer.body == bytes(b"huge.bin", HUGE));
        client.is_over();
        until("its threads have ended", || server.has_ended());
    }
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn nothing_is_left_of_closed_connections() {
    alone("server::limits::nothing_is_left_of_closed_connections", || {
        let site = Site::new();
        for choices in Choices::some() {
            let _naming = Naming::new(choices);
            let before = descriptors();
            let served = Served::new(choices, &site.place(choices.is_database()), |_| ());
            wander(served.address, 1, 30);
            let mut running = 0;
            until("everything is as it was", || {
                let last = std::mem::replace(&mut running, descriptors());
                thread::sleep(Duration::from_millis(5));
                last == running
            });
            for turn in 0..200 {
                let mut client = Client::narrow(served.address);
                match turn % 5 {
                    0 => client.say("GET /huge.bin HTTP/1.1\r\nHost"),
                    1 => client.say("huge.bin"),
                    2 => client.say("huge.bin\n"),
                    3 => drop(client.get("/large.bin")),
                    _ => client.say(request("GET", "/huge.bin", "").repeat(4)),
                }
                if turn % 2 == 0 {
                    client.reset();
                }
            }
            until("their descriptors are closed", || descriptors() <= running);
            assert_eq!(get(served.address, "/one.txt").status, 200);
            served.finish();
            until("all descriptors are closed", || descriptors() <= before);
        }
    });
}

/// Longer than the clock can tell.
#[test]
fn peers_may_have_all_the_time_there_is() {
    let site = Site::new();
    for choices in Choices::some() {
        let _naming = Naming::new(choices);
        let served = Served::new(choices, &site.place(choices.is_database()), |options| {
            let [head, idle, idle_if_full, send, close] = [Duration::MAX; 5];
            options.patience = Patience { head, idle, idle_if_full, send, close };
            options.fresh = Duration::MAX;
        });
        let mut client = Client::to(served.address);
        client.say("GET /one.txt HTTP/1.1\r\nHost: test\r\n\r\n");
        assert_eq!(client.answer(false).status, 200);
        drop(client);
        served.finish_in(Duration::MAX);
    }
}
