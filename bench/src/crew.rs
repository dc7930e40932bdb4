//! The starting process's end of its workers: starts them, gives orders, gathers answers.
//!
//! Invariant: when a [`Crew`] is dropped, its processes have ended, by their own ids. Called by the
//! rounds only.

use std::{
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{self, Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::mpsc::{self, Receiver, Sender},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, anyhow, bail, ensure};

use crate::{
    rival::{Rival, Shape, Sharing},
    worker::{Answer, Done, Job, Order},
    workloads::Workload,
};

/// The hidden subcommand that makes this program a worker.
pub const VERB: &str = "worker";

/// Longer than any phase within a sensible budget.
const LIMIT: Duration = Duration::from_secs(600);

/// All workers of one rival in one workload.
pub struct Crew {
    members: Vec<Member>,
    // Of all of them, as they come: one that failed must be heard while another waits for it.
    answers: Receiver<Result<Answer>>,
    name: String,
    /// Bytes of memory that the processes held before the first phase.
    pub resident_bytes: u64,
}

struct Member {
    child: Child,
    // Taken at the end, as closing it is the order to finish.
    orders: Option<ChildStdin>,
}

impl Crew {
    /// Starts the processes and returns when all have opened their stores.
    pub fn start(
        rival: &dyn Rival,
        workload: &dyn Workload,
        site: &Path,
        shape: &Shape,
    ) -> Result<Crew> {
        let (processes, threads) = match rival.sharing() {
            Sharing::Processes => (shape.workers, 1),
            Sharing::Threads => (1, shape.workers),
        };
        let name = format!("{} in {}", rival.name(), workload.name());
        let (says, answers) = mpsc::channel();
        let mut crew = Crew { members: Vec::new(), answers, name, resident_bytes: 0 };
        for first_worker in 0..processes {
            let job = Job {
                run: process::id(),
                rival: rival.name().to_owned(),
                workload: workload.name().to_owned(),
                site: PathBuf::from(site),
                shape: shape.clone(),
                first_worker,
                threads: usize::try_from(threads)?,
            };
            let mut member = Member::start(says.clone()).context("cannot start a worker")?;
            member.order(&serde_json::to_string(&job)?)?;
            crew.members.push(member);
        }
        for answer in crew.gather()? {
            let Answer::Ready { resident_bytes } = answer else {
                bail!("{}: expected a worker to be ready, got {answer:?}", crew.name)
            };
            crew.resident_bytes += resident_bytes;
        }
        Ok(crew)
    }

    /// Lets all of them run one phase.
    pub fn run(&mut self, phase: &str) -> Result<Done> {
        let order = serde_json::to_string(&Order { phase: phase.to_owned() })?;
        for member in &mut self.members {
            member.order(&order)?;
        }
        let mut all: Option<Done> = None;
        for answer in self.gather()? {
            let Answer::Done(done) = answer else {
                bail!("{}: a worker answers phase {phase} with {answer:?}", self.name)
            };
            all = Some(all.map_or(done.clone(), |before| before.combine(done)));
        }
        let all = all.context("a crew without workers")?;
        ensure!(
            all.wrong == 0 && all.absent == 0,
            "{}, phase {phase}: {} wrong values and {} absent: its speed is meaningless",
            self.name,
            all.wrong,
            all.absent
        );
        Ok(all)
    }

    /// Lets all of them close their stores normally and end.
    pub fn finish(mut self) -> Result<()> {
        for member in &mut self.members {
            drop(member.orders.take());
        }
        for answer in self.gather()? {
            ensure!(matches!(answer, Answer::Finished), "{}: ends with {answer:?}", self.name);
        }
        for member in &mut self.members {
            let status = member.child.wait().context("cannot wait for a worker")?;
            ensure!(status.success(), "{}: a worker ended with {status}", self.name);
        }
        Ok(())
    }

    /// One answer of each, in no order.
    fn gather(&mut self) -> Result<Vec<Answer>> {
        let name = &self.name;
        let one = |_: &Member| match self.answers.recv_timeout(LIMIT) {
            Ok(Ok(Answer::Failed(why))) => bail!("{name}: {why}"),
            Ok(other) => other.with_context(|| name.clone()),
            Err(_) => bail!("{name}: no answer for {} s; a message may be lost", LIMIT.as_secs()),
        };
        self.members.iter().map(one).collect()
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        for member in &mut self.members {
            // An error means that it has ended already.
            let _ = member.child.kill();
            let _ = member.child.wait();
        }
    }
}

impl Member {
    fn start(says: Sender<Result<Answer>>) -> Result<Member> {
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let mut command = Command::new(program);
        command.arg(VERB).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let orders = child.stdin.take();
        let answers = child.stdout.take().context("the worker has no output")?;
        thread::spawn(move || listen(answers, &says));
        Ok(Member { child, orders })
    }

    fn order(&mut self, line: &str) -> Result<()> {
        let orders = self.orders.as_mut().context("the worker has finished")?;
        // One write, so that the worker wakes once.
        orders.write_all(format!("{line}\n").as_bytes()).context("a worker takes no order")
    }
}

/// Passes a worker's answers on until there are no more. Ends with the process, or with the crew.
fn listen(answers: ChildStdout, says: &Sender<Result<Answer>>) {
    let mut finished = false;
    for line in BufReader::new(answers).lines() {
        let answer = line.context("cannot hear a worker").and_then(|line| understand(&line));
        finished = matches!(answer, Ok(Answer::Finished | Answer::Failed(_)));
        if says.send(answer).is_err() {
            return;
        }
    }
    if !finished {
        // If the crew was dropped, there is no receiver.
        let _ = says.send(Err(anyhow!("a worker ended without an answer")));
    }
}

fn understand(line: &str) -> Result<Answer> {
    serde_json::from_str(line).context("a worker's answer cannot be parsed")
}
