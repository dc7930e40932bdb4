//! The summary at the end: the table and one paragraph, or one JSON object.

use super::audit::Audit;
use super::processes::{Processes, READERS, Seen, WRITERS};
use super::schedule::{KILLED, Outcome, SUSPENDED, UNDISTURBED};
use super::screen::latency_table;
use super::work::Role;
use crate::workload::latency::show;
use crate::workload::machine::Machine;
use indicatif::{HumanBytes, HumanCount};
use serde_json::{Value, json};

/// The results at the end.
pub struct Summary<'a> {
    /// The processes and the reports of the readers.
    pub processes: &'a Processes,
    /// The effects of the signals.
    pub outcome: Outcome,
    /// The findings of the audit.
    pub audit: &'a Audit,
    /// Memory that the loaded hold took, in bytes.
    pub memory_bytes: u64,
    /// How long loading took, in seconds.
    pub load_seconds: f64,
    /// The name of the hold, if it was kept.
    pub kept: Option<String>,
}

impl Summary<'_> {
    /// Whether everything was correct.
    pub fn passed(&self) -> bool {
        self.audit.passed() && self.wrong_reads() == 0
    }

    /// The table and the paragraph for people.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![String::new()];
        lines.extend(latency_table(&self.processes.seen, false));
        let cores = Machine::here().cores;
        let processes = (READERS + WRITERS) as usize;
        if processes > cores {
            lines.push(format!(
                "({processes} processes on {cores} cores: the slowest reads include waiting for a \
                 core)"
            ));
        }
        let width = usize::from(console::Term::stdout().size().1).clamp(40, 100);
        lines.extend([String::new(), wrapped(&self.paragraph(), width)]);
        lines.extend(self.problems().iter().take(20).map(|p| format!("WRONG: {p}")));
        if let Some(name) = &self.kept {
            lines.push("\nThe hold was kept. Inspect it, then drop it:".to_owned());
            lines.push(format!("  hold get {name} names 00E9\n  hold stat {name}"));
            lines.push(format!("  hold drop {name} --yes"));
        }
        lines
    }

    /// Everything as JSON.
    pub fn json(&self) -> Value {
        let Audit { records, edits, unacknowledged, recovered, check, .. } = self.audit;
        let latencies = ["before", "during", "after"].iter().zip(&self.processes.seen.latencies);
        let latencies = latencies.map(|(part, l)| {
            let of = |q| l.at(q);
            let numbers = json!({"reads": l.count(), "p50_ns": of(0.5), "p99_ns": of(0.99),
                "p999_ns": of(0.999), "max_ns": l.longest()});
            ((*part).to_owned(), numbers)
        });
        json!({
            "passed": self.passed(),
            "records": records, "acknowledged_edits": edits, "unacknowledged_changes": unacknowledged,
            "recovered_participants": recovered, "wrong_reads": self.wrong_reads(),
            "bytes_per_pair": self.bytes_per_pair(), "load_seconds": self.load_seconds,
            "suspended_ms": self.outcome.suspended_ns as f64 / 1e6,
            "edits_of_writer_1_meanwhile": self.outcome.undisturbed_edits,
            "reads": Value::Object(latencies.collect()),
            "check": {"ok": check.ok, "allocated": check.allocated, "reachable": check.reachable},
            "problems": self.problems(),
            "machine": Machine::here(),
        })
    }

    fn paragraph(&self) -> String {
        let Audit { records, edits, recovered, check, .. } = self.audit;
        let verdict = if self.passed() {
            "Nothing was lost, nothing was torn, and no process hung."
        } else {
            "FAILED: this must not happen:"
        };
        format!(
            "Summary: {} names of Unicode characters were loaded into a hold in {:.2} s. They use \
             {} of shared memory, or {:.0} bytes per pair. {READERS} reading and {WRITERS} writing \
             processes shared the hold, without a server. Writer {SUSPENDED} was suspended for {}, and \
             writer {KILLED} was killed, each at an arbitrary instruction; {} {} The processes \
             made {} reads, each verified by its checksum ({} wrong), and {} acknowledged edits. \
             At the end, every record was compared with the edits that its writer had \
             acknowledged: {}{} `hold check` found {} records allocated and {} reachable. \
             {verdict}",
            HumanCount(*records),
            self.load_seconds,
            HumanBytes(self.memory_bytes),
            self.bytes_per_pair(),
            show(self.outcome.suspended_ns),
            self.readers_sentence(),
            self.undisturbed_sentence(),
            HumanCount(self.reads()),
            self.wrong_reads(),
            HumanCount(*edits),
            self.unacknowledged_sentence(),
            recovered_sentence(*recovered),
            HumanCount(check.allocated),
            HumanCount(check.reachable),
        )
    }

    fn readers_sentence(&self) -> String {
        let median = |part: usize| show(self.processes.seen.latencies[part].at(0.5));
        format!(
            "the readers continued (median {} before, {} during the suspension, {} after).",
            median(0),
            median(1),
            median(2)
        )
    }

    fn undisturbed_sentence(&self) -> String {
        let Outcome { undisturbed_edits, undisturbed_waited_ns, .. } = self.outcome;
        if undisturbed_waited_ns < 500_000_000 {
            return format!(
                "Writer {UNDISTURBED} made {} edits in the meantime.",
                HumanCount(undisturbed_edits)
            );
        }
        format!(
            "Writer {SUSPENDED} was suspended during a write, so writer {UNDISTURBED} waited {} for its \
             lock: a suspended writer can delay writers, but never readers.",
            show(undisturbed_waited_ns)
        )
    }

    fn unacknowledged_sentence(&self) -> String {
        match (self.audit.passed(), self.audit.unacknowledged) {
            (false, _) => "there were differences.".to_owned(),
            (true, 0) => "none was missing.".to_owned(),
            (true, _) => "none was missing, and there was one more, which the killed writer \
                          committed before it could acknowledge it."
                .to_owned(),
        }
    }

    fn problems(&self) -> Vec<String> {
        let wrong = self.processes.seen.first_wrong.iter().cloned();
        wrong.chain(self.audit.problems.iter().cloned()).collect()
    }

    fn reads(&self) -> u64 {
        let readers = self.processes.members.iter().filter(|m| m.role == Role::Reader);
        readers.map(|m| m.done).sum()
    }

    fn wrong_reads(&self) -> u64 {
        let Seen { wrong, .. } = &self.processes.seen;
        wrong.iter().sum()
    }

    fn bytes_per_pair(&self) -> f64 {
        self.memory_bytes as f64 / self.audit.records.max(1) as f64
    }
}

fn recovered_sentence(recovered: usize) -> &'static str {
    match recovered {
        0 => " Another process had already recovered the dead writer's unfinished work.",
        _ => " The dead writer's unfinished work was recovered.",
    }
}

/// `text` broken into lines of at most `width` characters, unless a word is longer.
fn wrapped(text: &str, width: usize) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is a line");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_wrapped_at_words() {
        assert_eq!(wrapped("one two  three four", 9), "one two\nthree\nfour");
        assert_eq!(wrapped("a-long-word b", 5), "a-long-word\nb");
    }
}
