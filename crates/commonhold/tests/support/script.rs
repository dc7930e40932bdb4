//! Operations, the model that says what they answer, and running them.
//!
//! A script is a list of [`Op`]s whose every answer is known beforehand, because its keys are written
//! by nobody else. A child that runs a script reports on a [`Board`] how far it is; from that number
//! alone the parent knows what must be found after the child's death ([`Expected`]).

use super::Dice;
use super::process::Board;
use super::shape::{COUNTER, Shape};
use commonhold::Result;
use commonhold::map::Map;
use std::collections::HashMap;

/// Key number to version.
pub type Model = HashMap<u32, u64>;

/// One operation on a map; numbers are those of [`Shape`].
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// `get`
    Get(u32),
    /// `set`
    Set(u32, u64),
    /// `add`
    Add(u32, u64),
    /// `replace`
    Replace(u32, u64),
    /// `compare_exchange`
    Exchange(u32, Option<u64>, Option<u64>),
    /// `delete`
    Delete(u32),
    /// `take`
    Take(u32),
    /// `update` to the given version, or to nothing
    Update(u32, Option<u64>),
    /// `increment`, of a counter
    Increment(u32, i64),
    /// `set_uid` with the uid that the key has now
    SetUid(u32, u64),
    /// `delete_uid`
    DeleteUid(u32),
    /// `increment_uid`, of a counter
    IncrementUid(u32, i64),
    /// `set_many`
    SetMany(Vec<(u32, u64)>),
}

/// What an operation answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// Nothing to say.
    Done,
    /// It took place, or not.
    Took(bool),
    /// The version there was.
    Found(Option<u64>),
    /// The new sum, if there is one.
    Sum(Option<i64>),
}

impl Op {
    /// The keys it may change.
    pub fn keys(&self) -> Vec<u32> {
        match self {
            Op::Get(k) | Op::Set(k, _) | Op::Add(k, _) | Op::Replace(k, _) | Op::Delete(k) => {
                vec![*k]
            }
            Op::Exchange(k, ..) | Op::Take(k) | Op::Update(k, _) | Op::Increment(k, _) => vec![*k],
            Op::SetUid(k, _) | Op::DeleteUid(k) | Op::IncrementUid(k, _) => vec![*k],
            Op::SetMany(pairs) => pairs.iter().map(|p| p.0).collect(),
        }
    }

    /// What it does to the model and answers.
    pub fn apply(&self, model: &mut Model) -> Answer {
        match self {
            Op::Get(k) => Answer::Found(model.get(k).copied()),
            Op::Set(k, v) => {
                model.insert(*k, *v);
                Answer::Done
            }
            Op::Add(k, v) => Answer::Took(!model.contains_key(k) && model.insert(*k, *v).is_none()),
            Op::Replace(k, v) | Op::SetUid(k, v) => {
                Answer::Took(model.contains_key(k) && model.insert(*k, *v).is_some())
            }
            Op::Exchange(k, old, new) => {
                let fits = model.get(k) == old.as_ref();
                if fits {
                    put(model, *k, *new);
                }
                Answer::Took(fits)
            }
            Op::Delete(k) | Op::DeleteUid(k) => Answer::Took(model.remove(k).is_some()),
            Op::Take(k) => Answer::Found(model.remove(k)),
            Op::Update(k, new) => {
                let old = model.get(k).copied();
                put(model, *k, *new);
                Answer::Found(old)
            }
            Op::Increment(k, by) => {
                let sum = (model.get(k).copied().unwrap_or(0) as i64).wrapping_add(*by);
                model.insert(*k, sum as u64);
                Answer::Sum(Some(sum))
            }
            Op::IncrementUid(k, by) => Answer::Sum(model.get_mut(k).map(|v| {
                *v = (*v as i64).wrapping_add(*by) as u64;
                *v as i64
            })),
            Op::SetMany(pairs) => {
                model.extend(pairs.iter().copied());
                Answer::Done
            }
        }
    }

