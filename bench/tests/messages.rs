//! Every rival that passes messages delivers them, intact and in order: one story for each
//! workload, run with each of its rivals in one thread, so that a failure names the wrong call.
//! `run.rs` tests many workers at once, and checks every message as well.

use std::{fs, path::Path};

use commonhold_bench::{
    messages::Port,
    rival::{Order, Shape},
    rivals,
    site::Site,
    workloads::{
        self,
        log::{self as lines, Line},
        message::untimed as message,
        queue::ELEMENTS,
        replicate::FOLLOWERS,
        tally::Tally,
    },
};

use crate::absent;

fn shape(workload: &str) -> Shape {
    let asked = Shape {
        workers: 2,
        keys: 300,
        order: Order::Own,
        fixed: false,
        in_file: false,
        latency: false,
        loads: Vec::new(),
    };
    workloads::named(workload).unwrap().shape(asked)
}

/// Opens all ends and lets `story` use them, with the rival's directory.
fn with(name: &str, workload: &str, story: impl FnOnce(&mut [Box<dyn Port>], &Path)) {
    let rival = rivals::carrier(name, workload).unwrap();
    if let Some(why) = rival.missing() {
        return absent::tell(&format!("{name}: {why}"));
    }
    let mut site = Site::new(Path::new("/dev/shm")).unwrap();
    let place = site.fresh().unwrap();
    let shape = shape(workload);
    let server = rival.prepare(&place, &shape).unwrap();
    let mut ports = rival.open(&place, &shape, 0..shape.workers).unwrap();
    story(&mut ports, &place);
    for port in ports.iter_mut().rev() {
        port.finish().unwrap();
    }
    drop(ports);
    drop(server);
}

/// The messages that arrive until there are `count`.
fn receive(port: &mut dyn Port, count: usize) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    while all.len() < count {
        let most = count - all.len();
        let before = all.len();
        let said = port.receive(most, &mut |bytes| all.push(bytes.to_vec())).unwrap();
        assert!(said > 0 && said <= most && all.len() == before + said, "{said} of {most}");
    }
    all
}

fn messages(numbers: std::ops::Range<u64>) -> Vec<Vec<u8>> {
    numbers.map(|number| message(number).to_vec()).collect()
}

fn channel(name: &str) {
    with(name, "channel", |ports, _| {
        let [one, other] = ports else { panic!("asked for two ends") };
        // A socket has room for only a few hundred messages.
        for number in 0..100 {
            one.send(&message(number)).unwrap();
        }
        assert_eq!(receive(other.as_mut(), 1), messages(0..1));
        assert_eq!(receive(other.as_mut(), 98), messages(1..99));
        other.send(&message(7)).unwrap();
        one.send(&message(100)).unwrap();
        assert_eq!(receive(one.as_mut(), 1), messages(7..8));
        assert_eq!(receive(other.as_mut(), 2), messages(99..101));
    });
}

fn broadcast(name: &str) {
    with(name, "broadcast", |ports, _| {
        let [from, to @ ..] = ports else { panic!("asked for three ends") };
        for number in 0..1000 {
            from.send(&message(number)).unwrap();
        }
        assert_eq!(to.len(), 2);
        for port in to {
            assert_eq!(receive(port.as_mut(), 1000), messages(0..1000));
        }
    });
}

fn queue(name: &str) {
    with(name, "queue", |ports, _| {
        let all: Vec<[u8; 4]> = (0..ELEMENTS).map(u32::to_le_bytes).collect();
        // In each direction, one at a time and many.
        for port in ports.iter_mut() {
            for number in &all[..10] {
                assert_eq!(receive(port.as_mut(), 1), [number.to_vec()]);
                port.send_many(&[*number]).unwrap();
            }
            port.flush().unwrap();
            for some in all[10..].chunks(100) {
                assert_eq!(receive(port.as_mut(), some.len()).concat(), some.concat());
                port.send_many(some).unwrap();
            }
        }
        assert_eq!(receive(ports[0].as_mut(), 1), [all[0].to_vec()]);
    });
}

