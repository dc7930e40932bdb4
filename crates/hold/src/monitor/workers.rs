//! Workers of file servers, as they report themselves.
//!
//! A worker counts from its own start, and its report disappears soon after its end. So its last
//! report stays here and is part of the sums: they never decrease. A worker that was silent
//! (because it was stopped, for example) and reports again is the same one, by its id.

use crate::report::latency_buckets::Buckets;
use commonhold_files::{Counts, ServerReport};
use commonhold_io::reports::Report;
use std::collections::BTreeMap;
use std::time::Duration;

/// The number of dead workers that are known one by one; older ones only as a sum.
const MOST_GONE: usize = 1000;
/// For a new worker that is younger than this, all its work counts as recent.
const YOUNG: Duration = Duration::from_secs(3);

/// One worker.
#[derive(Clone, Debug)]
pub struct Worker {
    /// The name of the served directory.
    pub place: String,
    /// See [`Report::id`].
    pub id: String,
    /// Its last report.
    pub says: ServerReport,
    /// Its latencies.
    pub latency: Buckets,
    /// Its work between its last two reports.
    pub recent: Recent,
    /// Whether it still reports; if not, when it was seen last, as a count of checks.
    silent_since: Option<u64>,
}

/// The rates of a short time.
#[derive(Clone, Debug, Default)]
pub struct Recent {
    pub requests: f64,
    pub hits: f64,
    pub misses: f64,
    pub errors: f64,
    pub bytes: f64,
    pub latency: Buckets,
}

/// Workers of one place together, with those that are gone.
#[derive(Clone, Debug, Default)]
pub struct Sum {
    /// That are there.
    pub workers: u64,
    /// `open` is of those that are there.
    pub counts: Counts,
    pub latency: Buckets,
    pub cache: CacheSum,
}

/// The caches of one place.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub struct CacheSum {
    pub entries: u64,
    pub bytes: u64,
    pub limit_bytes: u64,
    pub evicted: u64,
    pub refused: u64,
}

/// All workers that are or were there.
#[derive(Debug, Default)]
pub struct Workers {
    known: BTreeMap<String, Worker>,
    /// Of those that are not known one by one any more, by place.
    forgotten: BTreeMap<String, Sum>,
    looks: u64,
}

/// Answers that failed or were incomplete.
pub fn errors(counts: &Counts) -> u64 {
    counts.refused.saturating_add(counts.broken).saturating_add(counts.timed_out)
}

/// The share of look-ups that found a pair; `None` if there were none.
pub fn hit_rate(hits: f64, misses: f64) -> Option<f64> {
    (hits + misses > 0.0).then(|| hits / (hits + misses))
}

impl Workers {
    /// Reads the present reports; returns the latencies of new answers.
    pub fn learn(&mut self, reports: &[Report]) -> Buckets {
        self.looks += 1;
        let mut new = Buckets::default();
        let mut silent: Vec<String> = self.known.keys().cloned().collect();
        for report in reports.iter().filter(|report| report.what == "server") {
            // An invalid report is from another version.
            if let Ok(says) = serde_json::from_value::<ServerReport>(report.says.clone()) {
                silent.retain(|id| *id != report.id);
                new.add(&self.add_report(report, says));
            }
        }
        for id in silent {
            if let Some(worker) = self.known.get_mut(&id) {
                worker.recent = Recent::default();
                worker.silent_since.get_or_insert(self.looks);
            }
        }
        self.forget();
        new
    }

    /// The latencies of the answers that this report has and the previous one had not.
    fn add_report(&mut self, report: &Report, says: ServerReport) -> Buckets {
        let latency = Buckets::of(&says.latency_us);
        let before = self.known.get(&report.id);
        let recent = match before {
            Some(before) if before.says.running_ms >= says.running_ms => {
                let again = self.known.get_mut(&report.id);
                again.into_iter().for_each(|worker| worker.silent_since = None);
                return Buckets::default();
            }
            Some(before) => Recent::between(&before.says, &before.latency, &says, &latency),
            None if u128::from(says.running_ms) <= YOUNG.as_millis() => {
                Recent::between(&ServerReport::default(), &Buckets::default(), &says, &latency)
            }
            None => Recent::default(),
        };
        let new = recent.latency.clone();
        let (place, id) = (report.map.clone(), report.id.clone());
        let worker = Worker { place, id: id.clone(), says, latency, recent, silent_since: None };
        self.known.insert(id, worker);
        new
    }

