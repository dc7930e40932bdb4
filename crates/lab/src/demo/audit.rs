//! The audit at the end: every record compared with the acknowledged edits, and the hold's own
//! check.
//!
//! Each acknowledged edit must be there, exactly. The killed writer may have had one more edit
//! that was committed but not yet acknowledged to it: one, on one character, and nothing else.

use super::entry;
use super::names::Character;
use super::processes::WRITERS;
use super::schedule::KILLED;
use super::work::{ACKNOWLEDGED, COUNTED, COUNTS, EDITS, NAMES};
use crate::workload::{Result, board::Board};
use commonhold::Hold;
use commonhold::hold::CheckReport;

/// The findings of the audit.
pub struct Audit {
    /// Records read and compared.
    pub records: u64,
    /// Edits that were acknowledged to writers.
    pub edits: u64,
    /// Committed edits and increments whose killed writer did not live to see the acknowledgement.
    pub unacknowledged: u64,
    /// Dead participants that still had to be recovered.
    pub recovered: usize,
    /// The hold's own check.
    pub check: CheckReport,
    /// The errors, in words.
    pub problems: Vec<String>,
}

impl Audit {
    /// Whether nothing is wrong.
    pub fn passed(&self) -> bool {
        self.problems.is_empty()
    }
}

/// Compares all of `hold` with the board.
pub fn audit(hold: &Hold, board: &Board, characters: &[Character]) -> Result<Audit> {
    let recovered = hold.sweep()?;
    let check = hold.check()?;
    let problems = check.problems.iter().map(|p| format!("hold check: {p}")).collect();
    let mut audit = Audit { records: 0, edits: 0, unacknowledged: 0, recovered, check, problems };
    audit.look_at_check();
    audit.compare_names(hold, board, characters)?;
    audit.compare_count(hold, board)?;
    if audit.unacknowledged > 1 {
        audit
            .problems
            .push("the killed writer left more than one unacknowledged change".to_owned());
    }
    Ok(audit)
}

impl Audit {
    fn look_at_check(&mut self) {
        let CheckReport { ok, allocated, reachable, .. } = self.check;
        if !ok && self.problems.is_empty() {
            self.problems.push("hold check: failed without a reason".to_owned());
        }
        if allocated != reachable {
            let text = format!("hold check: {allocated} records allocated, {reachable} reachable");
            self.problems.push(text);
        }
    }

    fn compare_names(&mut self, hold: &Hold, board: &Board, all: &[Character]) -> Result<()> {
        let names = hold.maps().open(NAMES)?;
        let acknowledged = board.get_row(ACKNOWLEDGED, all.len() as u64)?;
        let mut ahead = 0;
        for (place, (character, acknowledged)) in all.iter().zip(acknowledged).enumerate() {
            let writer = place as u32 % WRITERS + 1;
            let value = names.get(character.code_point)?;
            self.records += 1;
            self.edits += acknowledged;
            match compare(*character, value.as_deref(), acknowledged, writer) {
                Ok(false) => {}
                Ok(true) if writer == KILLED && ahead == 0 => ahead = 1,
                Ok(true) => {
                    self.wrong(character, "the record has an edit that was not acknowledged")
                }
                Err(why) => self.wrong(character, &why),
            }
        }
        self.unacknowledged += ahead;
        let len = names.len()?;
        if len != all.len() as u64 {
            self.problems.push(format!("map {NAMES} reports {len} keys; expected {}", all.len()));
        }
        Ok(())
    }

    fn compare_count(&mut self, hold: &Hold, board: &Board) -> Result<()> {
        let acknowledged: u64 = board.get_row(COUNTED, WRITERS.into())?.iter().sum();
        let value = hold.maps().open(COUNTS)?.get(EDITS)?;
        let there = match value.as_deref().map(<[u8; 8]>::try_from) {
            Some(Ok(bytes)) => u64::from_le_bytes(bytes),
            Some(Err(_)) => u64::MAX,
            None => 0,
        };
        match there.wrapping_sub(acknowledged) {
            ahead @ (0 | 1) => self.unacknowledged += ahead,
            _ => self.problems.push(format!(
                "the shared counter is {there} after {acknowledged} acknowledged increments"
            )),
        }
        Ok(())
    }

    fn wrong(&mut self, character: &Character, why: &str) {
        self.problems.push(format!("character {}: {why}", character.code_point));
    }
}

/// Whether the record is as acknowledged (false) or one edit ahead (true), or the error in it.
fn compare(
    character: Character,
    value: Option<&[u8]>,
    acknowledged: u64,
    writer: u32,
) -> std::result::Result<bool, String> {
    let edit = entry::read(value.ok_or("the record is lost")?, character)?;
    let number = u64::from(edit.number);
    if number > 0 && edit.writer != writer {
        return Err(format!("writer {} edited it, but does not own it", edit.writer));
    }
    match number.checked_sub(acknowledged) {
        Some(ahead @ (0 | 1)) => Ok(ahead == 1),
        _ => Err(format!("the record has edit {number}, but edit {acknowledged} was acknowledged")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::entry::Edit;
    use super::*;

    const A: Character = Character { code_point: "0061", name: "LATIN SMALL LETTER A" };

    fn after(number: u32, acknowledged: u64, writer: u32) -> std::result::Result<bool, String> {
        let mut value = Vec::new();
        entry::write(&mut value, A, Edit { number, writer: 2 });
        compare(A, Some(&value), acknowledged, writer)
    }

    #[test]
    fn lost_and_invented_edits_are_distinguished_from_unacknowledged_ones() {
        assert_eq!(after(5, 5, 2), Ok(false));
        assert_eq!(after(6, 5, 2), Ok(true));
        assert!(after(4, 5, 2).unwrap_err().contains("edit 5 was acknowledged"));
        assert!(after(7, 5, 2).is_err());
        assert!(after(5, 5, 1).is_err());
        assert_eq!(compare(A, None, 0, 1), Err("the record is lost".to_owned()));
    }
}
