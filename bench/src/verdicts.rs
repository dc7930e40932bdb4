//! `goals`: the goals of the project, each marked as met or missed, judged by the file of `report`.
//!
//! The goals are the data of [`commonhold_lab::bench::goals`]. A ratio to a rival of the same part
//! is the median of the rounds' ratios. A ratio to a number from another machine has an asterisk.

use commonhold_lab::bench::{
    goals::{self, Goal, Place},
    table,
};
use commonhold_lab::workload::results::median;

use crate::full::Full;

/// The table's headings.
const HEADINGS: [&str; 6] = ["job", "rival", "measured", "ratio", "goal", ""];

/// The result of one goal.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// It is reached.
    Met,
    /// It is not reached.
    Missed,
    /// It cannot be judged; this is the reason.
    Unknown(String),
}

struct Judged {
    measured: Option<f64>,
    ratio: Option<f64>,
    verdict: Verdict,
}

/// The table, and the numbers of goals met, missed and not measured.
pub fn table(full: &Full) -> String {
    let all: Vec<(&Goal, Judged)> =
        goals::all().iter().map(|goal| (goal, judge(goal, full))).collect();
    let rows: Vec<Vec<String>> = all.iter().map(|(goal, judged)| row(goal, judged)).collect();
    let mut lines = vec![full.machine.machine.line(), full.quiet.line()];
    if full.quick {
        lines.push("WARNING: the sizes of a test; no number means anything".to_owned());
    }
    lines.push(String::new());
    lines.extend(table::wide(&HEADINGS.map(str::to_owned), &rows));
    let count = |of: fn(&Verdict) -> bool| all.iter().filter(|(_, one)| of(&one.verdict)).count();
    lines.push(format!(
        "\n{} met, {} missed, {} not measured.",
        count(|one| *one == Verdict::Met),
        count(|one| *one == Verdict::Missed),
        count(|one| matches!(one, Verdict::Unknown(_)))
    ));
    lines.push(format!("\n{}\n", goals::NOTE));
    lines.join("\n")
}

fn row(goal: &Goal, judged: &Judged) -> Vec<String> {
    let starred = if goal.recorded.is_some() { "*" } else { "" };
    vec![
        goal.job.clone(),
        format!("{}{starred}", goal.rival),
        judged.measured.map_or("-".to_owned(), short),
        judged.ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}x")),
        goal.text(),
        match &judged.verdict {
            Verdict::Met => "met".to_owned(),
            Verdict::Missed => "MISSED".to_owned(),
            Verdict::Unknown(why) => why.clone(),
        },
    ]
}

fn judge(goal: &Goal, full: &Full) -> Judged {
    let unknown =
        |why: String| Judged { measured: None, ratio: None, verdict: Verdict::Unknown(why) };
    if let Some(by) = &goal.by {
        return unknown(format!("see {by}"));
    }
    match found(goal, full) {
        None => unknown("not measured".to_owned()),
        Some((measured, ratio)) => {
            let met = goal.is_met(ratio.unwrap_or(measured));
            let verdict = if met { Verdict::Met } else { Verdict::Missed };
            Judged { measured: Some(measured), ratio, verdict }
        }
    }
}

/// Our number, and its ratio to the rival's if there is a rival.
fn found(goal: &Goal, full: &Full) -> Option<(f64, Option<f64>)> {
    if let Some(operation) = &goal.instructions {
        let counted = full.instructions.iter().find(|one| one.operation == *operation)?;
        return Some((counted.count as f64, None));
    }
    let part = full.part(goal.part.as_ref()?)?;
    let ours = place(goal.ours.as_ref()?);
    let result =
        |one: &&crate::report::Summary| [&*one.system, &*one.workload, &*one.metric] == ours;
    let measured = part.results.iter().find(result)?.value;
    if let Some(theirs) = goal.recorded {
        return Some((measured, Some(measured / theirs)));
    }
    let Some(theirs) = &goal.theirs else { return Some((measured, None)) };
    let mut ratios = part.quotients(ours, place(theirs));
    (!ratios.is_empty()).then(|| (measured, Some(median(&mut ratios))))
}