    /// Does it to a map.
    pub fn perform(&self, map: &Map, shape: Shape) -> Result<Answer> {
        let key = |k: &u32| shape.key(*k);
        let value = |k: &u32, v: &u64| shape.value(*k, *v);
        Ok(match self {
            Op::Get(k) => Answer::Found(map.get(key(k))?.map(|v| read(shape, *k, &v))),
            Op::Set(k, v) => {
                map.set(key(k), value(k, v))?;
                Answer::Done
            }
            Op::Add(k, v) => Answer::Took(map.add(key(k), value(k, v))?.is_some()),
            Op::Replace(k, v) => Answer::Took(map.replace(key(k), value(k, v))?.is_some()),
            Op::Exchange(k, old, new) => {
                let (old, new) = (old.map(|v| value(k, &v)), new.map(|v| value(k, &v)));
                Answer::Took(map.compare_exchange(key(k), old.as_deref(), new.as_deref())?)
            }
            Op::Delete(k) => Answer::Took(map.delete(key(k))?),
            Op::Take(k) => Answer::Found(map.take(key(k))?.map(|v| read(shape, *k, &v))),
            Op::Update(k, new) => {
                let mut old = None;
                map.update(key(k), |now| {
                    old = now.map(|v| read(shape, *k, v));
                    new.map(|v| value(k, &v))
                })?;
                Answer::Found(old)
            }
            Op::Increment(k, by) => Answer::Sum(Some(map.increment(key(k), *by)?)),
            Op::SetUid(k, v) => Answer::Took(match map.uid(key(k))? {
                Some(uid) => map.set_uid(uid, key(k), value(k, v))?,
                None => false,
            }),
            Op::DeleteUid(k) => Answer::Took(match map.uid(key(k))? {
                Some(uid) => map.delete_uid(uid, key(k))?,
                None => false,
            }),
            Op::IncrementUid(k, by) => Answer::Sum(match map.uid(key(k))? {
                Some(uid) => map.increment_uid(uid, key(k), *by)?,
                None => None,
            }),
            Op::SetMany(pairs) => {
                let pairs: Vec<_> = pairs.iter().map(|(k, v)| (key(k), value(k, v))).collect();
                map.set_many(&pairs)?;
                Answer::Done
            }
        })
    }
}

/// Sets or removes a key of the model.
pub fn put(model: &mut Model, key: u32, version: Option<u64>) {
    match version {
        Some(v) => model.insert(key, v),
        None => model.remove(&key),
    };
}

/// The version in `value`; ends the test if it was never written there.
#[track_caller]
pub fn read(shape: Shape, key: u32, value: &[u8]) -> u64 {
    shape.version(key, value).unwrap_or_else(|e| panic!("{e}"))
}

/// Draws operations of every kind over `keys` keys whose numbers begin at `first`.
pub fn mixed(shape: Shape, first: u32, keys: u64, len: usize, dice: &mut Dice) -> Vec<Op> {
    let mut model = Model::new();
    (0..len)
        .map(|i| {
            let op = draw(shape, first, keys, i as u64 + 1, &model, dice);
            op.apply(&mut model);
            op
        })
        .collect()
}

fn draw(shape: Shape, first: u32, keys: u64, turn: u64, model: &Model, dice: &mut Dice) -> Op {
    let key = first + dice.below(keys) as u32;
    let version = shape.fit(turn);
    if shape.counts() && dice.one_in(6) {
        let key = key | COUNTER;
        let by = dice.below(1000) as i64 - 500;
        return if dice.one_in(3) { Op::IncrementUid(key, by) } else { Op::Increment(key, by) };
    }
    match dice.below(14) {
        0..=3 => Op::Set(key, version),
        4 => Op::Add(key, version),
        5 => Op::Replace(key, version),
        6 => {
            let now = model.get(&key).copied();
            let new = (!dice.one_in(3)).then_some(version);
            Op::Exchange(key, if dice.one_in(4) { Some(version) } else { now }, new)
        }
        7 | 8 => Op::Delete(key),
        9 => Op::Take(key),
        10 => Op::Update(key, (!dice.one_in(4)).then_some(version)),
        11 => Op::SetUid(key, version),
        12 => Op::DeleteUid(key),
        _ => Op::Get(key),
    }
}