    /// Keeps those that are gone as a sum, if there are too many.
    fn forget(&mut self) {
        let gone = self.known.values().filter(|worker| worker.silent_since.is_some());
        let mut gone: Vec<_> = gone.map(|w| (w.silent_since, w.id.clone())).collect();
        gone.sort();
        gone.truncate(gone.len().saturating_sub(MOST_GONE));
        for (_, id) in gone {
            if let Some(worker) = self.known.remove(&id) {
                self.forgotten.entry(worker.place.clone()).or_default().count(&worker);
            }
        }
    }

    /// Those that are there, by place, then by age.
    pub fn present(&self) -> Vec<&Worker> {
        let present = self.known.values().filter(|worker| worker.silent_since.is_none());
        let mut present: Vec<_> = present.collect();
        present.sort_by(|a, b| {
            a.place
                .cmp(&b.place)
                .then(b.says.running_ms.cmp(&a.says.running_ms))
                .then(a.id.cmp(&b.id))
        });
        present
    }

    /// The recent work of all.
    pub fn recent(&self) -> Recent {
        let mut sum = Recent::default();
        self.present().iter().for_each(|worker| sum.add(&worker.recent));
        sum
    }

    /// The sums, by place.
    pub fn sums(&self) -> BTreeMap<String, Sum> {
        let mut sums = self.forgotten.clone();
        for worker in self.known.values() {
            sums.entry(worker.place.clone()).or_default().count(worker);
        }
        for (place, sum) in &mut sums {
            let caches = self.known.values().filter(|worker| worker.place == *place);
            sum.cache = cache_of(&caches.collect::<Vec<_>>(), sum.cache);
        }
        sums
    }
}

impl Sum {
    /// Adds one worker, without its cache.
    fn count(&mut self, worker: &Worker) {
        let is_here = worker.silent_since.is_none();
        self.workers += u64::from(is_here);
        self.latency.add(&worker.latency);
        let open = if is_here { worker.says.counts.open } else { 0 };
        add_counts(&mut self.counts, &Counts { open, ..worker.says.counts });
    }

    /// Adds those of another place.
    pub fn add(&mut self, other: &Sum) {
        self.workers += other.workers;
        self.latency.add(&other.latency);
        add_counts(&mut self.counts, &other.counts);
        self.cache = self.cache.and(other.cache);
    }
}

fn add_counts(sum: &mut Counts, one: &Counts) {
    for (all, one) in [
        (&mut sum.requests, one.requests),
        (&mut sum.hits, one.hits),
        (&mut sum.misses, one.misses),
        (&mut sum.not_found, one.not_found),
        (&mut sum.refused, one.refused),
        (&mut sum.broken, one.broken),
        (&mut sum.bytes, one.bytes),
        (&mut sum.accepted, one.accepted),
        (&mut sum.timed_out, one.timed_out),
        (&mut sum.open, one.open),
    ] {
        *all = all.saturating_add(one);
    }
}

impl CacheSum {
    fn and(self, other: CacheSum) -> CacheSum {
        CacheSum {
            entries: self.entries.saturating_add(other.entries),
            bytes: self.bytes.saturating_add(other.bytes),
            limit_bytes: self.limit_bytes.saturating_add(other.limit_bytes),
            evicted: self.evicted.saturating_add(other.evicted),
            refused: self.refused.saturating_add(other.refused),
        }
    }
}

