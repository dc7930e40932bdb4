//! The standard library's map, with its hash that withstands chosen keys.

use super::Requests;
use ::std::collections::HashMap;
use commonhold_io::sockets::SocketId;

/// See the module.
pub struct Std<C>(HashMap<SocketId, C>);

impl<C> Default for Std<C> {
    fn default() -> Std<C> {
        Std(HashMap::new())
    }
}

impl<C> Requests<C> for Std<C> {
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
