//! load and dump: every format there and back, and errors that name the line.

use crate::support::{TestDir, nasty_pairs, pairs_of};
use std::os::unix::fs::PermissionsExt;

fn round_trip(format: &str, with_nul: bool, with_other_bytes: bool, options: &[&str]) {
    let test_dir = TestDir::new();
    let map = test_dir.map("from", "nasty");
    for (key, value) in nasty_pairs(with_nul, with_other_bytes) {
        map.set(key, value).unwrap();
    }
    let dump = [&["dump", "from", "nasty", "--format", format][..], options].concat();
    let dumped = test_dir.run(&dump);
    assert_eq!((dumped.code, dumped.err.as_str()), (0, ""), "{format}");
    let load = ["load", "to", "nasty", "--format", format, "-q"];
    let loaded = test_dir.run_with(&load, &dumped.bytes);
    assert_eq!((loaded.code, loaded.err.as_str()), (0, ""), "{format}");
    assert_eq!(pairs_of(&test_dir.map("to", "nasty")), pairs_of(&map), "{format}");
    let name = format!("file.{format}");
    test_dir.ok(&[&["dump", "from", "nasty", "-o", &name][..], options].concat());
    assert_eq!(test_dir.read(&name), dumped.bytes, "{format}");
    test_dir.ok(&["load", "third", "nasty", &name]);
    assert_eq!(pairs_of(&test_dir.map("third", "nasty")), pairs_of(&map), "{format}");
}

#[test]
fn json_carries_any_bytes() {
    round_trip("json", true, true, &[]);
}

#[test]
fn tsv_carries_any_bytes() {
    round_trip("tsv", true, true, &[]);
}

#[test]
fn csv_carries_any_text_and_raw_bytes_on_request() {
    round_trip("csv", true, false, &[]);
    round_trip("csv", true, true, &["--raw"]);
}

#[test]
fn nul_carries_all_but_nul() {
    round_trip("nul", false, true, &[]);
}

#[test]
fn bytes_that_a_format_cannot_carry_are_errors_with_a_remedy() {
    let test_dir = TestDir::new();
    test_dir.map("shop", "odd").set("a\0b", b"\xff").unwrap();
    let err = test_dir.fails(3, &["dump", "shop", "odd", "--format", "csv"]);
    assert!(err.contains("'a\\0b'") && err.contains("--format json") && err.contains("--raw"));
    let err = test_dir.fails(3, &["dump", "shop", "odd", "--format", "nul"]);
    assert!(err.contains("'a\\0b'") && err.contains("--format json"), "{err}");
    test_dir.fails(3, &["dump", "shop", "odd", "-o", "odd.csv"]);
    assert_eq!(test_dir.leftovers(&["shop.hold"]), Vec::<String>::new());
}

#[test]
fn every_dump_in_json_is_json() {
    let test_dir = TestDir::new();
    let map = test_dir.map("shop", "nasty");
    for (key, value) in nasty_pairs(true, true) {
        map.set(key, value).unwrap();
    }
    for line in test_dir.ok(&["dump", "shop", "nasty", "--format", "json"]).lines() {
        let object: serde_json::Value = serde_json::from_str(line).expect("a line of JSON");
        assert_eq!(object.as_object().expect("an object").len(), 2, "{line}");
    }
}

