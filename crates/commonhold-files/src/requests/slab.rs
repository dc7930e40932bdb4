//! A table by the sockets' own places: no hash at all.

use super::Requests;
use commonhold_io::sockets::SocketId;

/// See the module. The driver uses places again, so the table is as long as the most connections at
/// one time.
pub struct Slab<C> {
    places: Vec<Option<(SocketId, C)>>,
    len: usize,
}

impl<C> Default for Slab<C> {
    fn default() -> Slab<C> {
        Slab { places: Vec::new(), len: 0 }
    }
}

fn place(socket: SocketId) -> usize {
    socket.to_bits() as u32 as usize
}

impl<C> Requests<C> for Slab<C> {
    fn insert(&mut self, socket: SocketId, connection: C) {
        let place = place(socket);
        if place >= self.places.len() {
            self.places.resize_with(place + 1, || None);
        }
        let before = self.places[place].replace((socket, connection));
        self.len += usize::from(before.is_none());
    }

    fn get(&mut self, socket: SocketId) -> Option<&mut C> {
        let (of, connection) = self.places.get_mut(place(socket))?.as_mut()?;
        (*of == socket).then_some(connection)
    }

    fn remove(&mut self, socket: SocketId) -> Option<C> {
        let taken = self.places.get_mut(place(socket))?.take_if(|(of, _)| *of == socket);
        self.len -= usize::from(taken.is_some());
        taken.map(|(_, connection)| connection)
    }

    fn count(&self) -> usize {
        self.len
    }

    fn each(&mut self, mut each: impl FnMut(SocketId, &mut C)) {
        for (socket, connection) in self.places.iter_mut().flatten() {
            each(*socket, connection);
        }
    }
}
