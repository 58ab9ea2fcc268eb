//! The number of open live feeds, and the signal that ends them all.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::watch;

use crate::fault::Fault;

/// The feeds of this process.
#[derive(Debug)]
pub struct OpenFeeds {
    open: Arc<AtomicUsize>,
    most: usize,
    pub(super) closing: watch::Sender<bool>,
}

impl OpenFeeds {
    /// Allows at most `most` feeds at the same time.
    pub fn new(most: usize) -> Self {
        Self { open: Arc::default(), most, closing: watch::Sender::new(false) }
    }

    /// Ends every feed and refuses new ones, because a stopping process must not wait for clients.
    pub fn close(&self) {
        self.closing.send_replace(true);
    }

    pub fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }

    pub(super) fn enter(&self) -> Result<FeedPermit, Fault> {
        if *self.closing.borrow() {
            return Err(Fault::unavailable("The server is shutting down."));
        }
        let taken =
            self.open.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |open| (open < self.most).then_some(open + 1));
        match taken {
            Ok(_) => Ok(FeedPermit(Arc::clone(&self.open))),
            Err(_) => {
                let text = format!("{} feeds are open already, which is the limit.", self.most);
                Err(Fault::unavailable(text).header("Retry-After", "30".to_owned()))
            }
        }
    }
}

/// A counted feed; dropping it ends the count.
pub(super) struct FeedPermit(Arc<AtomicUsize>);

impl Drop for FeedPermit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