#[test]
fn errors_name_file_line_and_problem() {
    let test_dir = TestDir::new();
    let err = |name: &str, contents: &[u8], args: &[&str]| {
        test_dir.file(name, contents);
        test_dir.fails(3, &[&["load", "shop", "prices", name][..], args].concat())
    };
    let csv = err("data.csv", b"a,1\nb,2\n\"c\nc\",3\nd,4,5\ne,6\n", &[]);
    assert!(csv.starts_with("hold: data.csv:5: expected 2 fields, found 3\n"), "{csv}");
    assert!(csv.contains("stored before the error: 3 pairs"), "{csv}");
    let csv = err("open.csv", b"a,1\nb,\"2\nc,3\nd,4\n", &[]);
    assert!(csv.starts_with("hold: open.csv:2: a quoted field in this record is never"), "{csv}");
    assert!(csv.contains("stored before the error: 1 pair"), "{csv}");
    let csv = err("late.csv", b"a,1\n\"b,2\nc,\"3\nd,4\n", &[]);
    assert!(
        csv.starts_with("hold: late.csv:2: expected 2 fields, found 1 (check for a quote"),
        "{csv}"
    );
    let tsv = err("data.tsv", b"a\t1\nC:\\Users\t2\n", &[]);
    assert!(tsv.starts_with("hold: data.tsv:2: unknown escape '\\U'"), "{tsv}");
    assert!(tsv.contains("--no-escapes"), "{tsv}");
    let tsv = err("really.tsv", b"a,1\n", &[]);
    assert!(
        tsv.starts_with("hold: really.tsv:1: expected 2 fields, found 1 (the first line contains"),
        "{tsv}"
    );
    assert!(tsv.contains("--delimiter comma, or --format csv"), "{tsv}");
    let json = err("data.jsonl", b"{\"key\":\"a\",\"value\":1}\n\n{\"key\":\"b\"\n", &[]);
    assert!(json.starts_with("hold: data.jsonl:3: not a JSON object: column 10"), "{json}");
    let json = err("no.jsonl", b"{\"key\":\"a\",\"price\":1}\n", &[]);
    assert!(json.starts_with("hold: no.jsonl:1: no field 'value'"), "{json}");
    let json = err("null.jsonl", b"{\"key\":\"a\",\"value\":null}\n", &[]);
    assert!(json.contains("null.jsonl:1: field 'value': null is not a value"), "{json}");
    let json = err("array.json", b"[{\"key\":\"a\",\"value\":1}]\n", &[]);
    assert!(json.contains("array.json:1: ") && json.contains("jq -c '.[]'"), "{json}");
    let json = err("b.jsonl", b"{\"key\":{\"base64\":\"!\"},\"value\":\"\"}\n", &[]);
    assert!(json.contains("b.jsonl:1: field 'key': '!' is not base64"), "{json}");
    let nul = err("data.nul", b"a\x001\x00b\x00", &[]);
    assert!(nul.starts_with("hold: data.nul:2: key 'b' has no value"), "{nul}");
    let nul = err("end.nul", b"a\x001", &[]);
    assert!(nul.contains("end.nul:1: the value does not end with a NUL"), "{nul}");
}

#[test]
fn wrong_records_are_skipped_on_request() {
    let test_dir = TestDir::new();
    test_dir.file("data.csv", "a,1\nb\nc,3\nd,4,5\ne,6\n");
    let args = ["load", "shop", "prices", "data.csv", "--on-error", "skip"];
    let run = test_dir.run(&args);
    assert_eq!(run.code, 1, "{run:?}");
    assert_eq!(run.out, "3 pairs stored in map prices, 2 records skipped\n");
    assert!(run.err.contains("hold: data.csv:2: ") && run.err.contains("hold: data.csv:4: "));
    assert_eq!(test_dir.map("shop", "prices").len().unwrap(), 3);
}

#[test]
fn pairs_that_do_not_fit_the_map_are_reported_by_line() {
    let test_dir = TestDir::new();
    test_dir.file("data.csv", "abcd,1\nefgh,2\nxyz,3\nijkl,4\n");
    let err = test_dir.fails(3, &["load", "shop", "ids", "data.csv", "--fixed", "4,1"]);
    assert!(err.starts_with("hold: data.csv:3: "), "{err}");
    assert!(err.contains("stored before the error: 2 pairs"), "{err}");
    let args = ["load", "shop", "ids", "data.csv", "--on-error", "skip"];
    assert_eq!(test_dir.run(&args).code, 1);
    assert_eq!(test_dir.map_len("shop", "ids"), 3);
}

#[test]
fn columns_are_chosen_by_number_and_name() {
    let test_dir = TestDir::new();
    test_dir.file("items.csv", "price,name,sku\n3,apple,a1\n4,\"pear, green\",p1\n");
    let by_name = ["--key-column", "sku", "--value-column", "name"];
    test_dir.ok(&[&["load", "shop", "names", "items.csv"][..], &by_name].concat());
    assert_eq!(test_dir.ok(&["get", "shop", "names", "p1"]), "pear, green");
    let by_number = ["--header", "--key-column", "3", "--value-column", "1"];
    test_dir.ok(&[&["load", "shop", "prices", "items.csv"][..], &by_number].concat());
    assert_eq!(test_dir.ok(&["get", "shop", "prices", "a1"]), "3");
    assert_eq!(test_dir.map("shop", "prices").len().unwrap(), 2);
    let args = ["load", "shop", "x", "items.csv", "--key-column", "id"];
    let err = test_dir.fails(3, &args);
    assert!(err.contains("no column 'id'") && err.contains("price, name, sku"), "{err}");
    test_dir.file("items.jsonl", "{\"sku\":\"a1\",\"price\":1.50,\"tags\":[1, 2]}\n");
    let json = ["load", "shop", "j", "items.jsonl", "--key-column", "sku", "--value-column"];
    test_dir.ok(&[&json[..], &["price"]].concat());
    assert_eq!(test_dir.ok(&["get", "shop", "j", "a1"]), "1.50");
    test_dir.ok(&[&json[..], &["tags"]].concat());
    assert_eq!(test_dir.ok(&["get", "shop", "j", "a1"]), "[1, 2]");
}

