//! The options of the connection, against servers that require them.

use crate::bridge::{Bridge, Place, ends, pairs, run};
use crate::server::{Server, eventually};
use std::fs;
use std::process::Command;

#[test]
fn a_domain_is_where_both_directions_write() {
    let Some(server) = Server::start_with("", "domain: hub") else { return };
    let (place, url) = (Place::new(), server.url());
    let path = place.path();
    let text = ends(&url, &["create-bucket", "b", "--domain", "other"], 3);
    assert!(text.contains("bucket 'b'"), "{text}");
    for bucket in ["b", "published"] {
        ends(&url, &["create-bucket", bucket, "--domain", "hub"], 0);
    }
    let args = ["mirror", "b", &path, "m", "--domain", "hub", "--poll", "200ms"];
    let _mirror = Bridge::start(&place, &url, &args);
    let map = place.map("m");
    ends(&url, &["put", "b", &path, "m", "k", "v", "--domain", "hub"], 0);
    assert_eq!(map.get("k").unwrap().unwrap(), b"v");
    // The map of a mirror may be published, too.
    let args = ["publish", &path, "m", "published", "--prefix", "$JS.hub.API"];
    let _publisher = Bridge::start(&place, &url, &args);
    let get = || run(&url, &["get", "published", "k", "--prefix", "$JS.hub.API."]);
    eventually("the pair is published", || get().stdout == b"v\n");
    assert_eq!(pairs(&map).len(), 1);
}

#[test]
fn a_password_is_read_from_a_file_or_from_a_context() {
    let Some(server) = Server::start_with("authorization { user: ann, password: \"x y\" }", "")
    else {
        return;
    };
    let (url, home) = (server.url(), tempfile::tempdir().unwrap());
    let directory = home.path();
    let text = ends(&url, &["create-bucket", "b"], 3);
    assert!(text.contains(&format!("cannot connect to {url}")), "{text}");
    let file = directory.join("password");
    let file = file.to_str().unwrap();
    let args = ["create-bucket", "b", "--user", "ann", "--password-file", file];
    let text = ends(&url, &args, 3);
    assert!(text.contains(file), "{text}");
    fs::write(file, "x y\n").unwrap();
    ends(&url, &args, 0);
    fs::create_dir_all(directory.join("nats/context")).unwrap();
    let context = format!(r#"{{"url": "{url}", "user": "ann", "password": "x y"}}"#);
    fs::write(directory.join("nats/context/shop.json"), context).unwrap();
    let get = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hold-nats"));
        command.env_remove("NATS_URL").env("XDG_CONFIG_HOME", directory);
        command.args(["get", "b", "k"]).args(args).output().unwrap()
    };
    // The key is absent: the server has answered.
    assert_eq!(get(&["--context", "shop"]).status.code(), Some(1));
    fs::write(directory.join("nats/context.txt"), "shop").unwrap();
    assert_eq!(get(&[]).status.code(), Some(1));
    let missing = get(&["--context", "none"]);
    let text = String::from_utf8_lossy(&missing.stderr).into_owned();
    assert!(missing.status.code() == Some(3) && text.contains("none.json"), "{text}");
}
