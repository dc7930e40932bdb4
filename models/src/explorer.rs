//! The explicit-state explorer: visits every state that a model can reach, breadth first.
//!
//! A model is a set of processes over one shared state. Any process may take its next atomic step at
//! any time, and any process may be killed before any of its steps, recoverers included, as long as
//! the bound on kills allows. Memory is sequentially consistent here; orderings are argued in docs/internals/concurrency.md.
//!
//! Invariant: a state is checked once, when it is first reached. States are remembered by a 64-bit
//! fingerprint, not in full: with ten million states the chance that two share one is 3 in a million.
//! Every counterexample is replayed from the initial state, so what is printed did happen.
//!
//! Anybody may call it; the models of this crate implement [`Model`].

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::{BuildHasherDefault, Hash, Hasher};

/// What a process is doing, as far as the explorer must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It has steps left, though it may be waiting for others just now.
    Running,
    /// It has done everything it was asked to do, or was killed.
    Gone,
}

/// A protocol, written as the atomic steps of its processes.
pub trait Model {
    /// Shared memory, the private state of every process, and what the checks must remember.
    type State: Clone + Eq + Hash + fmt::Debug;

    /// Where every exploration begins.
    fn initial(&self) -> Self::State;

    /// How many processes there are.
    fn processes(&self) -> usize;

    /// Whether `process` still has something to do in `state`.
    fn status(&self, state: &Self::State, process: usize) -> Status;

    /// Lets `process` take its next atomic step. Returns false if it has to wait; the state is then
    /// thrown away.
    fn step(&self, state: &mut Self::State, process: usize) -> bool;

    /// Kills `process`. Returns false if a kill would change nothing.
    fn kill(&self, state: &mut Self::State, process: usize) -> bool;

    /// Checked at every state.
    ///
    /// # Errors
    /// What is wrong, in words.
    fn invariant(&self, state: &Self::State) -> Result<(), String>;

    /// Checked when no process can move. A model whose dead leave something behind lets a sweeper
    /// clean up first.
    ///
    /// # Errors
    /// What is wrong, in words.
    fn at_rest(&self, state: &Self::State) -> Result<(), String>;

    /// The next step of `process` in words, for the trace.
    fn describe(&self, state: &Self::State, process: usize) -> String;
}

/// How far an exploration goes.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// At most this many processes are killed in one run.
    pub kills: u8,
    /// Reaching more states than this is an error, never a silent end.
    pub states: usize,
}

impl Bounds {
    /// At most `kills` kills, and as many states as a test can afford.
    #[must_use]
    pub fn kills(kills: u8) -> Self {
        Bounds { kills, states: 30_000_000 }
    }
}

/// What a complete exploration saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Explored {
    /// Different states.
    pub states: usize,
    /// Steps and kills between them.
    pub transitions: usize,
    /// States in which no process can move.
    pub rests: usize,
    /// Length of the longest shortest path.
    pub depth: usize,
}

/// A run that breaks the protocol.
#[derive(Clone, Debug)]
pub struct Counterexample {
    /// What is wrong at its end.
    pub reason: String,
    /// The steps that lead there, one a line.
    pub trace: Vec<String>,
    /// The state at its end.
    pub state: String,
}

impl fmt::Display for Counterexample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} after {} steps:", self.reason, self.trace.len())?;
        for (number, line) in self.trace.iter().enumerate() {
            writeln!(f, "  {:>3}  {line}", number + 1)?;
        }
        write!(f, "state: {}", self.state)
    }
}

/// Visits every state of `model` within `bounds`.
///
/// # Errors
/// The shortest run that breaks an invariant, hangs, or can never come to rest again.
pub fn explore<M: Model>(model: &M, bounds: Bounds) -> Result<Explored, Box<Counterexample>> {
    let mut search = Search::new(model, bounds);
    search.add(ROOT, 0, model.initial(), 0)?;
    while let Some((index, state, kills)) = search.frontier.pop_front() {
        search.expand(index, &state, kills)?;
    }
    search.every_state_can_rest()?;
    Ok(search.explored)
}

/// Lets `process` alone take its steps until `over`, and checks the invariant after each.
///
/// # Errors
/// What the invariant found, or that the process has to wait.
pub fn run_alone<M: Model>(
    model: &M,
    state: &mut M::State,
    process: usize,
    over: impl Fn(&M::State) -> bool,
) -> Result<(), String> {
    while !over(state) {
        if !model.step(state, process) {
            let at = model.describe(state, process);
            return Err(format!("P{process} alone waits forever at {at}"));
        }
        model.invariant(state)?;
    }
    Ok(())
}

const ROOT: u32 = u32::MAX;
const KILLED: u8 = 0x80;

/// A hasher for keys that are hashes already.
#[derive(Default)]
struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {
        unreachable!("only fingerprints are stored");
    }
    fn write_u64(&mut self, fingerprint: u64) {
        self.0 = fingerprint;
    }
}

struct Search<'m, M: Model> {
    model: &'m M,
    bounds: Bounds,
    seen: HashMap<u64, u32, BuildHasherDefault<AsIs>>,
    /// How each state was first reached: the state before, the process, and whether it was killed.
    parents: Vec<(u32, u8)>,
    /// Steps (not kills), for the check that every state can come to rest.
    edges: Vec<(u32, u32)>,
    resting: Vec<u32>,
    depths: Vec<u16>,
    frontier: VecDeque<(u32, M::State, u8)>,
    explored: Explored,
}

