//! The number of open consoles, and the signal that ends them all.

use std::sync::atomic::AtomicU64;

use tokio::sync::watch;

use super::limits::ConsoleSlots;

/// The open consoles of this process.
#[derive(Debug)]
pub struct OpenConsoles {
    pub(super) places: ConsoleSlots,
    pub(super) closing: watch::Sender<bool>,
    /// The number of the last recording.
    pub(super) recorded: AtomicU64,
}

impl OpenConsoles {
    /// Allows at most `most` consoles at the same time.
    pub fn new(most: usize) -> Self {
        Self { places: ConsoleSlots::new(most), closing: watch::Sender::new(false), recorded: AtomicU64::new(0) }
    }

    /// Ends every console and refuses new ones, because a stopping process must not wait for clients.
    pub fn close(&self) {
        self.places.close();
        self.closing.send_replace(true);
    }
}
