//! The whole report, in tiny sizes: every part runs, the file contains all numbers and the quiet of
//! the machine, the chart shows every rival, and `goals` judges the file.

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use commonhold_bench::{full::Full, rivals, settings::Settings};
use commonhold_lab::bench::goals;

const PROGRAM: &str = env!("CARGO_BIN_EXE_commonhold-bench");

fn program(arguments: &[&str]) -> String {
    let output = Command::new(PROGRAM).args(arguments).output().expect("the program starts");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).expect("output is text")
}

#[test]
fn one_command_measures_everything_and_another_judges_it() {
    let directory = tempfile::Builder::new().prefix("bench-test.").tempdir_in("/dev/shm").unwrap();
    let out = tempfile::tempdir().unwrap();
    let file = out.path().join("all.json");
    let (json, charts) = (file.to_str().unwrap(), out.path().to_str().unwrap());
    let dir = directory.path().to_str().unwrap();
    program(&["report", "--quick", "--dir", dir, "--json", json, "--charts", charts]);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "something was left behind");

    let full = Full::read(&file).unwrap();
    assert!(full.quick);
    assert!(full.quiet.samples.len() > full.parts.len());
    assert!(full.quiet.ping_ns.lowest > 0.0 && full.quiet.load_ns.lowest > 0.0);
    for part in &full.parts {
        assert!(!part.report.results.is_empty(), "{} has no results", part.name);
    }
    let general = full.part("general").expect("a part of all workloads");
    let systems: BTreeSet<_> = general.results.iter().map(|one| one.system.as_str()).collect();
    let missing = rivals::all().filter(|rival| rival.missing().is_some());
    let missing: BTreeSet<_> = missing.map(|rival| rival.name()).collect();
    let all: BTreeSet<_> = rivals::all().map(|rival| rival.name()).collect();
    assert_eq!(systems, &all - &missing);
    shows_every_rival(out.path(), &systems);

    let table = program(&["goals", json]);
    assert!(table.contains("the sizes of a test"), "{table}");
    for goal in goals::all() {
        let begin = format!("{}  ", goal.job);
        let mut lines = table.lines().filter(|line| line.starts_with(&begin));
        let line = lines.find(|line| line.contains(&goal.rival));
        let line = line.unwrap_or_else(|| panic!("no line for {}", goal.job));
        // Every goal of a part that ran is judged, unless its rival or Commonhold's own system is
        // absent.
        let ran = goal.theirs.as_ref().is_none_or(|theirs| systems.contains(&*theirs.0))
            && goal.ours.as_ref().is_some_and(|ours| {
                systems.contains(&*ours.0) && !ours.1.starts_with("replicate 1024")
            });
        let judged = line.ends_with("met") || line.ends_with("MISSED");
        assert_eq!(judged, ran, "{line}");
    }
}

fn shows_every_rival(charts: &Path, systems: &BTreeSet<&str>) {
    let chart = fs::read_to_string(charts.join("rivals.svg")).unwrap();
    assert!(chart.starts_with("<svg") && chart.contains("</svg>"));
    for system in systems.iter().filter(|name| !name.starts_with(rivals::OURS)) {
        assert!(chart.contains(&format!("{system}\n")), "the chart lacks {system}");
    }
}

#[test]
fn counts_of_instructions_are_judged_from_the_output_of_the_budgets() {
    let out = tempfile::tempdir().unwrap();
    let (file, counts) = (out.path().join("all.json"), out.path().join("counts"));
    let settings = Settings::of(&["loop"], out.path());
    let machine = commonhold_bench::machine::Machine::look(&settings.dir).unwrap();
    let full = Full {
        quick: true,
        machine,
        quiet: Default::default(),
        parts: Vec::new(),
        instructions: Vec::new(),
    };
    fs::write(&file, serde_json::to_string(&full).unwrap()).unwrap();
    fs::write(&counts, "map-general-get 100 248 210\nlog-write 1000 246 250\n").unwrap();
    let (file, counts) = (file.to_str().unwrap(), counts.to_str().unwrap());
    let table = program(&["goals", file, "--budgets", counts]);
    let line = |job: &str| table.lines().find(|line| line.starts_with(job)).unwrap().to_owned();
    assert!(line("instructions: get ").ends_with("met"), "{table}");
    assert!(line("instructions: log line").ends_with("MISSED"), "{table}");
    assert!(line("instructions: update").ends_with("not measured"), "{table}");
}
