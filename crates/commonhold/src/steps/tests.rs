//! The lists agree with the sources, and armed steps and faults happen.

use super::{ALL, FAULTS, arm, arm_fault, pass, shorten, strike, table};
use std::collections::BTreeMap;
use std::path::Path;

/// How often each name occurs in a macro of this kind in the sources.
fn in_sources(macros: &[&str]) -> BTreeMap<String, u32> {
    let mut found = BTreeMap::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if !path.starts_with(root.join("steps")) {
                let text = std::fs::read_to_string(&path).unwrap();
                for name in macros.iter().flat_map(|name| passed_to(&text, name)) {
                    *found.entry(name).or_default() += 1;
                }
            }
        }
    }
    found
}

fn passed_to(text: &str, name: &str) -> Vec<String> {
    let start = format!("{name}!(");
    let parts = text.split(start.as_str()).skip(1);
    let quoted = parts.filter_map(|part| part.trim_start().strip_prefix('"')?.split_once('"'));
    quoted.map(|(name, _)| name.to_owned()).collect()
}

fn agree(list: Vec<&str>, found: &BTreeMap<String, u32>) {
    let mut sorted = list.clone();
    sorted.sort_unstable();
    let twice: Vec<_> = sorted.windows(2).filter(|pair| pair[0] == pair[1]).collect();
    assert!(twice.is_empty(), "twice in the list: {twice:?}");
    let unlisted: Vec<_> = found.keys().filter(|name| !list.contains(&name.as_str())).collect();
    assert!(unlisted.is_empty(), "not in the list: {unlisted:?}");
    let unused: Vec<_> = list.iter().filter(|name| !found.contains_key(**name)).collect();
    assert!(unused.is_empty(), "in the list, and nowhere else: {unused:?}");
}

#[test]
fn the_list_of_steps_and_the_sources_agree() {
    agree(ALL.to_vec(), &in_sources(&["step"]));
}

#[test]
fn the_table_of_faults_and_the_sources_agree() {
    agree(FAULTS.iter().map(|(name, _)| *name).collect(), &in_sources(&["fault", "shortened"]));
    let known = |error: &&str| table::ERRORS.iter().any(|(name, _)| name == error);
    for (name, errors) in FAULTS {
        assert!(!errors.is_empty() && errors.iter().all(known), "{name}: {errors:?}");
    }
}

/// The only test of this binary that arms anything: arming applies to the whole process.
#[test]
fn armed_faults_happen() {
    let number = |name| strike(name).err().and_then(|error| error.raw_os_error());
    assert_eq!(number("backup.sync"), None);
    arm_fault("backup.sync:EIO:once:2,backup.duplicate:EMFILE:always:2").unwrap();
    let passings: Vec<_> = (0..4).map(|_| number("backup.sync")).collect();
    assert_eq!(passings, [None, Some(libc::EIO), None, None]);
    let passings: Vec<_> = (0..4).map(|_| number("backup.duplicate")).collect();
    assert_eq!(passings, [None, Some(libc::EMFILE), Some(libc::EMFILE), Some(libc::EMFILE)]);
    arm_fault("delete.first-bytes:SHORT:once").unwrap();
    assert_eq!(number("backup.duplicate"), None, "armed before");
    assert_eq!(["first", "next"].map(|_| shorten("delete.first-bytes", 8)), [1, 8]);
    arm_fault("").unwrap();
    for bad in ["x", "x:EIO:once", "backup.duplicate:EINTR:once", "backup.duplicate:EIO", "a:b:c:d"]
    {
        assert!(arm_fault(bad).is_err(), "{bad}");
    }
    assert!(arm_fault("backup.duplicate:EMFILE:once:0").is_err());
    for bad in ["x:kill", "write.locked", "write.locked:end", "write.locked:kill:0"] {
        assert!(arm(bad).is_err(), "{bad}");
    }
    arm("write.locked:panic:2").unwrap();
    let passings = [(); 3].map(|()| std::panic::catch_unwind(|| pass("write.locked")).is_err());
    assert_eq!(passings, [false, true, false]);
    arm("").unwrap();
}
