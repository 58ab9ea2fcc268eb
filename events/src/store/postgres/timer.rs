//! Ends the process of a leader whose lease ended, even a stopped one.
//!
//! A process that was stopped (SIGSTOP, a debugger) cannot look at a clock, and its threads go on in any order when it
//! continues. So the kernel ends it: a timer that it runs for this process sends SIGKILL, which a stopped process
//! obeys. The timer counts while the machine is suspended, too.

use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{SigEvent, SigevNotify, Signal};
use nix::sys::time::TimeSpec;
use nix::sys::timer::{Expiration, Timer, TimerSetTimeFlags};
use nix::time::{ClockId, clock_gettime};

use crate::store::StoreError;

/// Time since the machine started, also while it or this process was suspended.
#[expect(clippy::expect_used, reason = "Linux has this clock since 2.6.39, and reading it cannot fail")]
pub(super) fn elapsed() -> Duration {
    clock_gettime(ClockId::CLOCK_BOOTTIME).expect("the clock CLOCK_BOOTTIME").into()
}

/// Kills this process at a set time of [`elapsed`]. Dropped: never.
pub(super) struct LeaseTimer(Timer);

impl LeaseTimer {
    pub(super) fn start(at: Duration) -> Result<Self, StoreError> {
        let kill = SigEvent::new(SigevNotify::SigevSignal { signal: Signal::SIGKILL, si_value: 0 });
        let mut timer = Self(Timer::new(ClockId::CLOCK_BOOTTIME, kill).map_err(failed)?);
        timer.set(at)?;
        Ok(timer)
    }

    /// Moves the end.
    pub(super) fn set(&mut self, at: Duration) -> Result<(), StoreError> {
        let at = Expiration::OneShot(TimeSpec::from_duration(at));
        self.0.set(at, TimerSetTimeFlags::TFD_TIMER_ABSTIME).map_err(failed)
    }
}

fn failed(cause: Errno) -> StoreError {
    StoreError::Io(format!("cannot set the timer that ends this process with its lease: {cause}"))
}
