//! [`Codec`]: how the keys or the values of a typed map are written as bytes.

use crate::error::Result;

/// How the keys or the values of a [`TypedMap`](crate::map::TypedMap) are written as bytes.
///
/// The library has [`Bytes`], [`Text`], [`U64`], [`I64`] and [`List`](crate::map::List), with the
/// feature `serde` `Json`, and with the feature `bytemuck` `Pod`. Programs may implement their own.
pub trait Codec {
    /// The type that a program passes to be written, such as `&str`.
    type Value<'a>: Copy;
    /// The type that a program gets when it reads, such as `String`.
    type Owned;
    /// The bytes of a value.
    type Encoded<'a>: AsRef<[u8]>;

    /// The bytes of a value.
    ///
    /// # Errors
    /// `Invalid` for a value that cannot be written.
    fn encode(value: Self::Value<'_>) -> Result<Self::Encoded<'_>>;

    /// The value that bytes stand for.
    ///
    /// # Errors
    /// A name for the bytes that were expected, such as `8 bytes`.
    fn decode(bytes: Vec<u8>) -> std::result::Result<Self::Owned, String>;

    /// A value that was read, to be written.
    fn borrow(owned: &Self::Owned) -> Self::Value<'_>;
}

/// Bytes as they are.
#[derive(Clone, Copy, Debug)]
pub enum Bytes {}

impl Codec for Bytes {
    type Value<'a> = &'a [u8];
    type Owned = Vec<u8>;
    type Encoded<'a> = &'a [u8];

    fn encode(value: Self::Value<'_>) -> Result<Self::Encoded<'_>> {
        Ok(value)
    }

    fn decode(bytes: Vec<u8>) -> std::result::Result<Vec<u8>, String> {
        Ok(bytes)
    }

    fn borrow(owned: &Vec<u8>) -> &[u8] {
        owned
    }
}

/// Text in UTF-8.
#[derive(Clone, Copy, Debug)]
pub enum Text {}

impl Codec for Text {
    type Value<'a> = &'a str;
    type Owned = String;
    type Encoded<'a> = &'a str;

    fn encode(value: Self::Value<'_>) -> Result<Self::Encoded<'_>> {
        Ok(value)
    }

    fn decode(bytes: Vec<u8>) -> std::result::Result<String, String> {
        String::from_utf8(bytes).map_err(|_| "UTF-8 text".to_owned())
    }

    fn borrow(owned: &String) -> &str {
        owned
    }
}

/// Declares the codec of a number of 8 bytes, little-endian, which other languages and
/// [`Map::increment`](crate::map::Map::increment) use, too.
macro_rules! number {
    ($(#[$doc:meta])* $name:ident, $number:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub enum $name {}

        impl Codec for $name {
            type Value<'a> = $number;
            type Owned = $number;
            type Encoded<'a> = [u8; 8];

            fn encode(value: Self::Value<'_>) -> Result<Self::Encoded<'_>> {
                Ok(value.to_le_bytes())
            }

            fn decode(bytes: Vec<u8>) -> std::result::Result<$number, String> {
                let bytes = <[u8; 8]>::try_from(bytes).map_err(|_| "8 bytes".to_owned())?;
                Ok(<$number>::from_le_bytes(bytes))
            }

            fn borrow(owned: &$number) -> $number {
                *owned
            }
        }
    };
}

number!(
    /// Unsigned numbers of 64 bits, as 8 bytes little-endian.
    U64,
    u64
);
number!(
    /// Signed numbers of 64 bits, as 8 bytes little-endian.
    I64,
    i64
);