fn place((system, workload, metric): &Place) -> [&str; 3] {
    [system, workload, metric]
}

/// A number with three digits.
fn short(value: f64) -> String {
    match value.abs() {
        v if v >= 1e9 => format!("{:.2} G", value / 1e9),
        v if v >= 1e6 => format!("{:.2} M", value / 1e6),
        v if v >= 1e4 => format!("{:.1} k", value / 1e3),
        v if v >= 100.0 => format!("{value:.0}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn goal(limits: &serde_json::Value, theirs: bool) -> Goal {
        let mut goal = json!({
            "job": "map", "rival": "rival", "part": "general", "why": "a test",
            "ours": ["commonhold", "map.get", "ops_per_s"],
        });
        let fields = goal.as_object_mut().unwrap();
        fields.extend(limits.as_object().unwrap().clone());
        if theirs {
            fields.insert("theirs".to_owned(), json!(["rival", "map.get", "ops_per_s"]));
        }
        serde_json::from_value(goal).unwrap()
    }

    /// Two rounds, in which Commonhold reaches 6 and 8, and the rival 2 and 4.
    fn full() -> Full {
        let one = |round: u32, system: &str, value: f64| {
            json!({"round": round, "system": system, "workload": "map.get",
                   "metric": "ops_per_s", "value": value, "unit": "1/s"})
        };
        let machine = json!({
            "cpu": "a", "cores": 2, "kernel": "6", "memory_bytes": 1, "version": "1",
            "shmem_huge_pages": "never", "stores_in_memory": true, "load_before": 0.0
        });
        let run = json!({"rounds": 2, "budget_s": 1.0, "order": "own", "fixed": false,
                         "latency": false, "load_after": 0.0});
        let rounds = [
            one(1, "commonhold", 6.0),
            one(1, "rival", 2.0),
            one(2, "commonhold", 8.0),
            one(2, "rival", 4.0),
        ];
        let report = json!({"machine": machine, "results": [], "systems": [], "not_run": [],
                            "run": run, "rounds": rounds});
        let mut full: Full = serde_json::from_value(json!({
            "quick": false, "machine": machine, "quiet": crate::quiet::Quiet::default(),
            "parts": [{"name": "general", "report": report}],
            "instructions": [{"operation": "map-general-get", "count": 200}],
        }))
        .unwrap();
        full.parts[0].report.conclude();
        full
    }

    #[test]
    fn ratios_of_the_rounds_are_judged_by_their_median() {
        for (limits, verdict) in [
            (json!({"at_least": 2.5}), Verdict::Met),
            (json!({"at_least": 2.6}), Verdict::Missed),
            (json!({"at_most": 2.5}), Verdict::Met),
            (json!({"at_most": 2.4}), Verdict::Missed),
        ] {
            let judged = judge(&goal(&limits, true), &full());
            assert_eq!((judged.ratio, judged.verdict), (Some(2.5), verdict), "{limits}");
        }
    }

    #[test]
    fn numbers_of_another_machine_and_plain_limits_are_judged() {
        let recorded = judge(&goal(&json!({"recorded": 3.5, "at_least": 2}), false), &full());
        assert_eq!((recorded.ratio, recorded.verdict), (Some(2.0), Verdict::Met));
        let plain = judge(&goal(&json!({"at_least": 7.5}), false), &full());
        assert_eq!((plain.measured, plain.verdict), (Some(7.0), Verdict::Missed));
    }

    #[test]
    fn the_table_has_every_goal_and_tells_what_is_missing() {
        let table = table(&full());
        for goal in goals::all() {
            assert!(table.contains(&goal.job), "{}", goal.job);
        }
        assert!(table.contains("1 met, 0 missed"), "{table}");
        assert!(table.contains("not measured") && table.contains("see bindings/bench/run-ruby"));
    }
}
