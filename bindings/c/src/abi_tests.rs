//! The header and this crate agree: a C compiler prints every structure's size, and
//! the functions are compared by name and number of parameters.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The output of a C program with this body.
fn compiled(body: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let folder = format!("commonhold-abi-{}-{number}", std::process::id());
    let folder = std::env::temp_dir().join(folder);
    std::fs::create_dir_all(&folder).unwrap();
    let (source, program) = (folder.join("it.c"), folder.join("it"));
    let text = format!(
        "#include <commonhold.h>\n#include <string.h>\nint main(void) {{ {body} return 0; }}\n"
    );
    std::fs::write(&source, text).unwrap();
    let compiled = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I"])
        .arg(here("include"))
        .args([&source, Path::new("-o"), &program])
        // ch_log_printf() of the header needs it, even if no code calls it.
        .args(["-O1", "-Wl,--unresolved-symbols=ignore-all"])
        .output()
        .expect("a C compiler");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let output = Command::new(&program).output().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// The sizes of these types, from a C compiler.
fn sizes(types: &[&str]) -> Vec<usize> {
    let line = |name: &&str| format!("printf(\"%zu\\n\", sizeof({name}));");
    let lines: String = types.iter().map(line).collect();
    compiled(&lines).lines().map(|line| line.parse().unwrap()).collect()
}

#[test]
fn structures_have_the_sizes_that_c_gives_them() {
    macro_rules! pairs {
        ($($name:literal = $type:ty,)*) => { [$(($name, size_of::<$type>())),*] };
    }
    let known = pairs! {
        "ch_error" = crate::ffi::call::CError,
        "ch_slice" = crate::ffi::View,
        "ch_bytes" = crate::ffi::Buffer,
        "ch_position" = crate::basics::Position,
        "ch_hold_options" = crate::hold::open::Options,
        "ch_hold_stat_t" = crate::hold::look::Stat,
        "ch_check_report" = crate::hold::look::Check,
        "ch_backup_report" = crate::hold::copies::Backup,
        "ch_salvage_report" = crate::hold::copies::Salvage,
        "ch_map_options" = crate::map::about::Options,
        "ch_map_stat_t" = crate::map::about::Stat,
        "ch_change" = crate::map::follow::Change,
        "ch_queue_options" = crate::queue::Options,
        "ch_queue_stat_t" = crate::queue::Stat,
        "ch_element" = crate::queue::InFlight,
        "ch_peer" = crate::channel::CPeer,
        "ch_channel_stat_t" = crate::channel::open::Stat,
        "ch_reservation" = crate::channel::producer::CReservation,
        "ch_received" = crate::channel::consumer::CReceived,
        "ch_log_options" = crate::log::write::Options,
        "ch_log_stat_t" = crate::log::write::Stat,
        "ch_log_line" = crate::log::read::Line,
        "ch_collector_options" = crate::log::collect::Options,
        "ch_round" = crate::log::collect::CRound,
        "ch_origin_options" = crate::net::origin::Options,
        "ch_replica_options" = crate::net::replica::Options,
        "ch_replica_status_t" = crate::net::replica::Status,
        "ch_promotion" = crate::net::replica::Promotion,
        "ch_hold_origin_options" = crate::net::hold_origin::Options,
        "ch_hold_replica_options" = crate::net::hold_replica::Options,
        "ch_journal_options" = crate::net::journal::Options,
    };
    let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
    for ((name, ours), theirs) in known.iter().zip(sizes(&names)) {
        assert_eq!(*ours, theirs, "{name}");
    }
    let header = std::fs::read_to_string(here("include/commonhold.h")).unwrap();
    let declared =
        header.lines().filter(|line| line.starts_with("typedef struct") && line.ends_with('{'));
    assert_eq!(declared.count(), known.len(), "a structure of the header is missing here");
}

fn without_comments(text: &str) -> String {
    let code = |part| str::split_once(part, "*/").map_or(part, |(_, code)| code);
    text.split("/*").map(code).collect()
}

/// Each initializer sets the size and every other byte to zero, and the structure has no padding,
/// which no code would initialize.
#[test]
fn options_begin_with_their_size_and_have_no_padding() {
    let header = std::fs::read_to_string(here("include/commonhold.h")).unwrap();
    let mut seen = 0;
    let mut code = String::new();
    for part in header.split("typedef struct ").skip(1) {
        let (name, rest) = part.split_once(" {").unwrap_or_default();
        let Some(kind) = name.strip_suffix("_options") else { continue };
        seen += 1;
        let members = without_comments(rest.split_once("\n}").unwrap().0);
        let mut names = Vec::new();
        for line in members.lines().filter_map(|line| line.split_once(';')).map(|(line, _)| line) {
            let pointer = line.split_once("(*").map(|(_, rest)| rest.split(')').next().unwrap());
            names.push(
                pointer.unwrap_or_else(|| line.rsplit([' ', '*']).next().unwrap()).to_owned(),
            );
        }
        let sum: Vec<String> = names.iter().map(|one| format!("sizeof it_{kind}.{one}")).collect();
        code += &format!(
            "{name} it_{kind} = {init}, zero_{kind}; memset(&zero_{kind}, 0, sizeof zero_{kind});
             zero_{kind}.size = sizeof({name});
             if (offsetof({name}, size) || memcmp(&it_{kind}, &zero_{kind}, sizeof it_{kind}) \
                 || {} != sizeof it_{kind}) {{ printf(\"%s\\n\", \"{name}\"); }}\n",
            sum.join(" + "),
            init = format!("{name}_init").to_uppercase(),
        );
    }
    assert_eq!(seen, 10, "a structure of options was not found");
    assert_eq!(compiled(&code), "", "these differ");
}

/// The functions in a text, each with its number of parameters. `begins` is what stands before the
/// name.
fn functions(text: &str, found: &mut BTreeMap<String, usize>, is_rust: bool) {
    let words: Vec<&str> = text.split("ch_").skip(1).collect();
    let mut before = text.split("ch_").next().unwrap_or_default();
    for word in words {
        let name: String =
            word.chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect();
        let rest = &word[name.len()..];
        let begins = if is_rust { before.ends_with("fn ") } else { before.ends_with([' ', '*']) };
        before = word;
        if !begins || !rest.starts_with('(') {
            continue;
        }
        // Parameters may have ch_ in their types: look at the whole text from here on.
        let at = word.as_ptr() as usize - text.as_ptr() as usize + name.len();
        let end = text[at..].find(if is_rust { ")" } else { ");" });
        let Some(end) = end else { continue };
        let inside = text[at + 1..at + end].trim().trim_end_matches(',');
        let count =
            if inside.is_empty() || inside == "void" { 0 } else { inside.split(',').count() };
        // Of Rust's, an answer has the error as well.
        let answers = is_rust && !text[at + end + 1..].trim_start().starts_with("->");
        found.insert(format!("ch_{name}"), count + usize::from(answers));
    }
}

#[test]
fn header_and_exports_are_the_same() {
    let header = std::fs::read_to_string(here("include/commonhold.h")).unwrap();
    let code = without_comments(&header);
    let code: Vec<&str> = code
        .lines()
        .filter(|line| !line.starts_with([' ', '#']) || line.starts_with("   "))
        .collect();
    let declared: Vec<&str> =
        code.iter().copied().filter(|line| !line.contains("printf(")).collect();
    let (mut there, mut here_too) = (BTreeMap::new(), BTreeMap::new());
    // The functions that the header defines call others.
    let declared = declared.join("\n");
    let declared = declared.split("static inline").next().unwrap().to_owned()
        + declared.rsplit("#define CH_LOG_TRACE").next().unwrap();
    functions(&declared, &mut there, false);
    let mut folders = vec![here("src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false if path.ends_with("abi_tests.rs") => {}
                false => functions(&std::fs::read_to_string(path).unwrap(), &mut here_too, true),
            }
        }
    }
    assert!(there.len() > 150, "found only {} declarations", there.len());
    assert_eq!(there, here_too);
}
