//! The deadlines of a worker: those of its connections, and its own.

use super::{FRACTION, LAST_MOMENT, Worker, log_of};
use crate::asked::Asked;
use crate::connection::{Connection, Phase};
use crate::payload::Payload;
use crate::requests::Requests;
use crate::source::Source;
use crate::store::Store;
use commonhold_io::sockets::{Driver, SocketId};

impl<D, R, S, F> Worker<D, R, S, F>
where
    D: Driver<Payload>,
    R: Requests<Connection<F::Handle>>,
    S: Store,
    F: Source,
{
    /// Takes no new connections, and soon ends those without a request. Not at once: their requests
    /// may not have been received yet, above all those of connections that were accepted just now,
    /// or are being accepted.
    pub(super) fn drain(&mut self) {
        self.responder.closing = true;
        // New workers have replaced this one, perhaps because the log was rotated.
        self.rules.logs.reopen();
        self.listeners.iter().for_each(|&listener| self.driver.shut(listener));
        // Accepting listeners report their end.
        if !self.accepting {
            self.listeners.clear();
        }
        let end = self.responder.now + LAST_MOMENT;
        self.connections.each(|_, connection| {
            if connection.phase == Phase::Idle {
                connection.deadline = connection.deadline.min(end);
            }
        });
    }

    pub(super) fn tick(&mut self) {
        let now = self.responder.now;
        self.contents.tidy(now);
        let mut late = Vec::new();
        self.connections.each(|socket, connection| {
            if connection.deadline <= now {
                late.push((socket, connection.phase, connection.is_http));
            }
        });
        for (socket, phase, is_http) in late {
            match phase {
                Phase::Receiving if is_http => self.give_up(socket),
                _ => {
                    self.counts.timed_out += u64::from(phase != Phase::Idle);
                    self.close(socket);
                }
            }
        }
        self.make_room();
        self.accept_again();
    }

    /// If there is no room for new connections, closes those that have been idle the longest.
    /// Connections that have not sent a request yet stay: the time limit for a head applies to
    /// them.
    fn make_room(&mut self) {
        if self.responder.closing || self.connections.count() < self.rules.most_connections {
            return;
        }
        let patience = &self.rules.patience;
        let latest = self.responder.now + (patience.idle - patience.idle_if_full);
        let mut idle = Vec::new();
        self.connections.each(|socket, connection| {
            let was_answered = connection.answer.status != 0 && connection.phase == Phase::Idle;
            if was_answered && connection.deadline <= latest {
                idle.push((connection.deadline, socket));
            }
        });
        idle.sort_unstable();
        for (_, socket) in idle.into_iter().take(self.rules.most_connections.div_ceil(FRACTION)) {
            self.close(socket);
        }
    }

    /// Answers that the request took too long. Bytes of it that are being received are discarded.
    fn give_up(&mut self, socket: SocketId) {
        self.counts.timed_out += 1;
        // The driver may still have the received bytes, so none of them appear in the log.
        if let Some(connection) = self.connections.get(socket) {
            connection.asked = log_of(self.rules.logs.is_on(), Asked::unknown);
        }
        let reply = self.responder.give_up();
        self.answer(socket, reply);
    }
}
