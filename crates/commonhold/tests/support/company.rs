//! The company of a victim: the companion that continues, and what is found when it has ended.

use super::Dice;
use super::messages::{self, SHARED};
use super::process::Board;
use super::scenario::{self, Scenario, first, word};
use super::script;
use commonhold::Hold;
use std::path::Path;

/// Actors: their keys are their own.
pub const VICTIM: u32 = 1;
pub const COMPANION: u32 = 2;
pub const SECOND: u32 = 3;
const OWN: u64 = 80;
/// Changes after which a companion only reads if the map has a stream. A victim whose every call
/// fails can take seconds, and the stream must still have its beginning when it is verified.
const STREAMED: u64 = 20_000;

/// Reads and writes its own keys, and reads the victim's, until the board orders it to stop; then
/// verifies what the victim left, and all else.
pub fn accompany(
    path: &Path,
    scenario: &Scenario,
    board: &Board,
    verify: impl FnOnce(&Hold, &str),
) {
    let shape = scenario.shape;
    let (hold, map) = scenario::open(path, shape);
    let mut dice = Dice::new(7);
    let mut own = vec![None; OWN as usize];
    let queue = || hold.queues().open_or_create(SHARED, messages::queue_options()).unwrap();
    let shared = (scenario.name == "queue").then(queue);
    while board.get(word::ORDER) == 0 {
        shared.iter().for_each(|queue| messages::mingle(queue).unwrap());
        let turn = board.count(word::PROGRESS, 1);
        let n = dice.below(OWN) as usize;
        let id = first(COMPANION) + n as u32;
        let found = map.get(shape.key(id)).unwrap().map(|v| script::read(shape, id, &v));
        assert!(found == own[n] || shape.forgets(), "own key {n}: {found:?}, not {:?}", own[n]);
        if !scenario.streams || turn < STREAMED {
            own[n] = (!turn.is_multiple_of(4)).then_some(shape.fit(turn));
            match own[n] {
                Some(version) => drop(map.set(shape.key(id), shape.value(id, version)).unwrap()),
                None => drop(map.delete(shape.key(id)).unwrap()),
            }
        }
        let other = first(VICTIM) + dice.below(100) as u32;
        if let Some(value) = map.get(shape.key(other)).unwrap() {
            script::read(shape, other, &value);
        }
    }
    let when = "after the victim's end";
    hold.sweep().unwrap();
    verify(&hold, when);
    for (n, version) in own.iter().enumerate() {
        let id = first(COMPANION) + n as u32;
        let found = map.get(shape.key(id)).unwrap().map(|v| script::read(shape, id, &v));
        assert!(found == *version || shape.forgets(), "own key {n}: {found:?}, not {version:?}");
    }
    let mut walked = 0;
    for pair in map.iter() {
        let (key, value) = pair.unwrap();
        let id = shape.id(&key).unwrap();
        script::read(shape, id, &value);
        walked += 1;
    }
    assert_eq!(map.len().unwrap(), walked);
    super::whole(&hold, when);
}
