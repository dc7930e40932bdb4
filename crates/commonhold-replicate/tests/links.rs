//! The same stream over every kind of connection: local ones, one that delays, cuts and breaks its
//! bytes, and a network that delays and loses packets.
//!
//! | connection | made of |
//! |---|---|
//! | unix sockets, TCP | the system's |
//! | [`proxy`] | a process in between: random small pieces, some late, and broken connections |
//! | [`wire`] | two network namespaces and a tunnel that delays every packet and loses some |

pub mod proxy;
mod wire;

use crate::cast::{Play, scribble, word};
use crate::stairs;
use commonhold::map::MapOptions;
use commonhold_io::address::Address;
use commonhold_io::sockets::LoopKind;
use commonhold_testing::support::Dice;
use commonhold_testing::support::process::{Child, pause, until};
use proxy::Manners;

const ORIGIN: usize = 0;
const WRITER: usize = 1;
/// The first of several.
const REPLICA: usize = 2;

fn writer(play: &Play) -> Child {
    let mut dice = Dice::new(3);
    play.writer(WRITER, move |map, _| (0..20).for_each(|_| scribble(map, &mut dice, 1000)))
}

fn await_ready(play: &Play, actors: std::ops::Range<usize>, children: &[Child]) {
    let ready = |actor| play.row(actor).get(word::READY) == 1;
    until("all are ready", || actors.clone().all(ready) || children.iter().any(Child::is_gone));
}

#[test]
fn unix_sockets_and_tcp_carry_the_same() {
    for kind in LoopKind::ALL {
        let play = Play::new(MapOptions::general(), REPLICA + 4);
        let unix = play.address.clone();
        let doors = [unix.clone(), Address::Tcp("127.0.0.1".into(), 0)];
        let origin = play.origin_at(ORIGIN, &doors, |options| options.kind = kind);
        let tcp = Address::Tcp("127.0.0.1".into(), play.row(ORIGIN).get(word::PORT) as u16);
        let writer = writer(&play);
        let from = [&unix, &tcp, &unix, &tcp];
        let all = REPLICA..REPLICA + from.len();
        let replicas: Vec<Child> = all.clone().zip(from).map(|(n, a)| play.replica(n, a)).collect();
        await_ready(&play, all.clone(), &replicas);
        // All of them are on this machine.
        all.for_each(|actor| assert_eq!(play.row(actor).get(word::PACKED), 0));
        play.row(WRITER).goes_on("the writer goes on", 200, &writer);
        play.finish([writer], replicas, [origin]);
    }
}

/// Replicas of which each has a proxy of its own manners.
fn through_proxies(manners: &[Manners]) {
    let play = Play::new(MapOptions::general(), REPLICA + manners.len());
    stairs::fill(&play.map, 1000, 50);
    let origin = play.origin(ORIGIN, |_| ());
    let all = REPLICA..REPLICA + manners.len();
    let doors: Vec<Address> = all.clone().map(|n| play.relay_address(n)).collect();
    let between = |(door, manners): (&Address, &Manners)| manners.stand(door, &play.address);
    let proxies: Vec<Child> = doors.iter().zip(manners).map(between).collect();
    let replicas: Vec<Child> = all.clone().zip(&doors).map(|(n, a)| play.replica(n, a)).collect();
    await_ready(&play, all.clone(), &replicas);
    let writer = play.writer(WRITER, |map, _| {
        stairs::climb(map);
        pause();
    });
    play.row(WRITER).goes_on("the writer goes on", 2000, &writer);
    for (actor, manners) in all.zip(manners) {
        let breaks = || play.row(actor).get(word::CONNECTIONS) > 3 || !manners.breaks();
        until("connections have broken", || breaks() || replicas.iter().any(Child::is_gone));
    }
    play.finish([writer], replicas, [origin]);
    drop(proxies);
}

#[test]
fn a_proxy_that_cuts_delays_and_breaks_off_changes_nothing() {
    through_proxies(&[
        Manners { seed: 1, largest_piece: 40, late_one_in: 0, longest_life: 0 },
        Manners { seed: 2, largest_piece: 700, late_one_in: 20, longest_life: 0 },
        Manners { seed: 3, largest_piece: 5000, late_one_in: 50, longest_life: 300_000 },
        Manners { seed: 4, largest_piece: 60_000, late_one_in: 0, longest_life: 400_000 },
    ]);
}

#[test]
fn a_network_that_delays_and_loses_changes_nothing() {
    let play = Play::new(MapOptions::general(), REPLICA + 2);
    if let Err(why) = wire::is_possible(play.test_dir.dir()) {
        eprintln!("a network that loses cannot be made here: {why}; the proxies have to do");
        return;
    }
    stairs::fill(&play.map, 500, 50);
    let wires = [1, 2].map(|number| wire::wire(play.test_dir.dir(), number));
    let doors = wires.each_ref().map(|[near, _]| Address::Tcp(near.address().into(), 7400));
    let origin = play.origin_at(ORIGIN, &doors, |options| {
        options.allow_unauthenticated = true;
        wire::leave().unwrap();
        wires.iter().for_each(|[near, _]| near.enter());
    });
    let all = REPLICA..REPLICA + wires.len();
    let reach = |(actor, (door, [_, far])): (usize, (&Address, &[wire::End; 2]))| {
        play.replica_with(actor, door, |_, _| {
            wire::leave().unwrap();
            far.enter();
        })
    };
    let replicas: Vec<Child> = all.clone().zip(doors.iter().zip(&wires)).map(reach).collect();
    await_ready(&play, all.clone(), &replicas);
    // The two ends have different addresses, as two machines have.
    all.for_each(|actor| assert_eq!(play.row(actor).get(word::PACKED), 1));
    let mut dice = Dice::new(3);
    let writer = play.writer(WRITER, move |map, _| {
        scribble(map, &mut dice, 1000);
        pause();
    });
    play.row(WRITER).goes_on("the writer goes on", 2000, &writer);
    play.finish([writer], replicas, [origin]);
}
