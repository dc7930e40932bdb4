//! Walking all pairs, or all keys.

use crate::ffi::call::export;
use crate::ffi::{Alone, Give, NewHandle, Owned, Ref, View, yes};
use commonhold::map::{Cursor, Iter, Keys, Map};

/// Pairs, or keys alone.
enum Walk {
    Pairs(Iter),
    Keys(Keys),
}

/// `ch_iter`.
pub struct Walking {
    walk: Walk,
    /// The last pair.
    pair: (Vec<u8>, Vec<u8>),
}

crate::ffi::handle::kinds! {
    Alone<Walking> = b"ch-iter\0", "iterator";
}

fn begin(walk: Walk) -> Alone<Walking> {
    Alone::new(Walking { walk, pair: Default::default() })
}

export! {
    fn ch_map_iter(map: Ref<Map>, cursor: u64, iter: NewHandle<Alone<Walking>>) {
        let place = iter.ready()?;
        place.put(begin(Walk::Pairs(map.get()?.iter_from(Cursor(cursor)))));
        Ok(yes(true))
    }

    fn ch_map_keys(map: Ref<Map>, iter: NewHandle<Alone<Walking>>) {
        let place = iter.ready()?;
        place.put(begin(Walk::Keys(map.get()?.keys())));
        Ok(yes(true))
    }

    fn ch_iter_free(iter: Owned<Alone<Walking>>) -> (), or (), {
        drop(iter.take())
    }

    fn ch_iter_next(iter: Ref<Alone<Walking>>, key: Give<View>, value: Give<View>) {
        let mut walking = iter.get()?.lock()?;
        let next = match &mut walking.walk {
            Walk::Pairs(pairs) => pairs.next().transpose()?,
            Walk::Keys(keys) => keys.next().transpose()?.map(|key| (key, Vec::new())),
        };
        let found = next.is_some();
        walking.pair = next.unwrap_or_default();
        key.set(if found { View::of(&walking.pair.0) } else { View::NONE });
        value.set(if found { View::of(&walking.pair.1) } else { View::NONE });
        Ok(yes(found))
    }

    fn ch_iter_cursor(iter: Ref<Alone<Walking>>, cursor: Give<u64>) {
        let walking = iter.get()?.lock()?;
        match &walking.walk {
            Walk::Pairs(pairs) => {
                cursor.set(pairs.cursor().0);
                Ok(yes(pairs.at_cursor()))
            }
            Walk::Keys(_) => {
                let text = "an iteration over keys has no cursor; iterate over pairs";
                Err(crate::ffi::invalid(text))
            }
        }
    }
}
