//! The maps of a hold by name.

use crate::basics::json;
use crate::ffi::call::export;
use crate::ffi::{Asked, Name, NewHandle, OutBytes, Ref, yes};
use crate::map::about::Options;
use commonhold::Hold;
use commonhold::map::Map;

export! {
    fn ch_map_open(hold: Ref<Hold>, name: Name, map: NewHandle<Map>) {
        let place = map.ready()?;
        place.put(hold.get()?.maps().open(name.text("the map's name")?)?);
        Ok(yes(true))
    }

    fn ch_map_open_or_create(hold: Ref<Hold>, name: Name, options: Asked<Options>, map: NewHandle<Map>) {
        let place = map.ready()?;
        let options = options.or_defaults()?.build()?;
        place.put(hold.get()?.maps().open_or_create(name.text("the map's name")?, options)?);
        Ok(yes(true))
    }

    fn ch_map_create(hold: Ref<Hold>, name: Name, options: Asked<Options>, map: NewHandle<Map>) {
        let place = map.ready()?;
        let options = options.or_defaults()?.build()?;
        place.put(hold.get()?.maps().create(name.text("the map's name")?, options)?);
        Ok(yes(true))
    }

    fn ch_map_drop(hold: Ref<Hold>, name: Name) {
        Ok(yes(hold.get()?.maps().drop(name.text("the map's name")?)?))
    }

    fn ch_map_list(hold: Ref<Hold>, out: OutBytes) {
        json(&out, &hold.get()?.maps().list()?)
    }

    fn ch_map_begin_stream(hold: Ref<Hold>, name: Name, bytes: u64) {
        Ok(yes(hold.get()?.maps().begin_stream(name.text("the map's name")?, bytes)?))
    }
}
