//! An instant as an event: epoll's own timeout has milliseconds only.

use crate::workload::Result;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use std::io::Error;
use std::os::fd::{BorrowedFd, OwnedFd};

/// Wakes an epoll at an instant of the common clock.
pub struct Timer {
    timer: OwnedFd,
    /// The instant to which it is set; 0 if it is not set.
    instant_ns: u64,
}

impl Timer {
    /// The data of its events.
    pub const TOKEN: u64 = u64::MAX;

    /// Not set.
    pub fn new(poll: BorrowedFd<'_>) -> Result<Timer> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags).map_err(Error::from)?;
        epoll::add(poll, &timer, EventData::new_u64(Timer::TOKEN), EventFlags::IN)
            .map_err(Error::from)?;
        Ok(Timer { timer, instant_ns: 0 })
    }

    /// Sets it, if it is not set to just that.
    pub fn set(&mut self, instant_ns: u64) -> Result<()> {
        if self.instant_ns == instant_ns {
            return Ok(());
        }
        self.instant_ns = instant_ns;
        self.arm(instant_ns.max(1))
    }

    /// After its event.
    pub fn clear(&mut self) -> Result<()> {
        self.instant_ns = 0;
        self.arm(0)
    }

    /// Setting it again also clears its event.
    fn arm(&self, instant_ns: u64) -> Result<()> {
        const SECOND: u64 = 1_000_000_000;
        let time =
            |ns: u64| Timespec { tv_sec: (ns / SECOND) as i64, tv_nsec: (ns % SECOND) as i64 };
        let value = Itimerspec { it_interval: time(0), it_value: time(instant_ns) };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &value).map_err(Error::from)?;
        Ok(())
    }
}
