//! Addresses that other machines can connect to: only with a secret, or by name.

use super::{SECRET, activated, follow, listening, origin, shop, stop};
use crate::support::background::Background;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

const ALL: &str = "tcp:0.0.0.0:0";
/// What the refusal names: the problem, and both ways out.
const REFUSAL: [&str; 3] = ["other machines", "--secret-file", "--allow-unauthenticated"];

#[test]
fn other_machines_are_served_with_a_secret_or_by_name() {
    let test_dir = shop();
    for wide in [ALL, "tcp:[::]:0", "tcp:example.org:7400"] {
        let subcommands: [&[&str]; 2] = [&["origin", "shop"], &["relay", "unix:./nowhere", "copy"]];
        for subcommand in subcommands {
            let all = [subcommand, &["prices", "--listen", "tcp:0", "--listen", wide]].concat();
            let err = test_dir.fails(2, &all);
            let names = REFUSAL.iter().all(|part| err.contains(part));
            assert!(names && err.contains(&format!("{wide}: ")), "{err}");
        }
    }
    assert!(!test_dir.path("copy.hold").exists(), "nothing was made");
    let stream = &test_dir.json(&["stat", "shop", "prices"])["stream"];
    assert!(stream.is_null(), "nothing was begun: {stream}");

    let path = test_dir.path("secret");
    std::fs::write(&path, SECRET).expect("a file");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("ours");
    let both = ["--secret-file", "./secret", "--allow-unauthenticated"];
    let err =
        test_dir.fails(2, &[&["origin", "shop", "prices", "--listen", ALL], &both[..]].concat());
    assert!(err.contains("cannot be used with"), "{err}");
    let with_secret = &both[..2];
    for (options, warns) in [(with_secret, false), (&both[2..], true)] {
        let (served, addresses) = origin(&test_dir, &[&["--listen", ALL], options].concat());
        let port = addresses[0].rsplit_once(':').expect("a port").1;
        let own = if warns { &[][..] } else { with_secret };
        let own = [own, &["--once"]].concat();
        let run = follow(&test_dir, &format!("tcp:{port}"), "copy", &own).end();
        assert_eq!(run.code, 0, "{run:?}");
        let err = stop(served);
        assert!(
            err.contains("other machines can connect") && err.contains("not encrypted"),
            "{err}"
        );
        assert_eq!(err.contains("every client"), warns, "{err}");
    }
}

#[test]
fn a_socket_of_systemd_is_refused_like_an_address() {
    let test_dir = shop();
    let socket = || TcpListener::bind("0.0.0.0:0").expect("a socket").into();
    let run = Background::run(activated(&test_dir, socket(), &[])).end();
    assert!(run.code == 2 && REFUSAL.iter().all(|part| run.err.contains(part)), "{run:?}");
    let by_name = activated(&test_dir, socket(), &["--allow-unauthenticated"]);
    let (served, addresses) = listening(Background::run(by_name));
    assert!(addresses[0].starts_with("tcp:0.0.0.0:"), "{addresses:?}");
    let err = stop(served);
    assert!(err.contains("other machines can connect"), "{err}");
}
