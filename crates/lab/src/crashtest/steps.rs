//! The named steps: every task is killed at every step that it passes, and stopped there; and the
//! process that recovers after a killed one is killed at every step of recovery, too. With
//! `--faults` every task meets every named fault.
//!
//! After each case the ledger must agree, and the check must find no leak. While a process is
//! stopped at a step, everything must be readable. A case that takes a minute counts as hung.

use super::audit::check;
use super::compare::reconcile;
use super::faults;
use super::messages::Messages;
use super::plan::{GROWING, Ledger, Maps, Order, Role, grown};
use super::reader::Reader;
use super::report::Report;
use super::tasks::{self, Task};
use crate::workload::{
    Result, RunError, say,
    temporary::TemporaryHold,
    worker::{self, Worker, was_killed},
};
use commonhold::Hold;
use commonhold::steps::{ALL, FAULTS, is_transient};
use commonhold_terminal::failure::NO;
use commonhold_terminal::interrupt::Interrupt;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A case that takes longer counts as hung.
const PATIENCE: Duration = Duration::from_secs(60);
/// The environment variable that arms a fault in a case's process.
const FAULT: &str = "COMMONHOLD_FAULT";
/// Reads of every kind while a process is stopped.
const READS: u32 = 150;

/// The orders of the process of a case.
#[derive(Serialize, Deserialize)]
pub struct Case {
    task: usize,
    hold: PathBuf,
    board: PathBuf,
    folder: PathBuf,
    seed: u64,
    starter: u32,
}

impl Case {
    /// The case that `order` names, if it is one.
    pub fn parse(order: &str) -> Option<Case> {
        serde_json::from_str(order).ok()
    }
}

/// A case's process: it runs the task, and dies or stops at the step that its environment names.
pub fn work(case: &Case) -> Result<ExitCode> {
    worker::die_with(case.starter)?;
    let order = order(&case.hold, &case.board, &case.folder);
    let ledger = Ledger::open(&order)?;
    match Task::all()[case.task].perform(&case.hold, ledger, &case.folder, case.seed) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) if std::env::var_os(FAULT).is_some() && faults::explains(&error) => {
            Ledger::open(&order)?.count_failure(order.place, 0)?;
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            say(&error.to_string())?;
            Ok(NO.into())
        }
    }
}

/// Goes through all tasks and steps; through all faults, too, if `faults`.
pub fn all(report: &mut Report, interrupt: &Interrupt, faults: bool, json: bool) -> Result<()> {
    let name = super::own_name("crashtest-steps");
    let temporary = TemporaryHold::create(&name, None, false)?;
    let hold = temporary.hold().clone();
    Maps::create(&hold)?;
    Messages::open(&hold)?;
    let ledger = Ledger::create(1)?;
    let folder = super::folder_next_to(temporary.path())?;
    let order = order(temporary.path(), ledger.board().path(), folder.path());
    let reader = Reader::open(&order, true)?;
    let mut run = Run {
        hold: &hold,
        ledger: &ledger,
        order,
        reader,
        report,
        met: HashSet::new(),
        watch: Watch::begin(),
    };
    run.report.steps = ALL.len() as u64;
    let mut shown = Instant::now();
    let tasks = Task::all();
    let count = tasks.len();
    for (number, task) in tasks.into_iter().enumerate() {
        for (step, name) in ALL.iter().enumerate() {
            if interrupt.came() {
                return Ok(());
            }
            run.step(number, task, step, name)?;
        }
        for fault in 0..if faults { FAULTS.len() } else { 0 } {
            if interrupt.came() {
                return Ok(());
            }
            run.fault(number, task, fault)?;
        }
        if shown.elapsed().as_secs() >= 10 && !json {
            shown = Instant::now();
            say(&format!(
                "  task {} of {count}, {} cases at named steps; no error so far",
                number + 1,
                run.report.step_cases
            ))?;
        }
    }
    let unmet: Vec<&str> = ALL.iter().copied().filter(|name| !run.met.contains(name)).collect();
    if !unmet.is_empty() && !json {
        say(&format!("  steps that no task passed: {}", unmet.join(" ")))?;
    }
    Ok(())
}

