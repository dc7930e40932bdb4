//! Options that change responses.

use super::visitor::{answer, ask, connect, get};
use super::{Serving, site};

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