/// The contents of caches: one in a hold is the same for all workers; of other kinds each process
/// has its own, which its threads share.
fn cache_of(workers: &[&Worker], before: CacheSum) -> CacheSum {
    let mut by_process: BTreeMap<u32, CacheSum> = BTreeMap::new();
    let mut shared = CacheSum::default();
    for worker in workers {
        let (says, store) = (&worker.says, &worker.says.store);
        let is_here = worker.silent_since.is_none();
        let own = by_process.entry(says.pid).or_default();
        own.refused = own.refused.max(store.refused);
        let is_shared = says.cache == "hold";
        // A map that evicts by itself counts that for all.
        match is_shared && says.eviction == "lockfree" {
            true => shared.evicted = shared.evicted.max(store.evicted),
            false => own.evicted = own.evicted.max(store.evicted),
        }
        if is_here {
            let has = if is_shared { &mut shared } else { own };
            has.entries = has.entries.max(store.entries);
            has.bytes = has.bytes.max(store.bytes);
            has.limit_bytes = has.limit_bytes.max(store.limit_bytes);
        }
    }
    by_process.values().chain([&shared]).fold(before, |sum, one| sum.and(*one))
}

impl Recent {
    fn between(
        before: &ServerReport,
        earlier: &Buckets,
        now: &ServerReport,
        latency: &Buckets,
    ) -> Recent {
        let seconds = now.running_ms.saturating_sub(before.running_ms).max(1) as f64 / 1000.0;
        let (was, is) = (&before.counts, &now.counts);
        let rate = |is: u64, was: u64| is.saturating_sub(was) as f64 / seconds;
        Recent {
            requests: rate(is.requests, was.requests),
            hits: rate(is.hits, was.hits),
            misses: rate(is.misses, was.misses),
            errors: rate(errors(is), errors(was)),
            bytes: rate(is.bytes, was.bytes),
            latency: latency.since(earlier),
        }
    }

    fn add(&mut self, other: &Recent) {
        self.requests += other.requests;
        self.hits += other.hits;
        self.misses += other.misses;
        self.errors += other.errors;
        self.bytes += other.bytes;
        self.latency.add(&other.latency);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(id: &str, running_ms: u64, requests: u64) -> Report {
        let counts = Counts { requests, hits: requests, open: 1, ..Counts::default() };
        let says = ServerReport {
            running_ms,
            counts,
            latency_us: vec![(10, requests)],
            ..ServerReport::default()
        };
        let (what, map) = ("server".to_owned(), "dir".to_owned());
        let says = serde_json::to_value(says).expect("JSON");
        Report { what, map, id: id.to_owned(), says }
    }

    fn requests(workers: &Workers) -> u64 {
        workers.sums().get("dir").map_or(0, |sum| sum.counts.requests)
    }

    #[test]
    fn sums_keep_dead_workers_and_count_each_once() {
        let mut workers = Workers::default();
        workers.learn(&[report("1-a", 1000, 100), report("2-b", 1000, 10)]);
        assert_eq!((requests(&workers), workers.sums()["dir"].counts.open), (110, 2));
        workers.learn(&[report("2-b", 2000, 20)]);
        assert_eq!((requests(&workers), workers.sums()["dir"].counts.open), (120, 1));
        assert_eq!(workers.sums()["dir"].workers, 1);
        // It was only stopped.
        workers.learn(&[report("1-a", 9000, 150), report("2-b", 3000, 20)]);
        assert_eq!((requests(&workers), workers.sums()["dir"].workers), (170, 2));
    }

    #[test]
    fn many_that_are_gone_become_a_sum() {
        let mut workers = Workers::default();
        for number in 0..MOST_GONE as u64 + 10 {
            workers.learn(&[report(&format!("{number}-x"), 1000, 1)]);
        }
        workers.learn(&[]);
        assert_eq!(requests(&workers), MOST_GONE as u64 + 10);
        assert_eq!(workers.known.len(), MOST_GONE);
    }

    #[test]
    fn rates_are_between_two_reports() {
        let mut workers = Workers::default();
        workers.learn(&[report("1-a", 60_000, 1000)]);
        assert_eq!(workers.recent().requests, 0.0);
        let new = workers.learn(&[report("1-a", 62_000, 1100)]);
        assert_eq!((workers.recent().requests, new.count()), (50.0, 100));
        // Nothing new is reported.
        let new = workers.learn(&[report("1-a", 62_000, 1100)]);
        assert_eq!((workers.recent().requests, new.count()), (50.0, 0));
        workers.learn(&[]);
        assert_eq!(workers.recent().requests, 0.0);
    }
}