#[test]
fn headers_are_written_and_read() {
    let test_dir = TestDir::new();
    test_dir.map("shop", "prices").set("apple", "3").unwrap();
    let csv = test_dir.ok(&["dump", "shop", "prices", "--format", "csv", "--header"]);
    assert_eq!(csv, "key,value\napple,3\n");
    test_dir.file("data.csv", csv);
    test_dir.ok(&["load", "two", "prices", "data.csv", "--header"]);
    assert_eq!(test_dir.ok(&["keys", "two", "prices"]), "apple\n");
    let tsv = test_dir.ok(&["dump", "shop", "prices", "--header"]);
    assert_eq!(tsv, "key\tvalue\napple\t3\n");
}

#[test]
fn files_from_elsewhere_are_read() {
    let test_dir = TestDir::new();
    test_dir.file("dos.csv", "\u{feff}a,1\r\n\r\nb,2\r\n");
    test_dir.ok(&["load", "shop", "dos", "dos.csv"]);
    assert_eq!(pairs_of(&test_dir.map("shop", "dos")).len(), 2);
    assert_eq!(test_dir.ok(&["get", "shop", "dos", "a"]), "1");
    test_dir.file("paths.tsv", "C:\\new\t1\r\n");
    test_dir.ok(&["load", "shop", "paths", "paths.tsv", "--no-escapes"]);
    assert_eq!(test_dir.ok(&["get", "shop", "paths", "C:\\new"]), "1");
    test_dir.file("last.tsv", "a\tno line end");
    test_dir.ok(&["load", "shop", "last", "last.tsv"]);
    assert_eq!(test_dir.ok(&["get", "shop", "last", "a"]), "no line end");
    test_dir.file("empty.csv", "");
    assert_eq!(test_dir.ok(&["load", "shop", "e", "empty.csv"]), "0 pairs stored in map e\n");
}

#[test]
fn the_last_of_equal_keys_counts() {
    let test_dir = TestDir::new();
    test_dir.file("data.csv", "a,1\na,2\na,3\n");
    test_dir.ok(&["load", "shop", "prices", "data.csv"]);
    assert_eq!(test_dir.ok(&["get", "shop", "prices", "a"]), "3");
}

#[test]
fn a_dump_goes_straight_into_a_load() {
    let test_dir = TestDir::new();
    let map = test_dir.map("a", "prices");
    for number in 0..20_000 {
        map.set(format!("key {number}"), format!("value {number}")).unwrap();
    }
    let dumped = test_dir.run(&["dump", "a", "prices"]);
    let loaded = test_dir.run_with(&["load", "b", "prices", "--format", "tsv"], &dumped.bytes);
    assert_eq!(loaded.out, "20,000 pairs stored in map prices\n");
    assert_eq!(pairs_of(&test_dir.map("b", "prices")), pairs_of(&map));
    let json =
        test_dir.run_with(&["load", "c", "prices", "-", "--ttl", "1h", "--cache"], b"a\t1\n");
    assert_eq!((json.code, json.out.as_str()), (0, "1 pair stored in map prices\n"));
}

#[test]
fn loading_reports_in_json() {
    let test_dir = TestDir::new();
    let input = b"{\"key\":\"a\",\"value\":\"1\"}\n";
    let run = test_dir.run_with(&["load", "shop", "prices", "--format", "json"], input);
    let report: serde_json::Value = serde_json::from_str(&run.out).expect("JSON");
    assert_eq!((&report["stored"], &report["skipped"]), (&1.into(), &0.into()));
}

#[test]
fn the_name_selects_the_format_and_json_the_report() {
    let test_dir = TestDir::new();
    test_dir.file("data.csv", "apple,3\npear,4\n");
    let report = test_dir.json(&["load", "shop", "prices", "data.csv"]);
    assert_eq!((&report["stored"], &report["skipped"]), (&2.into(), &0.into()));
    let report = test_dir.json(&["dump", "shop", "prices", "-o", "out.csv"]);
    assert_eq!(report, serde_json::json!({"pairs": 2, "file": "out.csv"}));
    let written = String::from_utf8(test_dir.read("out.csv")).expect("text");
    assert!(written.contains("apple,3\n"), "{written}");
    for args in [
        &["load", "shop", "prices", "data.csv", "--format", "tsv"][..],
        &["dump", "shop", "prices", "-o", "out.csv", "--format", "nul"],
    ] {
        let err = test_dir.fails(2, args);
        assert!(err.contains("has the extension of csv, but --format is "), "{err}");
    }
    // A name without a known extension: --format, else tsv.
    test_dir.json(&["dump", "shop", "prices", "-o", "out.jsonx"]);
    assert!(test_dir.read("out.jsonx").starts_with(b"{\"key\":"));
    test_dir.ok(&["dump", "shop", "prices", "-o", "out.txt"]);
    let written = String::from_utf8(test_dir.read("out.txt")).expect("text");
    assert!(written.contains("apple\t3\n"), "{written}");
}

