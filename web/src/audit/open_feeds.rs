//! The number of open live feeds, and the signal that ends them all.
//!
//! The feeds of projects are counted apart from those of auditors, so that projects cannot use up the auditors' limit.
//! One project has at most [`OF_PROJECT`] feeds.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use chronova_events::ids::ProjectId;
use tokio::sync::watch;

use crate::fault::Fault;

/// The most feeds of one project.
const OF_PROJECT: usize = 16;

type ProjectCounts = Arc<Mutex<BTreeMap<ProjectId, usize>>>;

/// The feeds of this process.
#[derive(Debug)]
pub struct OpenFeeds {
    open: Arc<AtomicUsize>,
    /// The feeds of projects about their own servers.
    of_projects: ProjectCounts,
    most: usize,
    pub(super) closing: watch::Sender<bool>,
}

impl OpenFeeds {
    /// Allows at most `most` feeds of auditors and as many of projects at the same time.
    pub fn new(most: usize) -> Self {
        Self { open: Arc::default(), of_projects: Arc::default(), most, closing: watch::Sender::new(false) }
    }

    /// Ends every feed and refuses new ones, because a stopping process must not wait for clients.
    pub fn close(&self) {
        self.closing.send_replace(true);
    }

    pub fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }

    pub(super) fn enter(&self) -> Result<FeedPermit, Fault> {
        self.check_open()?;
        let taken =
            self.open.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |open| (open < self.most).then_some(open + 1));
        match taken {
            Ok(_) => Ok(FeedPermit::Audit(Arc::clone(&self.open))),
            Err(_) => Err(full(&format!("{} feeds are open already, which is the limit.", self.most))),
        }
    }

    /// Counts a feed of a project about its own servers, or refuses it.
    pub(super) fn enter_for(&self, project: &ProjectId) -> Result<FeedPermit, Fault> {
        self.check_open()?;
        let mut counts = self.of_projects.lock().unwrap_or_else(PoisonError::into_inner);
        let (own, all) = (counts.get(project).copied().unwrap_or_default(), counts.values().sum::<usize>());
        if own >= OF_PROJECT || all >= self.most {
            return Err(full("The limit of feeds of projects is reached."));
        }
        *counts.entry(project.clone()).or_default() += 1;
        Ok(FeedPermit::Project(Arc::clone(&self.of_projects), project.clone()))
    }

    fn check_open(&self) -> Result<(), Fault> {
        if *self.closing.borrow() { Err(Fault::unavailable("The server is shutting down.")) } else { Ok(()) }
    }
}

fn full(text: &str) -> Fault {
    Fault::unavailable(text.to_owned()).header("Retry-After", "30".to_owned())
}

/// A feed that counts as open until this value is dropped.
pub(super) enum FeedPermit {
    Audit(Arc<AtomicUsize>),
    Project(ProjectCounts, ProjectId),
}

impl Drop for FeedPermit {
    fn drop(&mut self) {
        match self {
            Self::Audit(open) => drop(open.fetch_sub(1, Ordering::SeqCst)),
            Self::Project(counts, project) => {
                let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(count) = counts.get_mut(project) {
                    *count -= 1;
                }
                counts.retain(|_, count| *count > 0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn one_project_takes_no_place_of_another_or_of_auditors() {
        let feeds = OpenFeeds::new(20);
        let (a, b) = (ProjectId::new("a"), ProjectId::new("b"));
        let mut held: Vec<_> = (0..OF_PROJECT).map(|_| feeds.enter_for(&a).unwrap()).collect();
        assert!(feeds.enter_for(&a).is_err());
        held.extend((OF_PROJECT..20).map(|_| feeds.enter_for(&b).unwrap()));
        assert!(feeds.enter_for(&b).is_err(), "all projects together have a limit");
        assert!(feeds.enter().is_ok());
        held.clear();
        assert!(feeds.enter_for(&b).is_ok() && feeds.of_projects.lock().unwrap().is_empty());
        feeds.close();
        assert!(feeds.enter_for(&a).is_err());
    }
}
