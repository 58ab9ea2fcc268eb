//! The number of open live feeds, and the signal that ends them all.
//!
//! The feeds of projects are counted apart from those of auditors, so that projects cannot use up the auditors' limit.
//! One project has at most [`OF_PROJECT`] feeds, and at most a quarter of the limit of all projects. One user has
//! at most half as many feeds as one project may have. The feeds of the user in all projects count together.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use chronova_events::ids::{ProjectId, UserId};
use tokio::sync::watch;

use crate::fault::Fault;

/// The most feeds of one project.
const OF_PROJECT: usize = 16;

/// The open feeds of each user in each project.
type ProjectCounts = Arc<Mutex<BTreeMap<(ProjectId, UserId), usize>>>;

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
    /// Allows at most `most` feeds of auditors, and at most `most` feeds of projects.
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
    pub(super) fn enter_for(&self, project: &ProjectId, user: &UserId) -> Result<FeedPermit, Fault> {
        self.check_open()?;
        let mut counts = self.of_projects.lock().unwrap_or_else(PoisonError::into_inner);
        let (of_project, of_user) = (self.most_of_project(), self.most_of_user());
        if sum(&counts, |_, theirs| theirs == user) >= of_user {
            return Err(full(&format!("You have {of_user} feeds already, which is the limit: close one.")));
        }
        if sum(&counts, |theirs, _| theirs == project) >= of_project {
            return Err(full(&format!("The project has {of_project} feeds already, which is the limit.")));
        }
        if sum(&counts, |_, _| true) >= self.most {
            return Err(full("The limit of feeds of projects is reached."));
        }
        let key = (project.clone(), user.clone());
        *counts.entry(key.clone()).or_default() += 1;
        Ok(FeedPermit::Project(Arc::clone(&self.of_projects), key))
    }

    fn most_of_project(&self) -> usize {
        OF_PROJECT.min(self.most.div_ceil(4))
    }

    fn most_of_user(&self) -> usize {
        self.most_of_project().div_ceil(2)
    }

    fn check_open(&self) -> Result<(), Fault> {
        if *self.closing.borrow() { Err(Fault::unavailable("The server is shutting down.")) } else { Ok(()) }
    }
}

/// The number of feeds whose project and user `counted` accepts.
fn sum(counts: &BTreeMap<(ProjectId, UserId), usize>, counted: impl Fn(&ProjectId, &UserId) -> bool) -> usize {
    counts.iter().filter(|((project, user), _)| counted(project, user)).map(|(_, count)| count).sum()
}

fn full(text: &str) -> Fault {
    Fault::unavailable(text.to_owned()).header("Retry-After", "30".to_owned())
}

/// A feed that counts as open until this value is dropped.
pub(super) enum FeedPermit {
    Audit(Arc<AtomicUsize>),
    Project(ProjectCounts, (ProjectId, UserId)),
}

impl Drop for FeedPermit {
    fn drop(&mut self) {
        match self {
            Self::Audit(open) => drop(open.fetch_sub(1, Ordering::SeqCst)),
            Self::Project(counts, key) => {
                let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(count) = counts.get_mut(key) {
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

    fn ids(name: &str) -> (ProjectId, UserId) {
        (ProjectId::new(name), UserId::new(name))
    }

    /// Opens feeds until one is refused.
    fn all_for(feeds: &OpenFeeds, project: &ProjectId, user: &UserId) -> Vec<FeedPermit> {
        std::iter::from_fn(|| feeds.enter_for(project, user).ok()).collect()
    }

    #[test]
    fn one_project_takes_no_place_of_another_or_of_auditors() {
        let feeds = OpenFeeds::new(20);
        let (project, _) = ids("a");
        let mut held: Vec<_> = ["x", "y", "z"].map(|user| all_for(&feeds, &project, &UserId::new(user))).into();
        assert_eq!(held.iter().map(Vec::len).collect::<Vec<_>>(), [3, 2, 0], "5 of the project, 3 of a user");
        let others = ["b", "c", "d", "e", "f", "g"].map(|name| {
            let (project, user) = ids(name);
            all_for(&feeds, &project, &user)
        });
        held.extend(others);
        assert_eq!(held.iter().map(Vec::len).sum::<usize>(), 20, "all projects together have a limit");
        assert!(feeds.enter().is_ok());
        held.clear();
        assert!(feeds.of_projects.lock().unwrap().is_empty());
        assert!(feeds.enter_for(&ids("b").0, &ids("b").1).is_ok());
        feeds.close();
        assert!(feeds.enter_for(&project, &ids("a").1).is_err());
    }

    #[test]
    fn one_user_takes_not_all_places_by_many_projects() {
        let feeds = OpenFeeds::new(64);
        let user = UserId::new("busy");
        let held: Vec<_> = ["a", "b", "c"].iter().flat_map(|name| all_for(&feeds, &ids(name).0, &user)).collect();
        assert_eq!(held.len(), 8);
        assert!(feeds.enter_for(&ids("a").0, &ids("other").1).is_ok());
    }

    #[test]
    fn a_small_limit_leaves_places_to_other_projects() {
        let feeds = OpenFeeds::new(4);
        let (a, b) = (ids("a"), ids("b"));
        let held = all_for(&feeds, &a.0, &a.1);
        assert_eq!(held.len(), 1);
        assert!(feeds.enter_for(&b.0, &b.1).is_ok());
    }
}
