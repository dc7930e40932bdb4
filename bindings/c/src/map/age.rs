//! How old a replica's contents may be.

use crate::basics::time;
use crate::ffi::call::export;
use crate::ffi::{Give, In, OutBytes, Ref, yes};
use commonhold::map::Map;

export! {
    fn ch_map_lag(map: Ref<Map>, lag_ns: Give<u64>) {
        lag_ns.needed("age")?;
        let lag = map.get()?.lag()?;
        lag_ns.set(lag.map_or(0, |lag| u64::try_from(lag.as_nanos()).unwrap_or(u64::MAX)));
        Ok(yes(lag.is_some()))
    }

    fn ch_map_ensure_fresh(map: Ref<Map>, max_age_ns: u64) {
        map.get()?.ensure_fresh(time(max_age_ns))?;
        Ok(yes(true))
    }

    fn ch_map_get_fresh(map: Ref<Map>, key: In, key_len: usize, max_age_ns: u64, value: OutBytes) {
        value.needed()?;
        let found = map.get()?.get_fresh(key.bytes(key_len)?, time(max_age_ns))?;
        let is_present = found.is_some();
        value.put(found.unwrap_or_default())?;
        Ok(yes(is_present))
    }
}
