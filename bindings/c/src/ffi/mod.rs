//! The FFI boundary: it converts arguments from C to safe Rust, and results from Rust to C.
//!
//! Every exported function is made by [`export!`], whose parameters are the types of this module.
//! Each is one pointer or number as C passes it, can be made only by a C caller, and checks
//! everything that can be checked. So the code behind the boundary has no unsafe code.
//!
//! | argument from C | file |
//! |---|---|
//! | the call itself; its result | [`call`] |
//! | handles | [`handle`]; such that only one thread at a time may use | [`alone`] |
//! | bytes, names, arrays; buffers to be filled | [`bytes`] |
//! | places for results | [`give`] |
//! | structures that C fills in, options among them | [`take`] |
//! | file descriptors | [`fd`] |
//! | pointers that come back in callbacks | [`user`] |

pub(crate) mod alone;
pub(crate) mod bytes;
pub(crate) mod call;
pub(crate) mod fd;
pub(crate) mod give;
pub(crate) mod handle;
pub(crate) mod take;
pub(crate) mod user;

pub(crate) use alone::Alone;
pub(crate) use bytes::{Buffer, In, Many, Name, OutBytes, View};
pub(crate) use call::{Answer, ErrorOut, Said, invalid, yes};
pub(crate) use give::Give;
pub(crate) use handle::{Kind, NewHandle, Owned, Ref};
pub(crate) use take::{Asked, GiveOptions, Take};
pub(crate) use user::User;
