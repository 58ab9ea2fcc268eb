//! Starts the actors and stops them.
//!
//! | file | what |
//! |---|---|
//! | [`member`] | what every member of a cluster runs |
//! | [`leader`] | what only the leader runs |
//! | [`contexts`] | builds all contexts |
//! | [`options`] | the options of this crate, grouped by owner |

pub mod contexts;
mod core;
pub mod leader;
pub mod member;
pub mod options;

use std::sync::Arc;
use std::time::Duration;

use chronova_hypervisor::driver::Driver;
use tokio::sync::watch;

use crate::operations::Operations;
use crate::reconcile::run_counts::ReconcilerTally;

pub use self::contexts::{Contexts, Ports};
pub use self::core::Core;
pub use self::leader::Leader;
pub use self::member::FollowingMember;
pub use self::options::RuntimeOptions;

/// A leading member, with all its parts running.
#[derive(Debug)]
pub struct Runtime {
    pub contexts: Contexts,
    member: FollowingMember,
    leader: Leader,
}

impl Runtime {
    /// Follows the log, continues unfinished processes, and starts the host agents.
    pub async fn start(core: Core, drivers: Vec<Arc<dyn Driver>>, ports: Ports, options: RuntimeOptions) -> Self {
        let member = FollowingMember::start(Arc::clone(&core.store), Arc::clone(&core.views));
        let contexts = Contexts::assemble(core, drivers, ports, options);
        let leader = Leader::start(&contexts).await;
        Self { contexts, member, leader }
    }

    /// The operations of an API.
    pub fn operations(&self) -> &Arc<Operations> {
        &self.contexts.operations
    }

    /// The reason why the read models do not follow the log any more; `None` while they do.
    pub fn broken(&self) -> watch::Receiver<Option<String>> {
        self.member.broken()
    }

    /// How often each reconciler ran, and with what success.
    pub fn reconcilers(&self) -> &[Arc<ReconcilerTally>] {
        self.leader.reconcilers()
    }

    /// Stops all work where it is; the log says how to continue.
    pub async fn stop(self) {
        self.leader.stop().await;
        // The read models get some time to fold the last appended events.
        tokio::time::sleep(Duration::from_millis(10)).await;
        self.member.stop();
    }
}
