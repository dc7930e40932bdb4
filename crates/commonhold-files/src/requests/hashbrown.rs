//! The crate hashbrown's map, with its faster hash.

use super::Requests;
use ::hashbrown::HashMap;
use commonhold_io::sockets::SocketId;

/// See the module.
pub struct Hashbrown<C>(HashMap<SocketId, C>);

impl<C> Default for Hashbrown<C> {
    fn default() -> Hashbrown<C> {
        Hashbrown(HashMap::new())
    }
}

impl<C> Requests<C> for Hashbrown<C> {
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
