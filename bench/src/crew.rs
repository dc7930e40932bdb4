//! The starting process's end of its workers: starts them, gives orders, gathers answers.
//!
//! Invariant: when a [`Crew`] is dropped, its processes have ended, by their own ids. Called by the
//! rounds only.

use std::{
    io::{BufRead, BufReader, Lines, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use anyhow::{Context, Result, bail, ensure};

use crate::{
    store::{Rival, Shape, Sharing},
    worker::{Answer, Done, Job, Order},
    workloads::Workload,
};

/// The hidden verb under which this program is a worker.
pub const VERB: &str = "worker";

/// All workers of one rival in one workload.
pub struct Crew {
    members: Vec<Member>,
    name: String,
    /// Bytes of memory that the processes held before the first phase.
    pub resident_bytes: u64,
}

struct Member {
    child: Child,
    // Taken at the end, as closing it is the order to finish.
    orders: Option<ChildStdin>,
    answers: Lines<BufReader<ChildStdout>>,
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
        let mut crew = Crew { members: Vec::new(), name, resident_bytes: 0 };
        for first_worker in 0..processes {
            let job = Job {
                rival: rival.name().to_owned(),
                workload: workload.name().to_owned(),
                site: PathBuf::from(site),
                shape: shape.clone(),
                first_worker,
                threads: usize::try_from(threads)?,
            };
            let mut member = Member::start().context("cannot start a worker")?;
            member.order(&serde_json::to_string(&job)?)?;
            crew.members.push(member);
        }
        for answer in crew.gather()? {
            let Answer::Ready { resident_bytes } = answer else {
                bail!("{}: a worker is not ready but says {answer:?}", crew.name)
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
            all = Some(all.map_or(done.clone(), |before| before.beside(done)));
        }
        let all = all.context("a crew without workers")?;
        ensure!(
            all.wrong == 0 && all.absent == 0,
            "{}, phase {phase}: {} wrong values and {} absent keys: its speed means nothing",
            self.name,
            all.wrong,
            all.absent
        );
        Ok(all)
    }

    /// Lets all of them leave their stores in order and end.
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

    /// One answer of each.
    fn gather(&mut self) -> Result<Vec<Answer>> {
        let name = &self.name;
        let answers = self.members.iter_mut().map(|member| match member.answer() {
            Ok(Answer::Failed(why)) => bail!("{name}: {why}"),
            other => other.with_context(|| name.clone()),
        });
        answers.collect()
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
    fn start() -> Result<Member> {
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let mut command = Command::new(program);
        command.arg(VERB).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let orders = child.stdin.take();
        let answers = child.stdout.take().context("the worker has no output")?;
        Ok(Member { child, orders, answers: BufReader::new(answers).lines() })
    }

    fn order(&mut self, line: &str) -> Result<()> {
        let orders = self.orders.as_mut().context("the worker has finished")?;
        // One write, so that the worker wakes once.
        orders.write_all(format!("{line}\n").as_bytes()).context("a worker takes no order")
    }

    fn answer(&mut self) -> Result<Answer> {
        match self.answers.next() {
            Some(line) => {
                serde_json::from_str(&line?).context("a worker's answer is not understood")
            }
            None => {
                let status = self.child.wait().context("cannot wait for a worker")?;
                bail!("a worker ended without an answer: {status}")
            }
        }
    }
}
