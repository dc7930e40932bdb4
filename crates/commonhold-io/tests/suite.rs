//! The tests of sockets with real processes.

mod fork;
