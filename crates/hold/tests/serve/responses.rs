//! Options that change responses.

use super::visitor::{answer, ask, connect, get, try_get};
use super::{Serving, files, site, until};

#[test]
fn workers_add_the_fields_of_the_command_line() {
    let test_dir = site();
    let options = ["--header", "X-A: b c", "--header", "X-D:e", "--cache-control", "no-cache"];
    let serving = Serving::start(&test_dir, "public", &[&options[..], &["--cors", "*"]].concat());
    let found = get(serving.port, "/3.txt").head;
    let absent = get(serving.port, "/absent").head;
    for line in ["X-A: b c\r\n", "X-D: e\r\n", "Access-Control-Allow-Origin: *\r\n"] {
        assert!(found.contains(line) && absent.contains(line), "{found}{absent}");
    }
    let cache = "Cache-Control: no-cache\r\n";
    assert!(found.contains(cache) && !absent.contains(cache), "{found}{absent}");
    let mut kept = connect(serving.port).expect("it listens");
    ask(&mut kept, "/3.txt", "").expect("it listens");
    assert!(answer(&mut kept).expect("an answer").head.contains(cache));
    serving.stop();
}

#[test]
fn missing_paths_have_pages() {
    let test_dir = site();
    let options = ["--fallback", "7.txt", "--error-page", "404=/8.txt"];
    let serving = Serving::start(&test_dir, "public", &options);
    let (application, missing) = (get(serving.port, "/users/7"), get(serving.port, "/none.txt"));
    assert_eq!((application.status, application.body), (200, files()[7].1.clone()));
    assert_eq!((missing.status, missing.body), (404, files()[8].1.clone()));
    serving.stop();
}

#[test]
fn an_address_has_at_most_its_connections() {
    let test_dir = site();
    let options = ["--workers", "1", "--per-address", "1"];
    let serving = Serving::start(&test_dir, "public", &options);
    let mut first = connect(serving.port).expect("it listens");
    ask(&mut first, "/3.txt", "").expect("it listens");
    assert_eq!(answer(&mut first).expect("an answer").status, 200);
    assert_eq!(get(serving.port, "/3.txt").status, 503);
    drop(first);
    until("there is room again", || {
        try_get(serving.port, "/3.txt").is_ok_and(|answer| answer.status == 200)
    });
    serving.stop();
}
