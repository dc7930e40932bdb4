//! The FFI boundary: how what C gives becomes safe Rust, and what Rust gives becomes C.
//!
//! Every exported function is made by [`export!`], whose parameters are the types of this module.
//! Each is one pointer or number as C passes it, can be made by nobody but a C caller, and checks
//! what can be checked. So what lies behind the boundary has no unsafe code.
//!
//! | what C gives | file |
//! |---|---|
//! | the call itself; what is told of it | [`call`] |
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