fn log(name: &str) {
    with(name, "log", |ports, site| {
        let mut tally = Tally::new(true);
        let workload = workloads::of_messages("log").unwrap();
        let shape = shape("log");
        for phase in ["flood", "burst"] {
            for (worker, port) in (0..).zip(ports.iter_mut()) {
                workload.run(phase, worker, &shape, port.as_mut(), &mut tally).unwrap();
            }
            workload.check(phase, 2, &shape, site).unwrap();
        }
        assert_eq!(tally.operations, 2 * 2 * 300);
        assert!(tally.times.unwrap().count() > 0, "no burst was timed");
        let text = fs::read(lines::file(site)).unwrap();
        let first = Line::new("flood", 1);
        assert!(text.windows(lines::LINE_BYTES).any(|part| part == first.text()));
    });
}

fn replicate(name: &str) {
    with(name, "replicate", |ports, _| {
        let mut tally = Tally::new(false);
        let workload = workloads::of_messages("replicate").unwrap();
        let shape = shape("replicate");
        for (worker, port) in (0..).zip(ports.iter_mut()) {
            workload.run("stream", worker, &shape, port.as_mut(), &mut tally).unwrap();
        }
        assert_eq!(tally.operations, shape.keys * FOLLOWERS);
    });
}

fn newest(name: &str) {
    with(name, "newest", |ports, _| {
        let mut tally = Tally::new(false);
        let workload = workloads::of_messages("newest").unwrap();
        let shape = shape("newest");
        for phase in ["write", "read", "both"] {
            for (worker, port) in (0..).zip(ports.iter_mut()) {
                workload.run(phase, worker, &shape, port.as_mut(), &mut tally).unwrap();
            }
            assert_eq!((tally.wrong, tally.operations > 0), (0, true), "{phase}");
        }
    });
}

macro_rules! rivals {
    ($($workload:ident: $($(#[$which:meta])* $test:ident $name:literal)*;)*) => {
        const TESTED: &[(&str, &[&str])] = &[$((stringify!($workload), &[$($name),*])),*];
        $(mod $workload {
            $(#[test]
            $(#[$which])*
            fn $test() {
                super::$workload($name);
            })*
        })*
    };
}

rivals! {
    channel:
        commonhold "commonhold"
        sync_channel "sync_channel"
        #[cfg_attr(not(feature = "iceoryx2"), ignore = "needs --features iceoryx2")]
        iceoryx2 "iceoryx2"
        bus "bus"
        unix_socket "unix socket"
        pipe "pipe";
    broadcast:
        commonhold "commonhold"
        #[cfg_attr(not(feature = "iceoryx2"), ignore = "needs --features iceoryx2")]
        iceoryx2 "iceoryx2"
        bus "bus";
    queue:
        commonhold "commonhold"
        commonhold_threads "commonhold threads"
        array_queue "crossbeam ArrayQueue"
        sync_channel "sync_channel";
    log:
        commonhold "commonhold"
        spdlog "spdlog async"
        tracing_appender "tracing-appender"
        file_mutex "file mutex";
    newest:
        commonhold "commonhold"
        commonhold_general "commonhold general"
        commonhold_pair "commonhold pair"
        #[cfg_attr(not(feature = "iceoryx2"), ignore = "needs --features iceoryx2")]
        blackboard "iceoryx2 blackboard"
        mmap_sync "mmap-sync";
    replicate:
        commonhold "commonhold"
        redis_replicas "redis replicas"
        nats "nats";
}

#[test]
fn no_rival_is_left_untested() {
    for (workload, names) in TESTED {
        let rivals = rivals::all().filter(|rival| rival.plays(workload));
        let all: Vec<_> = rivals.map(|rival| rival.name()).collect();
        assert_eq!(*names, all, "{workload}");
    }
}
