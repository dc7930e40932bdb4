//! Request maps that are hash tables of a library: the same code over tables that differ in their
//! hash.

use super::Requests;
use commonhold_io::sockets::SocketId;

macro_rules! hashed {
    ($(#[$doc:meta])* $name:ident, $table:ty) => {
        $(#[$doc])*
        pub struct $name<C>($table);

        impl<C> Default for $name<C> {
            fn default() -> Self {
                $name(<$table>::new())
            }
        }

        impl<C> Requests<C> for $name<C> {
            fn insert(&mut self, socket: SocketId, connection: C) {
                self.0.insert(socket, connection);
            }

            fn get(&mut self, socket: SocketId) -> Option<&mut C> {
                self.0.get_mut(&socket)
            }

            fn remove(&mut self, socket: SocketId) -> Option<C> {
                self.0.remove(&socket)
            }

            fn count(&self) -> usize {
                self.0.len()
            }

            fn each(&mut self, mut each: impl FnMut(SocketId, &mut C)) {
                self.0.iter_mut().for_each(|(&socket, connection)| each(socket, connection));
            }
        }
    };
}

hashed! {
    /// The standard library's map, with its hash that withstands chosen keys.
    Std, std::collections::HashMap<SocketId, C>
}
hashed! {
    /// The crate hashbrown's map, with its faster hash.
    Hashbrown, hashbrown::HashMap<SocketId, C>
}
