//! The number of open consoles, and the signal that ends them all.

use tokio::sync::watch;

use super::limits::ConsoleSlots;

/// The consoles that are open through this process.
#[derive(Debug)]
pub struct OpenConsoles {
    pub(super) places: ConsoleSlots,
    pub(super) closing: watch::Sender<bool>,
}

impl OpenConsoles {
    /// At most so many at the same time.
    pub fn new(most: usize) -> Self {
        Self { places: ConsoleSlots::new(most), closing: watch::Sender::new(false) }
    }

    /// Ends every console, now and from now on: a server that is told to end does not wait for its clients.
    pub fn close(&self) {
        self.places.close();
        self.closing.send_replace(true);
    }
}
