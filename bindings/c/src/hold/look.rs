//! A hold's statistics and lists; checking it; memory; a moment in which no process writes.

use crate::basics::json;
use crate::ffi::call::export;
use crate::ffi::{Give, OutBytes, Ref, User, View, invalid, yes};
use commonhold::Hold;
use commonhold::hold::HoldKind;
use std::ffi::c_int;
use std::os::unix::ffi::OsStrExt;

/// `ch_hold_stat`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Stat {
    file_bytes: u64,
    memory_bytes: u64,
    used_bytes: u64,
    free_bytes: u64,
    max_bytes: u64,
    participants: u32,
    maps: u32,
    others: u32,
    format: u32,
    in_memory: u32,
}

/// `ch_check_report`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Check {
    records: u64,
    allocated: u64,
    reachable: u64,
    in_flight: u64,
    segments: u64,
    maps: u32,
    others: u32,
    problems: u32,
}

/// `ch_frozen_fn`.
pub type Frozen = Option<extern "C" fn(User) -> c_int>;

export! {
    fn ch_hold_path(hold: Ref<Hold>, path: Give<View>) {
        path.needed("path")?;
        path.set(View::of(hold.get()?.path().as_os_str().as_bytes()));
        Ok(yes(true))
    }

    fn ch_hold_uuid(hold: Ref<Hold>, uuid: Give<[u8; 16]>) {
        uuid.set(hold.get()?.uuid());
        Ok(yes(true))
    }

    fn ch_hold_stat(hold: Ref<Hold>, out: Give<Stat>) {
        out.needed("stat")?;
        let stat = hold.get()?.stat()?;
        out.set(Stat {
            file_bytes: stat.file_bytes,
            memory_bytes: stat.memory_bytes,
            used_bytes: stat.used_bytes,
            free_bytes: stat.free_bytes,
            max_bytes: stat.max_bytes,
            participants: stat.participants,
            maps: stat.maps,
            others: stat.others,
            format: stat.format,
            in_memory: u32::from(stat.kind == HoldKind::Memory),
        });
        Ok(yes(true))
    }

    fn ch_hold_describe(hold: Ref<Hold>, what: u32, out: OutBytes) {
        let hold = hold.get()?;
        match what {
            0 => json(&out, &hold.stat()?),
            1 => json(&out, &hold.structures()?),
            2 => json(&out, &hold.participants()?),
            3 => json(&out, &commonhold_io::reports::reports(hold)?),
            _ => Err(invalid(format!("{what} is not a description of a hold"))),
        }
    }

    fn ch_hold_sweep(hold: Ref<Hold>, recovered: Give<usize>) {
        recovered.set(hold.get()?.sweep()?);
        Ok(yes(true))
    }

    fn ch_hold_check(hold: Ref<Hold>, report: Give<Check>, problems: OutBytes) {
        let found = hold.get()?.check()?;
        report.set(Check {
            records: found.records,
            allocated: found.allocated,
            reachable: found.reachable,
            in_flight: found.in_flight,
            segments: found.segments,
            maps: found.maps,
            others: found.others,
            problems: found.problems.len() as u32,
        });
        problems.put_if_wanted(found.problems.join("\n"))?;
        Ok(yes(found.ok))
    }

    fn ch_hold_trim(hold: Ref<Hold>, bytes: Give<u64>) {
        bytes.set(hold.get()?.trim()?);
        Ok(yes(true))
    }

    fn ch_hold_with_frozen(hold: Ref<Hold>, call: Frozen, user: User, answer: Give<c_int>) {
        let call = call.ok_or_else(|| invalid("the callback is NULL"))?;
        let frozen = hold.get()?.freeze()?;
        let said = call(user);
        drop(frozen);
        answer.set(said);
        Ok(yes(true))
    }
}
