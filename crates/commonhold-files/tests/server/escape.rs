//! Nothing outside the directory is served, and in it only regular files are.

use super::client::{Client, get, request, simple, target};
use super::site::{database, put};
use super::{Choices, Naming, Served};
use commonhold_files::source::Symlinks;
use commonhold_files::{LayoutKind, ServerOptions};
use commonhold_testing::support::test_dir::TestDir;
use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use nix::unistd::mkfifo;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const SECRET: &[u8] = b"nobody is to see this";

/// A directory next to a secret, and ways from one to the other.
struct Temptation {
    test_dir: TestDir,
}

impl Temptation {
    fn new() -> Temptation {
        let test_dir = TestDir::memory();
        let (root, secret) = (test_dir.path("root"), test_dir.path("secret.txt"));
        fs::write(&secret, SECRET).unwrap();
        fs::create_dir(test_dir.path("sibling")).unwrap();
        fs::write(test_dir.path("sibling/secret.txt"), SECRET).unwrap();
        put(&root, b"fine.txt", b"fine", 0);
        put(&root, b"sub/fine.txt", b"fine below", 0);
        symlink("../secret.txt", root.join("relative")).unwrap();
        symlink(&secret, root.join("absolute")).unwrap();
        symlink("../sibling", root.join("directory")).unwrap();
        symlink("relative", root.join("twice")).unwrap();
        symlink("..", root.join("sub/up")).unwrap();
        symlink("../..", root.join("sub/up-and-out")).unwrap();
        symlink("/proc/self/root", root.join("magic")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        symlink("sub/fine.txt", root.join("inside")).unwrap();
        Temptation { test_dir }
    }

    fn root(&self) -> PathBuf {
        self.test_dir.path("root")
    }

    fn served(&self, choices: Choices, change: impl FnOnce(&mut ServerOptions)) -> Served {
        let place = match choices.is_database() {
            false => self.root(),
            true => {
                let place = self.test_dir.path("it.db");
                database(&self.root(), LayoutKind::Tree, &place);
                place
            }
        };
        Served::new(choices, &place, change)
    }
}

/// Targets of HTTP that mean the secret, or would for a careless server.
fn targets(test_dir: &TestDir) -> Vec<String> {
    let ups = [
        "..",
        "%2e%2e",
        "%2E%2e",
        ".%2e",
        "%252e%252e",
        "..%00",
        "...",
        "..;",
        "%c0%ae%c0%ae",
        "%uff0e%uff0e",
        "..%5c..",
        "..\\..",
        "%2e%2e%2f%2e%2e",
    ];
    let slashes = ["/", "%2f", "%2F", "%5c", "\\", "//", "/./", "%252f"];
    let mut targets = Vec::new();
    for up in ups {
        for slash in slashes {
            targets.push(format!("/{up}{slash}secret.txt"));
            targets.push(format!("/sub{slash}{up}{slash}{up}{slash}secret.txt"));
            targets.push(format!("http://test/{up}{slash}secret.txt"));
            targets.push(format!("{up}{slash}secret.txt"));
        }
    }
    let absolute = test_dir.path("secret.txt").display().to_string();
    for way in ["relative", "absolute", "directory/secret.txt", "twice", "sub/up/relative"] {
        targets.push(format!("/{way}"));
    }
    for way in ["sub/up-and-out/secret.txt", "loop", "fine.txt%00", "%00", "fine.txt%00.html"] {
        targets.push(format!("/{way}"));
    }
    targets.push(format!("/magic{absolute}"));
    targets.push(absolute.clone());
    targets.push(format!("/{absolute}"));
    targets.push(format!("/{}", absolute.replace('/', "%2f")));
    targets.push(format!("file://{absolute}"));
    targets.push("/~root/.profile".to_owned());
    targets
}

#[test]
fn no_path_leads_out() {
    for choices in Choices::some() {
        let _naming = Naming::new(choices);
        let temptation = Temptation::new();
        let served = temptation.served(choices, |_| ());
        let contains = |bytes: &[u8]| bytes.windows(SECRET.len()).any(|part| part == SECRET);
        for target in targets(&temptation.test_dir) {
            let mut client = Client::to(served.address);
            let answer = client.get(&target);
            assert!(!contains(&answer.body), "{target}");
            assert!(matches!(answer.status, 400 | 404), "{target}: {}", answer.head);
            let id = [target.trim_start_matches('/').as_bytes(), b"\n"].concat();
            assert_eq!(simple(served.address, &id), [0], "{target}");
            assert_eq!(simple(served.address, format!("{target}\n").as_bytes()), [0], "{target}");
        }
        for id in [&b"fine.txt\0\n"[..], b"..\\secret.txt\n", b"\0\n", b"sub\0/../../secret.txt\n"]
        {
            assert_eq!(simple(served.address, id), [0], "{id:?}");
        }
        for fine in ["/fine.txt", "http://other:80/fine.txt", "/%66ine.txt?../secret.txt"] {
            assert_eq!(get(served.address, fine).body, b"fine", "{fine}");
        }
        // Links that stay below are followed, by servers that see links.
        assert_eq!(get(served.address, "/inside").body, b"fine below");
        let up = get(served.address, "/sub/up");
        // The link makes a loop, which ends an import.
        let wanted = match choices.is_database() {
            true => (404, None),
            false => (301, Some("/sub/up/")),
        };
        assert_eq!((up.status, up.field("Location")), wanted);
        assert_eq!(get(served.address, "/directory").status, 404);
        served.finish();
    }
}

#[test]
fn links_that_lead_inside_are_followed() {
    for choices in Choices::some() {
        let _naming = Naming::new(choices);
        let temptation = Temptation::new();
        let root = temptation.root();
        symlink(root.join("sub/fine.txt"), root.join("by-root")).unwrap();
        symlink(root.join("sub"), root.join("directory-by-root")).unwrap();
        symlink("sub", root.join("directory-inside")).unwrap();
        symlink("../root/sub", root.join("out-and-in")).unwrap();
        symlink(temptation.test_dir.path("sibling"), root.join("directory-out")).unwrap();
        put(&root, b"sub/index.html", b"index", 0);
        let served = temptation.served(choices, |_| ());
        assert_eq!(get(served.address, "/by-root").body, b"fine below");
        for way in ["directory-by-root", "directory-inside", "out-and-in"] {
            let file = format!("/{way}/fine.txt");
            assert_eq!(get(served.address, &file).body, b"fine below", "{way}");
            assert_eq!(get(served.address, &format!("/{way}/")).body, b"index", "{way}");
            let answer = get(served.address, &format!("/{way}"));
            let to = format!("/{way}/");
            assert_eq!((answer.status, answer.field("Location")), (301, Some(&*to)));
            let id = format!("{way}/fine.txt\n");
            assert_eq!(simple(served.address, id.as_bytes()), b"fine below", "{way}");
        }
        for way in ["directory-out/secret.txt", "directory-out/", "directory-out"] {
            assert_eq!(get(served.address, &format!("/{way}")).status, 404, "{way}");
        }
        served.finish();
    }
}

/// A link changes its destination between the moments in which the server looks at it.
#[test]
fn a_link_that_changes_all_the_time_never_leads_out() {
    for choices in Choices::of_directories() {
        let _naming = Naming::new(choices);
        let temptation = Temptation::new();
        let (root, secret) = (temptation.root(), temptation.test_dir.path("secret.txt"));
        let served = temptation.served(choices, |options| options.fresh = Duration::ZERO);
        let is_over = AtomicBool::new(false);
        let (next, link) = (root.join("next"), root.join("changing"));
        thread::scope(|scope| {
            scope.spawn(|| {
                let places = [root.join("sub/fine.txt"), secret.clone()];
                for to in places.iter().cycle() {
                    symlink(to, &next).unwrap();
                    fs::rename(&next, &link).unwrap();
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
            let mut client = Client::to(served.address);
            let mut seen = [0; 2];
            for _ in 0..4000 {
                let answer = client.get("/changing");
                match answer.status {
                    200 => assert_eq!(answer.body, b"fine below"),
                    status => assert_eq!(status, 404, "{}", answer.head),
                }
                seen[usize::from(answer.status == 200)] += 1;
            }
            is_over.store(true, Ordering::Relaxed);
            assert!(seen.iter().all(|&count| count > 0), "{seen:?}");
        });
        served.finish();
    }
}

#[test]
fn links_that_lead_out_are_followed_if_that_is_wanted() {
    for choices in Choices::of_directories() {
        let _naming = Naming::new(choices);
        let temptation = Temptation::new();
        let served = temptation.served(choices, |options| options.symlinks = Symlinks::All);
        for way in ["/relative", "/absolute", "/twice", "/directory/secret.txt"] {
            assert_eq!(get(served.address, way).body, SECRET, "{way}");
        }
        // Still there is no way up but by links.
        for none in ["/../secret.txt", "/%2e%2e/secret.txt", "/loop"] {
            assert_eq!(get(served.address, none).status, 404, "{none}");
        }
        served.finish();
    }
}

#[test]
fn only_regular_files_are_opened() {
    for choices in Choices::some() {
        let _naming = Naming::new(choices);
        let temptation = Temptation::new();
        let root = temptation.root();
        let fifo = root.join("fifo");
        mkfifo(&fifo, Mode::S_IRWXU).unwrap();
        let _socket = UnixListener::bind(root.join("socket")).unwrap();
        symlink("/dev/zero", root.join("zeros")).unwrap();
        symlink("fifo", root.join("fifo.br")).unwrap();
        symlink("fifo", root.join("fine.txt.gz")).unwrap();
        // Only root may make one; the link to one is there for every user.
        if nix::unistd::geteuid().is_root() {
            mknod(&root.join("device"), SFlag::S_IFCHR, Mode::S_IRWXU, makedev(1, 5)).unwrap();
        }
        let path = fifo.clone();
        // It waits for a reader.
        let writer = thread::spawn(move || File::options().write(true).open(path).map(drop));
        let served = temptation.served(choices, |options| options.symlinks = Symlinks::All);
        for none in ["/fifo", "/socket", "/zeros", "/device", "/sub/up", "/fifo/"] {
            let mut client = Client::to(served.address);
            let answer = client.ask("GET", none, "Accept-Encoding: br, gzip\r\n");
            assert!(matches!(answer.status, 301 | 404), "{none}: {}", answer.head);
            let id = format!("{none}\n");
            assert_eq!(simple(served.address, id.as_bytes()), [0], "{none}");
        }
        let mut client = Client::to(served.address);
        let fine = client.ask("GET", "/fine.txt", "Accept-Encoding: gzip\r\n");
        assert_eq!((&*fine.body, fine.field("Content-Encoding")), (&b"fine"[..], None));
        served.finish();
        // Nothing to wait for: it must not have happened.
        thread::sleep(Duration::from_millis(20));
        assert!(!writer.is_finished(), "somebody has opened the FIFO");
        drop(File::options().read(true).open(&fifo).unwrap());
        writer.join().unwrap().unwrap();
    }
}

#[test]
fn hidden_files_are_served_only_on_request() {
    for choices in Choices::some() {
        let _naming = Naming::new(choices);
        let temptation = Temptation::new();
        let names = [&b".env"[..], b".git/config", b"sub/.git/config"];
        names.iter().for_each(|name| put(&temptation.root(), name, name, 0));
        put(&temptation.root(), b".well-known/a", b"known", 0);
        for hidden in [false, true] {
            let served = temptation.served(choices, |options| options.hidden = hidden);
            for name in names {
                let answer = get(served.address, &target(name));
                let by_id = simple(served.address, &[name, b"\n"].concat());
                match hidden {
                    true => assert_eq!((&*answer.body, &*by_id), (name, name)),
                    false => assert_eq!((answer.status, &*by_id), (404, &[0][..])),
                }
            }
            let directory = get(served.address, "/.git");
            assert_eq!(directory.status, if hidden { 301 } else { 404 });
            assert_eq!(get(served.address, "/.well-known/a").body, b"known");
            served.finish();
        }
    }
}

/// Everything that a name may have.
const NAMES: [&[u8]; 12] = [
    b"a b",
    b" lead",
    b"q'uo\"te",
    b"per%cent",
    b"per%2fcent",
    b"back\\slash",
    b"ques?tion",
    b"ha#sh",
    b"\xff\xfe\x80",
    b"caf\xe9",
    "ümläut 日本".as_bytes(),
    b"\x01\x1b[31m\x7f",
];

#[test]
fn names_may_have_any_bytes() {
    for choices in Choices::some() {
        let _naming = Naming::new(choices);
        let temptation = Temptation::new();
        for name in NAMES {
            put(&temptation.root(), name, name, 0);
            put(&temptation.root(), &[b"sub/", name, b"/", name].concat(), name, 0);
        }
        let served = temptation.served(choices, |_| ());
        let mut client = Client::to(served.address);
        for name in NAMES {
            assert_eq!(client.get(&target(name)).body, name, "{name:?}");
            let below = [b"sub/", name, b"/", name].concat();
            assert_eq!(client.get(&target(&below)).body, name, "{name:?}");
            assert_eq!(simple(served.address, &[name, b"\n"].concat()), name, "{name:?}");
            assert_eq!(simple(served.address, &[&below[..], b"\r\n"].concat()), name, "{name:?}");
        }
        // As bytes of a target they are not HTTP, or they are the name.
        let mut raw = Client::to(served.address);
        raw.say(b"GET /caf\xe9 HTTP/1.1\r\nHost: test\r\n\r\n");
        let answer = raw.answer(false);
        assert!(answer.status == 400 || answer.body == b"caf\xe9", "{}", answer.head);
        // A redirection names the requested target, on one line.
        let mut client = Client::to(served.address);
        client.say(request("GET", "/sub/%0d%0aX:%20y", ""));
        assert_eq!(client.answer(false).status, 404);
        served.finish();
    }
}
