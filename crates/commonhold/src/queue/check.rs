//! Proving a queue sound: each element is in exactly one place.
//!
//! Elements may move meanwhile. A pass counts only if nothing moved: no index changed, and no
//! intent was ahead of its index before and after it.

use crate::memory::block::Block;
use crate::queue::layout::{Layout, Side};
use crate::sync::owner::Owner;
use crate::sync::participant::is_left_behind;
use crate::sync::space::Space;
use std::sync::atomic::{Ordering, fence};

/// The number of passes before the check gives up, because another process keeps moving elements or
/// is stopped during a move.
const TRIES: u32 = 200;

/// Returns descriptions of damage. `alive` returns whether an owner is still registered.
pub(crate) fn check(space: &Space, block: &Block, alive: &dyn Fn(Owner) -> bool) -> Vec<String> {
    let layout = match Layout::read(space, block) {
        Ok(layout) => layout,
        Err(error) => return vec![error.to_string()],
    };
    for _ in 0..TRIES {
        let before = indices(space, &layout);
        let problems = look(space, block, &layout, alive);
        fence(Ordering::Acquire);
        let at_rest = before.iter().all(|(index, intent)| intent <= index);
        if problems.is_empty() || (at_rest && before == indices(space, &layout)) {
            return problems;
        }
        std::thread::yield_now();
    }
    Vec::new()
}

fn indices(space: &Space, layout: &Layout) -> Vec<(u64, u64)> {
    let ends = (0..layout.queues).flat_map(|queue| [(queue, Side::Head), (queue, Side::Tail)]);
    ends.map(|(queue, side)| {
        let end = layout.end(space, queue, side);
        (end.index.load(Ordering::Acquire), end.intent.load(Ordering::Acquire))
    })
    .collect()
}

fn look(
    space: &Space,
    block: &Block,
    layout: &Layout,
    alive: &dyn Fn(Owner) -> bool,
) -> Vec<String> {
    let mut problems = Vec::new();
    let mut places = vec![0u32; layout.elements as usize];
    for queue in 0..layout.queues {
        let name = layout.name(space, queue);
        let [head, tail] = [Side::Head, Side::Tail]
            .map(|side| layout.end(space, queue, side).index.load(Ordering::Acquire));
        if tail < head || tail - head > layout.elements.into() {
            problems.push(format!("its queue '{name}' goes from {head} to {tail}"));
            continue;
        }
        for place in layout.places_at(space, queue, head, tail - head).into_iter().flatten() {
            let id = place.load(Ordering::Relaxed);
            match places.get_mut(id as usize) {
                Some(count) => *count += 1,
                None => problems.push(format!("its queue '{name}' names element {id}")),
            }
        }
    }
    for ((id, places), holder) in (0..).zip(&mut places).zip(layout.holders(space)) {
        if let Some(owner) = Owner::from_bits(holder.load(Ordering::Acquire)) {
            *places += 1;
            let again = || Owner::from_bits(holder.load(Ordering::Acquire));
            if is_left_behind(owner, alive, again) {
                let slot = owner.slot();
                problems.push(format!(
                    "element {id} is in flight in slot {slot}, whose generation has ended"
                ));
            }
        }
        if *places != 1 {
            problems.push(format!("element {id} is in {places} places"));
        }
    }
    problems.truncate(20);
    problems.iter().map(|what| format!("queue '{}': {what}", block.name)).collect()
}
