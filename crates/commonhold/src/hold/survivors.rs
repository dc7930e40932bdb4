//! Determines the images of a backup that are valid in the end: a later image replaces its whole
//! hash range.

use std::collections::HashMap;

/// An image of a segment: the number of its map, its prefix and its depth.
pub(super) type Image = (u32, u32, u32);

/// The hash ranges of one map that later images replace, at the finest resolution needed.
struct Covered {
    bits: Vec<bool>,
}

impl Covered {
    fn covers(&self, directory: u32) -> bool {
        self.bits[directory as usize & (self.bits.len() - 1)]
    }

    fn add(&mut self, prefix: u32, depth: u32) {
        for index in (prefix as usize..self.bits.len()).step_by(1 << depth) {
            self.bits[index] = true;
        }
    }
}

/// For every image, the ranges that later images of the same map replace, as one bit each: the
/// images behind it decide whether a pair with these directory bits survives.
pub(super) fn survivors(images: &[Image]) -> Vec<Vec<(u32, u32)>> {
    // From the back: the ranges that are replaced later, restricted to those that overlap the
    // image.
    let mut finest: HashMap<u32, u32> = HashMap::new();
    for (number, _, depth) in images {
        let deepest = finest.entry(*number).or_default();
        *deepest = (*deepest).max(*depth);
    }
    let mut covered: HashMap<u32, Covered> = finest
        .iter()
        .map(|(number, depth)| (*number, Covered { bits: vec![false; 1 << depth] }))
        .collect();
    let mut all = vec![Vec::new(); images.len()];
    for (at, (number, prefix, depth)) in images.iter().enumerate().rev() {
        let Some(covered) = covered.get_mut(number) else { continue };
        let len = covered.bits.len();
        let finest = len.ilog2();
        // Indices of this image's range that no later image replaces.
        let alive = (*prefix as usize..len).step_by(1 << depth);
        all[at] =
            alive.filter(|i| !covered.covers(*i as u32)).map(|i| (i as u32, finest)).collect();
        covered.add(*prefix, *depth);
    }
    all
}
