//! One line on the terminal that says how far a long command is: the part done, the rate, and the time left.
//!
//! The line is on standard error, so the output of a command can be redirected. Without a terminal there is no line. It
//! appears after a second, so that short commands show nothing. It disappears before the command prints its result.

use std::io::{self, IsTerminal as _, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use chronova_projections::progress::WorkProgress;

/// The time before the line appears.
const PATIENCE: Duration = Duration::from_secs(1);
/// The interval between two states of the line.
const EVERY: Duration = Duration::from_millis(200);
/// Moves to the start of the line and empties it.
const EMPTY: &str = "\r\x1b[K";

pub(super) struct ProgressLine {
    progress: Arc<WorkProgress>,
    /// The number of events before the first one that the work reads.
    before: u64,
    /// The number of events so far.
    done: u64,
    /// When the line is due next.
    due: Instant,
    shown: bool,
    terminal: Option<Box<dyn Write + Send>>,
}

impl ProgressLine {
    /// The line of work that reads the events after position `before` up to `end`. The line begins with `what`.
    pub(super) fn new(what: &str, before: u64, end: u64) -> Self {
        let terminal = io::stderr().is_terminal().then(|| -> Box<dyn Write + Send> { Box::new(io::stderr()) });
        Self::on(terminal, what, (before, end), Instant::now())
    }

    fn on(terminal: Option<Box<dyn Write + Send>>, what: &str, (before, end): (u64, u64), now: Instant) -> Self {
        let progress = WorkProgress::new(what, end.saturating_sub(before));
        Self { progress, before, done: 0, due: now + PATIENCE, shown: false, terminal }
    }

    /// The work has read the log up to `position`.
    pub(super) fn at(&mut self, position: u64) {
        self.tell(position, Instant::now());
    }

    /// The work has read `done` of `total` events. There is no line until the total is known.
    pub(super) fn of(&mut self, done: u64, total: u64) {
        if total > 0 {
            self.progress.expect(total);
            self.at(self.before + done);
        }
    }

    fn tell(&mut self, position: u64, now: Instant) {
        let done = position.saturating_sub(self.before).max(self.done);
        self.progress.add(done - self.done);
        self.done = done;
        let Some(terminal) = self.terminal.as_mut().filter(|_| now >= self.due) else { return };
        (self.due, self.shown) = (now + EVERY, true);
        // A terminal that is gone is no reason to end the work.
        let _ =
            write!(terminal, "{EMPTY}{}: {}", self.progress.what, self.progress.now()).and_then(|()| terminal.flush());
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if let Some(terminal) = self.terminal.as_mut().filter(|_| self.shown) {
            let _ = terminal.write_all(EMPTY.as_bytes()).and_then(|()| terminal.flush());
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Mutex;

    use super::*;

    #[derive(Clone, Default)]
    struct FakeTerminal(Arc<Mutex<Vec<u8>>>);

    impl FakeTerminal {
        fn take(&self) -> String {
            String::from_utf8(std::mem::take(&mut *self.0.lock().unwrap())).unwrap()
        }
    }

    impl Write for FakeTerminal {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn long_work_has_a_line_that_disappears() {
        let (screen, begun) = (FakeTerminal::default(), Instant::now());
        let mut line = ProgressLine::on(Some(Box::new(screen.clone())), "reads the log", (1_000, 2_000), begun);
        line.tell(1_200, begun + Duration::from_millis(999));
        assert_eq!(screen.take(), "", "the line came too early");
        line.tell(1_500, begun + PATIENCE);
        let shown = screen.take();
        assert!(shown.starts_with("\r\x1b[Kreads the log: 50.0 % of 1000 events, "), "{shown:?}");
        line.tell(1_600, begun + PATIENCE + EVERY / 2);
        assert_eq!(screen.take(), "", "the line came too often");
        // A second pass over the log does not go back.
        line.tell(1_100, begun + PATIENCE + EVERY);
        assert!(screen.take().contains(": 60.0 % of 1000 events, "));
        drop(line);
        assert_eq!(screen.take(), EMPTY);
    }

    #[test]
    fn short_work_and_redirected_output_have_no_line() {
        let (screen, begun) = (FakeTerminal::default(), Instant::now());
        let mut line = ProgressLine::on(Some(Box::new(screen.clone())), "reads the log", (0, 10), begun);
        line.tell(10, begun);
        drop(line);
        assert_eq!(screen.take(), "");
        let mut line = ProgressLine::on(None, "reads the log", (0, 10), begun);
        line.tell(10, begun + PATIENCE);
        assert!(!line.shown);
    }
}