#[test]
fn a_load_into_a_full_hold_names_the_line_and_counts_what_is_stored() {
    let test_dir = TestDir::new();
    // Every other line changes the pair of the line before it: the last of equal keys counts.
    let line = |n: u32| format!("key {},{n:0100}\n", n / 2);
    test_dir.file("data.csv", (0..60_000).map(line).collect::<String>());
    let err = test_dir.fails(3, &["load", "shop", "prices", "data.csv", "--max-bytes", "2M"]);
    let number = |after: &str| -> u64 {
        let rest = err.split_once(after).expect(after).1;
        let digits = rest.chars().take_while(|c| c.is_ascii_digit() || *c == ',');
        digits.filter(char::is_ascii_digit).collect::<String>().parse().expect("a number")
    };
    let (line, stored) = (number("data.csv:"), number("stored before the error: "));
    assert_eq!(line, stored + 1, "{err}");
    assert_eq!(test_dir.map_len("shop", "prices"), stored.div_ceil(2), "{err}");
    assert!(stored > 4096, "{err}");
    let last = test_dir.ok(&["get", "shop", "prices", &format!("key {}", (stored - 1) / 2)]);
    assert_eq!(last, format!("{:0100}", stored - 1));
}

#[test]
fn a_dump_replaces_a_file_whole_or_not_at_all() {
    let test_dir = TestDir::new();
    test_dir.map("shop", "prices").set("apple", "3").unwrap();
    test_dir.file("old.csv", "old\n");
    let run = test_dir.run(&["dump", "shop", "prices", "-o", "old.csv"]);
    assert_eq!((run.code, run.err.as_str()), (0, "1 pair written to old.csv\n"));
    assert_eq!(test_dir.read("old.csv"), b"apple,3\n");
    let mode = test_dir.path("old.csv").metadata().expect("the dump").permissions().mode();
    assert_eq!(mode & 0o600, 0o600);
    std::os::unix::fs::symlink(test_dir.path("old.csv"), test_dir.path("link.csv"))
        .expect("a link");
    test_dir.map("shop", "prices").set("apple", "4").unwrap();
    test_dir.ok(&["dump", "shop", "prices", "-o", "link.csv"]);
    assert!(test_dir.path("link.csv").is_symlink());
    assert_eq!(test_dir.read("old.csv"), b"apple,4\n");
    let err = test_dir.fails(3, &["dump", "shop", "prices", "-o", "no/such/place.csv"]);
    assert!(err.starts_with("hold: no/such/place.csv: "), "{err}");
    test_dir.ok(&["dump", "shop", "prices", "-o", "/dev/null", "--format", "csv", "--frozen"]);
    assert_eq!(test_dir.leftovers(&["shop.hold", "old.csv", "link.csv"]), Vec::<String>::new());
}

#[test]
fn invalid_options_are_reported_before_anything_is_created() {
    let test_dir = TestDir::new();
    test_dir.file("data.xyz", "a,1\n");
    let usage = |args: &[&str]| test_dir.fails(2, args);
    assert!(usage(&["load", "shop", "p", "data.xyz"]).contains("--format csv, tsv, json or nul"));
    assert!(usage(&["load", "shop", "p", "--format", "json", "--header"]).contains("--header"));
    assert!(usage(&["load", "shop", "p", "--format", "nul", "--key-column", "2"]).contains("NUL"));
    assert!(usage(&["load", "shop", "p", "--format", "csv", "--no-escapes"]).contains("tsv"));
    assert!(
        usage(&["load", "shop", "p", "--format", "text"])
            .contains("--format text applies only to output")
    );
    assert!(usage(&["dump", "shop", "p", "--format", "json", "--header"]).contains("--header"));
    assert!(usage(&["dump", "shop", "p", "--format", "tsv", "--raw"]).contains("--raw"));
    assert!(test_dir.fails(3, &["load", "shop", "p", "none.csv"]).contains("none.csv"));
    assert!(test_dir.fails(3, &["load", "shop", "p", "/tmp"]).contains("directory"));
    assert_eq!(test_dir.leftovers(&["data.xyz"]), Vec::<String>::new());
}