impl<'m, M: Model> Search<'m, M> {
    fn new(model: &'m M, bounds: Bounds) -> Self {
        Search {
            model,
            bounds,
            seen: HashMap::default(),
            parents: Vec::new(),
            edges: Vec::new(),
            resting: Vec::new(),
            depths: Vec::new(),
            frontier: VecDeque::new(),
            explored: Explored::default(),
        }
    }

    /// Remembers a state; checks it if it is new.
    fn add(
        &mut self,
        parent: u32,
        choice: u8,
        state: M::State,
        kills: u8,
    ) -> Result<u32, Box<Counterexample>> {
        let fingerprint = fingerprint(&state, kills);
        if let Some(&index) = self.seen.get(&fingerprint) {
            return Ok(index);
        }
        let index = u32::try_from(self.parents.len()).expect("fewer than 2^32 states");
        self.seen.insert(fingerprint, index);
        self.parents.push((parent, choice));
        let depth = if parent == ROOT { 0 } else { self.depths[parent as usize] + 1 };
        self.depths.push(depth);
        self.explored.states += 1;
        self.explored.depth = self.explored.depth.max(depth as usize);
        if let Err(reason) = self.model.invariant(&state) {
            return Err(self.counterexample(index, reason));
        }
        if self.explored.states > self.bounds.states {
            return Err(self.counterexample(index, "too many states for the bounds given".into()));
        }
        self.frontier.push_back((index, state, kills));
        Ok(index)
    }

    /// Follows every step and every kill out of one state.
    fn expand(
        &mut self,
        index: u32,
        state: &M::State,
        kills: u8,
    ) -> Result<(), Box<Counterexample>> {
        let mut moved = false;
        for process in 0..self.model.processes() {
            if self.model.status(state, process) == Status::Gone {
                continue;
            }
            let choice = u8::try_from(process).expect("few processes");
            let mut next = state.clone();
            if self.model.step(&mut next, process) {
                moved = true;
                self.explored.transitions += 1;
                let to = self.add(index, choice, next, kills)?;
                self.edges.push((index, to));
            }
            let mut next = state.clone();
            if kills < self.bounds.kills && self.model.kill(&mut next, process) {
                self.explored.transitions += 1;
                self.add(index, choice | KILLED, next, kills + 1)?;
            }
        }
        if !moved {
            self.rest(index, state)?;
        }
        Ok(())
    }

    fn rest(&mut self, index: u32, state: &M::State) -> Result<(), Box<Counterexample>> {
        self.explored.rests += 1;
        self.resting.push(index);
        let stuck =
            (0..self.model.processes()).find(|&p| self.model.status(state, p) == Status::Running);
        let verdict = match stuck {
            Some(p) => Err(format!("P{p} waits forever at {}", self.model.describe(state, p))),
            None => self.model.at_rest(state),
        };
        verdict.map_err(|reason| self.counterexample(index, reason))
    }

    /// No livelock: from every state some run without further kills comes to rest.
    fn every_state_can_rest(&mut self) -> Result<(), Box<Counterexample>> {
        let states = self.parents.len();
        let mut starts = vec![0u32; states + 1];
        for &(_, to) in &self.edges {
            starts[to as usize + 1] += 1;
        }
        for i in 0..states {
            starts[i + 1] += starts[i];
        }
        let mut sources = vec![0u32; self.edges.len()];
        let mut filled = starts.clone();
        for &(from, to) in &self.edges {
            sources[filled[to as usize] as usize] = from;
            filled[to as usize] += 1;
        }
        let mut rests = vec![false; states];
        let mut todo = std::mem::take(&mut self.resting);
        todo.iter().for_each(|&i| rests[i as usize] = true);
        while let Some(i) = todo.pop() {
            for &from in &sources[starts[i as usize] as usize..starts[i as usize + 1] as usize] {
                if !std::mem::replace(&mut rests[from as usize], true) {
                    todo.push(from);
                }
            }
        }
        match rests.iter().position(|&can| !can) {
            None => Ok(()),
            Some(i) => Err(self.counterexample(
                u32::try_from(i).expect("fewer than 2^32 states"),
                "no run from here ever comes to rest".into(),
            )),
        }
    }

    /// Replays the way to a state.
    fn counterexample(&self, index: u32, reason: String) -> Box<Counterexample> {
        let mut choices = Vec::new();
        let mut at = index;
        while self.parents[at as usize].0 != ROOT {
            let (parent, choice) = self.parents[at as usize];
            choices.push(choice);
            at = parent;
        }
        let mut state = self.model.initial();
        let mut trace = Vec::new();
        for choice in choices.into_iter().rev() {
            let process = usize::from(choice & !KILLED);
            let what = self.model.describe(&state, process);
            if choice & KILLED == 0 {
                trace.push(format!("P{process}  {what}"));
                assert!(
                    self.model.step(&mut state, process),
                    "the replay must take the same steps"
                );
            } else {
                trace.push(format!("P{process}  KILLED before {what}"));
                assert!(self.model.kill(&mut state, process), "the replay must kill the same");
            }
        }
        Box::new(Counterexample { reason, trace, state: format!("{state:#?}") })
    }
}

fn fingerprint<S: Hash>(state: &S, kills: u8) -> u64 {
    let mut hasher = rapidhash::quality::RapidHasher::default();
    state.hash(&mut hasher);
    hasher.write_u8(kills);
    hasher.finish()
}