/// Runs a script, checking every answer, and notes each operation on two words of the board: begun,
/// then done. A map that forgets is not asked for answers.
pub fn run(map: &Map, shape: Shape, script: &[Op], board: &Board, at: usize) {
    let mut model = Model::new();
    for (i, op) in script.iter().enumerate() {
        board.put(at, i as u64 + 1);
        let wanted = op.apply(&mut model);
        let answer = op.perform(map, shape).unwrap_or_else(|e| panic!("{op:?}: {e:?}"));
        assert!(shape.forgets() || answer == wanted, "{op:?}: {answer:?}, not {wanted:?}");
        board.put(at + 1, i as u64 + 1);
    }
}

/// What a map must hold after so much of a script was done, and one more operation perhaps.
pub struct Expected {
    shape: Shape,
    allowed: HashMap<u32, Vec<Option<u64>>>,
}

impl Expected {
    /// From what the script's runner noted on the board.
    pub fn from_board(shape: Shape, script: &[Op], board: &Board, at: usize) -> Expected {
        Expected::after(shape, script, board.get(at) as usize, board.get(at + 1) as usize)
    }

    /// From what each key may have.
    pub fn of(shape: Shape, allowed: HashMap<u32, Vec<Option<u64>>>) -> Expected {
        Expected { shape, allowed }
    }

    /// After `done` operations, with `begun` - `done` (0 or 1) under way.
    pub fn after(shape: Shape, script: &[Op], begun: usize, done: usize) -> Expected {
        let mut model = Model::new();
        for op in &script[..done] {
            op.apply(&mut model);
        }
        let mut allowed: HashMap<u32, Vec<Option<u64>>> = HashMap::new();
        for key in script[..begun].iter().flat_map(Op::keys) {
            allowed.insert(key, vec![model.get(&key).copied()]);
        }
        if begun > done {
            let op = &script[done];
            op.apply(&mut model);
            for key in op.keys() {
                let after = model.get(&key).copied();
                allowed.entry(key).or_default().push(after);
            }
        }
        Expected { shape, allowed }
    }

    /// Reads every key in every way and compares.
    #[track_caller]
    pub fn verify(&self, map: &Map, what: &str) {
        let mut seen: HashMap<u32, u64> = HashMap::new();
        for pair in map.iter() {
            let (key, value) = pair.unwrap_or_else(|e| panic!("{what}: iteration: {e:?}"));
            let id = self.shape.id(&key).unwrap_or_else(|e| panic!("{what}: {e}"));
            let version = read(self.shape, id, &value);
            if self.allowed.contains_key(&id) {
                assert_eq!(seen.insert(id, version), None, "{what}: key {id:#x} seen twice");
            }
        }
        let mut keys: Vec<u32> = self.allowed.keys().copied().collect();
        keys.sort_unstable();
        let bytes: Vec<Vec<u8>> = keys.iter().map(|k| self.shape.key(*k)).collect();
        let mut values = commonhold::map::Values::default();
        map.get_many(&bytes, &mut values).unwrap_or_else(|e| panic!("{what}: get_many: {e:?}"));
        for (i, id) in keys.iter().enumerate() {
            let got = map.get(&bytes[i]).unwrap_or_else(|e| panic!("{what}: get {id:#x}: {e:?}"));
            let got = got.map(|v| read(self.shape, *id, &v));
            let many = values.get(i).map(|v| read(self.shape, *id, v));
            let walked = seen.get(id).copied();
            assert!(
                self.allows(*id, got),
                "{what}: key {id:#x}: {got:?}, not {:?}",
                self.allowed[id]
            );
            assert!(
                got == many && got == walked,
                "{what}: key {id:#x}: {got:?} {many:?} {walked:?}"
            );
        }
    }

    fn allows(&self, id: u32, version: Option<u64>) -> bool {
        self.allowed[&id].contains(&version) || (self.shape.forgets() && version.is_none())
    }
}
