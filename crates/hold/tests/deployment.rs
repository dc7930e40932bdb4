//! The files that run and watch Commonhold in production: systemd's units, Prometheus' rules and
//! Grafana's dashboard.

use crate::support::TestDir;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the units expect the command.
const INSTALLED: &str = "/usr/local/bin/hold";

fn docs(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(folder)
}

/// Runs a tool, which has to be installed in CI. Returns its standard error, also if it fails.
fn check(tool: &str, args: &[&str], inside: &Path) -> Result<String, String> {
    let output = match Command::new(tool).args(args).current_dir(inside).output() {
        Ok(output) => output,
        Err(error) => {
            let in_ci = std::env::var_os("CI").is_some_and(|ci| ci == "true");
            assert!(!in_ci, "missing in CI: {tool} ({error})");
            eprintln!("*** SKIPPED: {tool} is not installed");
            return Ok(String::new());
        }
    };
    let [out, err] =
        [output.stdout, output.stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
    if output.status.success() { Ok(err) } else { Err(out + &err) }
}

/// The unit files: names and texts.
fn units() -> Vec<(String, String)> {
    let files = std::fs::read_dir(docs("systemd")).unwrap().map(|file| file.unwrap().path());
    let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    files.map(|path| (name(&path), std::fs::read_to_string(&path).unwrap())).collect()
}

#[test]
fn units_are_valid() {
    let test_dir = TestDir::new();
    let command = env!("CARGO_BIN_EXE_hold");
    let units = units();
    assert!(units.len() >= 8, "{units:?}");
    for (name, text) in &units {
        let text = text.replace(INSTALLED, command);
        // The tool checks an instance. It also needs the template of the service.
        std::fs::write(test_dir.path(name), &text).unwrap();
        std::fs::write(test_dir.path(&name.replace('@', "@it")), text).unwrap();
    }
    for (name, _) in &units {
        let instance = format!("./{}", name.replace('@', "@it"));
        let args = ["verify", "--man=no", "--recursive-errors=no", &instance];
        let said = check("systemd-analyze", &args, &test_dir.path("."));
        // It succeeds in spite of warnings.
        assert_eq!(said.as_deref(), Ok(""), "{name}");
    }
}

/// The options in the example of a unit's head: `#     OPTIONS=...`.
fn options(text: &str) -> Vec<&str> {
    let lines = text.lines().filter_map(|line| line.strip_prefix('#'));
    let options = lines.filter_map(|line| line.trim().strip_prefix("OPTIONS="));
    options.flat_map(str::split_whitespace).collect()
}

#[test]
fn units_give_options_that_exist() {
    let test_dir = TestDir::new();
    let mut seen = 0;
    for (name, text) in units() {
        for line in text.lines().filter(|line| line.trim_start_matches('#').starts_with("Exec")) {
            let Some((_, call)) = line.split_once(&format!("{INSTALLED} ")) else { continue };
            let words = call.split_whitespace().take_while(|word| !word.starts_with("2>"));
            let mut words: Vec<&str> =
                words.filter(|w| !w.contains(['$', '%']) || w.contains('=')).collect();
            words.extend(call.contains("$OPTIONS").then(|| options(&text)).into_iter().flatten());
            words.push("--help");
            let run = test_dir.run(&words);
            assert_eq!(run.code, 0, "{name}: {line}: {run:?}");
            seen += 1;
        }
    }
    assert!(seen >= 10, "only {seen} calls");
}

#[test]
fn alert_rules_fire() {
    let monitoring = docs("monitoring");
    check("promtool", &["check", "rules", "alerts.yml"], &monitoring).unwrap();
    check("promtool", &["test", "rules", "alerts_test.yml"], &monitoring).unwrap();
}

/// The names of metrics in a text.
fn metrics(text: &str) -> BTreeSet<&str> {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c| !is_of_name(c)).filter(|word| word.starts_with("hold_"));
    words.map(|word| word.strip_suffix("_bucket").unwrap_or(word)).collect()
}

/// A metric that does not exist would never fire, and would leave its panel empty.
#[test]
fn rules_and_dashboard_use_metrics_that_exist() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/monitor/metrics");
    let read = |path: PathBuf| std::fs::read_to_string(path).unwrap();
    let sources: Vec<_> =
        std::fs::read_dir(sources).unwrap().map(|file| read(file.unwrap().path())).collect();
    let known: BTreeSet<_> = sources.iter().flat_map(|text| metrics(text)).collect();
    for file in ["alerts.yml", "alerts_test.yml", "grafana.json"] {
        let text = read(docs("monitoring").join(file));
        let used = metrics(&text);
        assert!(used.len() > 5, "{file}: {used:?}");
        let unknown: Vec<_> = used.difference(&known).collect();
        assert!(unknown.is_empty(), "{file} uses metrics that do not exist: {unknown:?}");
    }
    let dashboard: serde_json::Value =
        serde_json::from_str(&read(docs("monitoring").join("grafana.json"))).unwrap();
    assert!(dashboard["panels"].as_array().unwrap().len() > 15);
}
