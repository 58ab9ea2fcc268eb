//! Kills the process of a leader if its lease is not renewed in time, even a stopped process.
//!
//! A stopped process (SIGSTOP, a debugger) cannot read a clock. When it continues, other threads may run before the one
//! that checks the lease. So the kernel ends the process: its timer sends SIGKILL, which also ends a stopped process.
//! The timer also runs while the machine is suspended.

use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{SigEvent, SigevNotify, Signal};
use nix::sys::time::TimeSpec;
use nix::sys::timer::{Expiration, Timer, TimerSetTimeFlags};
use nix::time::{ClockId, clock_gettime};

use crate::store::StoreError;

/// The time since the machine started. It includes the time in which the machine or this process was suspended.
#[expect(clippy::expect_used, reason = "Linux has this clock since 2.6.39, and reading it cannot fail")]
pub fn elapsed() -> Duration {
    clock_gettime(ClockId::CLOCK_BOOTTIME).expect("the clock CLOCK_BOOTTIME").into()
}

/// Kills this process at a given time of [`elapsed`]. Dropping the timer cancels it.
pub(super) struct LeaseTimer(Timer);

impl LeaseTimer {
    pub(super) fn start(at: Duration) -> Result<Self, StoreError> {
        let kill = SigEvent::new(SigevNotify::SigevSignal { signal: Signal::SIGKILL, si_value: 0 });
        let mut timer = Self(Timer::new(ClockId::CLOCK_BOOTTIME, kill).map_err(failed)?);
        timer.set(at)?;
        Ok(timer)
    }

    /// Sets another time.
    pub(super) fn set(&mut self, at: Duration) -> Result<(), StoreError> {
        let at = Expiration::OneShot(TimeSpec::from_duration(at));
        self.0.set(at, TimerSetTimeFlags::TFD_TIMER_ABSTIME).map_err(failed)
    }
}

fn failed(cause: Errno) -> StoreError {
    StoreError::Io(format!("cannot set the timer that ends this process with its lease: {cause}"))
}
