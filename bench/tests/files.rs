//! Every rival that serves files serves the right ones, and ends when it should. The tests here
//! have a simple client of their own, over a plain socket; in `run.rs`, the client of the benchmark
//! verifies every body. Afterwards, the tests look for the workers of servers, because a killed
//! server would leave its workers behind.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use commonhold_bench::{
    rival::{Order, Shape},
    rivals,
    served::Ground,
    site::Site,
};

use crate::absent;

const FILES: u64 = 3;

fn shape() -> Shape {
    let order = Order::Own;
    let keys = FILES;
    Shape { workers: 1, keys, order, fixed: false, in_file: false, latency: false, loads: vec![] }
}

/// Sends a GET; returns the status and the body.
fn get(stream: &mut BufReader<TcpStream>, id: &str) -> (u16, Vec<u8>) {
    let request = format!("GET /{id} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    stream.get_mut().write_all(request.as_bytes()).unwrap();
    let mut line = || {
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        line.trim_end().to_lowercase()
    };
    let status = line().split(' ').nth(1).unwrap().parse().unwrap();
    let head: Vec<String> = std::iter::from_fn(|| Some(line()).filter(|l| !l.is_empty())).collect();
    let length = head.iter().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.unwrap().parse().unwrap()];
    stream.read_exact(&mut body).unwrap();
    (status, body)
}

/// The files under a directory, by id.
fn files(directory: &Path) -> BTreeMap<String, PathBuf> {
    let mut found = BTreeMap::new();
    for folder in fs::read_dir(directory).unwrap().flatten() {
        for file in fs::read_dir(folder.path()).unwrap().flatten() {
            let id = [folder.file_name(), file.file_name()].map(|name| name.into_string().unwrap());
            found.insert(id.join("/"), file.path());
        }
    }
    found
}

/// The parent of each process.
fn parents() -> BTreeMap<u32, u32> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|one| one.file_name().to_str()?.parse().ok());
    let parent = |pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
        Some((pid, parent))
    };
    pids.filter_map(parent).collect()
}

/// All descendants of a process.
pub fn descendants(first: u32) -> BTreeSet<u32> {
    let parents = parents();
    let mut family = BTreeSet::from([first]);
    let mut before = 0;
    while family.len() > before {
        before = family.len();
        let children = parents.iter().filter(|(_, up)| family.contains(up)).map(|(pid, _)| *pid);
        let children: Vec<u32> = children.collect();
        family.extend(children);
    }
    family.remove(&first);
    family
}

/// Waits until a server has this number of processes: nginx listens before it has started all of
/// its workers.
fn await_workers(server: u32, workers: u64) -> BTreeSet<u32> {
    let start = Instant::now();
    loop {
        let family = descendants(server);
        if family.len() as u64 == workers {
            return family;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "its workers: {family:?}");
        std::thread::yield_now();
    }
}

/// Waits until none of these processes exists.
pub fn await_end(processes: &BTreeSet<u32>) {
    let start = Instant::now();
    let there = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // A process that has ended, but that its parent has not waited for yet, does not count.
        stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
    };
    while let Some(left) = processes.iter().find(|pid| there(pid)) {
        assert!(start.elapsed() < Duration::from_secs(20), "process {left} of {processes:?}");
        std::thread::yield_now();
    }
}

fn serves(name: &str) {
    let rival = rivals::host(name).unwrap();
    if let Some(why) = rival.missing() {
        return absent::tell(&format!("{name}: {why}"));
    }
    let mut site = Site::new(Path::new("/dev/shm")).unwrap();
    let site = site.fresh().unwrap();
    rival.prepare(&site, &shape()).unwrap();
    let ground = Ground::of(&site).unwrap();
    for workers in [1, 2] {
        let place = site.join(workers.to_string());
        fs::create_dir(&place).unwrap();
        let mixed = ground.files.join("mixed");
        let service = rival.start(&ground, &place, &mixed, workers).unwrap();
        let family = await_workers(service.server.pid(), workers);

        let address = service.address.strip_prefix("tcp:").unwrap().to_owned();
        let mut stream = BufReader::new(TcpStream::connect(&address).unwrap());
        let all = files(&mixed);
        assert_eq!(all.len() as u64, FILES);
        // All files over one connection, and then all again, when the server has cached them.
        for (id, path) in all.iter().chain(&all) {
            assert!(get(&mut stream, id) == (200, fs::read(path).unwrap()), "{id}");
        }
        assert_eq!(get(&mut stream, "0000/none.bin").0, 404);
        drop(stream);
        drop(service);
        await_end(&family);
        assert!(TcpStream::connect(&address).is_err(), "somebody still listens");
    }
}

macro_rules! rivals {
    ($($test:ident)*) => {
        const TESTED: &[&str] = &[$(stringify!($test)),*];
        $(#[test]
        fn $test() {
            serves(stringify!($test));
        })*
    };
}

rivals! { commonhold nginx }

#[test]
fn no_rival_is_left_untested() {
    let names: Vec<_> = rivals::hosts().iter().map(|rival| rival.name()).collect();
    assert_eq!(TESTED, names);
}