fn order(hold: &Path, board: &Path, folder: &Path) -> Order {
    Order {
        role: Role::Reader { read_only: true },
        place: 0,
        lanes: 1,
        seed: 1,
        hold: hold.to_owned(),
        board: board.to_owned(),
        folder: folder.to_owned(),
        faults: false,
        starter: std::process::id(),
    }
}

struct Run<'a> {
    hold: &'a Hold,
    ledger: &'a Ledger,
    order: Order,
    reader: Reader,
    report: &'a mut Report,
    met: HashSet<&'static str>,
    watch: Watch,
}

impl Run<'_> {
    /// All cases of one task at one step.
    fn step(&mut self, number: usize, task: Task, step: usize, name: &'static str) -> Result<()> {
        // Not always the first passing; later ones find other states.
        let seed = (number * ALL.len() + step) as u64;
        for passing in [1, 2 + seed % 3] {
            let what = format!("{task:?} killed at {name}:{passing}");
            if !self.killed(number, &format!("{name}:kill:{passing}"), seed, &what)? {
                break;
            }
            self.meet(name);
            self.reconciled(&what)?;
            let what = format!("{task:?} suspended at {name}:{passing}");
            self.stopped(number, &format!("{name}:stop:{passing}"), seed, &what)?;
        }
        if self.met.contains(name) && task != Task::Sweep {
            self.recoverers_killed(number, task, name, seed)?;
        }
        Ok(())
    }

    /// The task meets a fault, with one error after another as tasks go by.
    fn fault(&mut self, number: usize, task: Task, fault: usize) -> Result<()> {
        let (name, errors) = FAULTS[fault];
        let seed = (number * FAULTS.len() + fault) as u64;
        let error = errors[(number / 2 + fault) % errors.len()];
        let once = number.is_multiple_of(2) || is_transient(error);
        let how = if once { "once" } else { "always" };
        let what = format!("{task:?} with {name}:{error}:{how}");
        self.watch.case(&what);
        self.prepare()?;
        let mut worker = self.start_with(FAULT, number, &format!("{name}:{error}:{how}"), seed)?;
        self.report.fault_cases += 1;
        self.ended(&mut worker, &what)?;
        self.report.failures = self.ledger.failures()?;
        self.reconciled(&what)
    }

    fn meet(&mut self, name: &'static str) {
        self.met.insert(name);
        self.report.steps_met = self.met.len() as u64;
    }

    /// Runs the task with `spec` armed; whether it was killed there.
    fn killed(&mut self, task: usize, spec: &str, seed: u64, what: &str) -> Result<bool> {
        self.watch.case(what);
        self.prepare()?;
        let mut worker = self.start(task, spec, seed)?;
        self.report.step_cases += 1;
        self.ended(&mut worker, what)
    }

    /// Kills the task, then the process that recovers after it, at one step of recovery after
    /// another.
    fn recoverers_killed(
        &mut self,
        number: usize,
        task: Task,
        name: &str,
        seed: u64,
    ) -> Result<()> {
        let sweep = Task::all().iter().position(|t| *t == Task::Sweep).expect("there is a sweep");
        for recovery in ALL.iter().filter(|s| s.starts_with("recover.") || s.starts_with("slot.")) {
            let what = format!("{task:?} killed at {name}, its recoverer at {recovery}");
            if !self.killed(number, &format!("{name}:kill"), seed, &what)? {
                return Ok(());
            }
            let mut recoverer = self.start(sweep, &format!("{recovery}:kill"), seed)?;
            if self.ended(&mut recoverer, &what)? {
                self.meet(recovery);
            }
            self.reconciled(&what)?;
        }
        Ok(())
    }

    /// Stops the task at the step, reads everything, and lets it continue or kills it.
    fn stopped(&mut self, task: usize, spec: &str, seed: u64, what: &str) -> Result<()> {
        self.watch.case(what);
        self.prepare()?;
        let mut worker = self.start(task, spec, seed)?;
        self.report.step_cases += 1;
        if worker.stands_still()? {
            for _ in 0..READS {
                self.reader.step().map_err(|error| during(what, &error))?;
            }
            if seed.is_multiple_of(2) {
                worker.go_on()?;
            } else {
                worker.kill()?;
            }
        }
        self.ended(&mut worker, what)?;
        self.reconciled(what)
    }

    /// Growing maps start empty now and then, so that splits and doublings occur again.
    fn prepare(&mut self) -> Result<()> {
        for (which, name) in GROWING.into_iter().enumerate() {
            if self.ledger.head(0, grown(which))? > 4000 {
                self.hold.maps().drop(name)?;
                self.ledger.set_head(0, grown(which), 0)?;
                Maps::create(self.hold)?;
                self.reader = Reader::open(&self.order, true)?;
            }
        }
        Ok(())
    }

    fn start(&self, task: usize, spec: &str, seed: u64) -> Result<Worker> {
        self.start_with("COMMONHOLD_STEP", task, spec, seed)
    }

    fn start_with(&self, armed: &str, task: usize, spec: &str, seed: u64) -> Result<Worker> {
        let case = Case {
            task,
            hold: self.order.hold.clone(),
            board: self.order.board.clone(),
            folder: self.order.folder.clone(),
            seed,
            starter: self.order.starter,
        };
        let case = serde_json::to_string(&case)?;
        let args = ["crashtest".to_owned(), "--worker".to_owned(), case];
        Worker::start("the process", &args, &[(armed, spec)])
    }

    /// Waits for its end; returns whether it was killed. Its last lines are a finding.
    fn ended(&self, worker: &mut Worker, what: &str) -> Result<bool> {
        if let Ok(words) = worker.lines().recv() {
            return Err(RunError::new(format!("{what}: {words}")));
        }
        let status = worker.wait()?;
        if !status.success() && !was_killed(status) {
            return Err(worker::ended(&format!("{what}: ended badly"), status));
        }
        Ok(was_killed(status))
    }

    /// Recovers and compares everything.
    fn reconciled(&mut self, what: &str) -> Result<()> {
        let here = |error: RunError| during(what, &error);
        self.report.recovered += self.hold.sweep().map_err(|e| here(e.into()))? as u64;
        check(self.hold).map_err(here)?;
        let maps = Maps::open(self.hold)?;
        self.report.unacknowledged += reconcile(0, self.ledger, &maps, true).map_err(here)?;
        Messages::open(self.hold).and_then(|messages| messages.look()).map_err(here)?;
        match tasks::look(self.hold).map_err(here)? {
            Some(wrong) => Err(here(RunError::new(wrong))),
            None => Ok(()),
        }
    }
}

fn during(what: &str, error: &RunError) -> RunError {
    RunError::new(format!("{what}: {error}"))
}

/// Ends the program if a case hangs: the supervisor itself reads and sweeps, so it cannot do this.
struct Watch(Arc<Mutex<(String, Instant)>>);

impl Watch {
    fn begin() -> Watch {
        let state = Arc::new(Mutex::new((String::new(), Instant::now())));
        let watched = Arc::downgrade(&state);
        std::thread::spawn(move || {
            while let Some(state) = watched.upgrade() {
                let (what, since) = state.lock().expect("no thread panics with it").clone();
                drop(state);
                if since.elapsed() > PATIENCE {
                    commonhold_terminal::failure::complain(&format!("{what}: hangs"));
                    std::process::exit(NO.into());
                }
                std::thread::sleep(Duration::from_millis(200));
            }
        });
        Watch(state)
    }

    fn case(&self, what: &str) {
        *self.0.lock().expect("no thread panics with it") = (what.to_owned(), Instant::now());
    }
}
