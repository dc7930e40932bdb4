//! Request maps: the state of each connection. Each map implements [`Requests`].

mod hashed;
mod slab;

pub use hashed::{Hashbrown, Std};
pub use slab::Slab;

use commonhold_io::sockets::SocketId;

/// Connections by their sockets.
pub trait Requests<C>: Default {
    /// Inserts the connection of a new socket.
    fn insert(&mut self, socket: SocketId, connection: C);

    /// The connection of a socket.
    fn get(&mut self, socket: SocketId) -> Option<&mut C>;

    /// Removes a connection.
    fn remove(&mut self, socket: SocketId) -> Option<C>;

    /// The number of connections.
    fn count(&self) -> usize;

    /// Calls `each` for all of them, in any order.
    fn each(&mut self, each: impl FnMut(SocketId, &mut C));
}

/// The available request maps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RequestsKind {
    /// [`Std`].
    Std,
    /// [`Hashbrown`].
    Hashbrown,
    /// [`Slab`].
    #[default]
    Slab,
}

commonhold_io::named_choice!(RequestsKind { Std => "std", Hashbrown => "hashbrown", Slab => "slab" });

#[cfg(test)]
mod tests {
    use super::*;

    fn conforms<R: Requests<u64>>() {
        let mut requests = R::default();
        let id = |index: u64, generation: u64| SocketId::from_bits(generation << 32 | index);
        for index in 0..100 {
            requests.insert(id(index, 0), index);
        }
        assert_eq!(requests.count(), 100);
        assert_eq!(requests.remove(id(7, 0)), Some(7));
        assert_eq!(requests.remove(id(7, 0)), None);
        // Another socket has the place of a closed one.
        requests.insert(id(7, 1), 1007);
        assert_eq!(requests.get(id(7, 0)), None);
        assert_eq!(requests.get(id(7, 1)), Some(&mut 1007));
        assert_eq!(requests.get(id(100, 0)), None);
        let (mut count, mut sum) = (0, 0);
        requests.each(|socket, value| {
            assert_eq!(socket.to_bits() as u32 as u64, *value % 1000);
            (count, sum) = (count + 1, sum + *value);
        });
        assert_eq!((count, sum), (100, (0..100).sum::<u64>() + 1000));
    }

    #[test]
    fn all_request_maps_do_the_same() {
        conforms::<Std<u64>>();
        conforms::<Hashbrown<u64>>();
        conforms::<Slab<u64>>();
    }
}
