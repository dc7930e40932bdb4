//! Values that one load reads whole. They may change in place
//! ([`Record::replace_value`](crate::map::layout::record::Record::replace_value)).

/// A value that one load reads whole.
#[derive(Clone, Copy)]
pub(crate) struct ShortValue {
    /// Its bytes, the first one lowest.
    pub(crate) bits: u64,
    pub(crate) len: u32,
}

impl ShortValue {
    #[inline(always)]
    pub(crate) fn new(value: &[u8]) -> Option<ShortValue> {
        // The usual lengths by two comparisons, not by a table.
        let bits = match *value {
            [a, b, c, d] => u32::from_le_bytes([a, b, c, d]).into(),
            [a, b, c, d, e, f, g, h] => u64::from_le_bytes([a, b, c, d, e, f, g, h]),
            _ => return ShortValue::of_few_bytes(value),
        };
        Some(ShortValue { bits, len: value.len() as u32 })
    }

    #[cold]
    #[inline(never)]
    fn of_few_bytes(value: &[u8]) -> Option<ShortValue> {
        let bits = match *value {
            [a] => a.into(),
            [a, b] => u16::from_le_bytes([a, b]).into(),
            _ => return None,
        };
        Some(ShortValue { bits, len: value.len() as u32 })
    }

    /// The length of such a value.
    #[inline(always)]
    pub(crate) fn len_of(value: &[u8]) -> Option<u32> {
        matches!(value.len(), 1 | 2 | 4 | 8).then_some(value.len() as u32)
    }

    #[inline(always)]
    pub(crate) fn number(number: i64) -> ShortValue {
        ShortValue { bits: number as u64, len: 8 }
    }
}
