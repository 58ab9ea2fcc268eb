//! The runtime of a member that does not lead. It gives the APIs the member's read models, and a gateway that refuses
//! every command.
//!
//! The APIs of a follower answer most reads. They forward all other requests to the leader, so they send no command.
//! The refusing gateway ensures this. When a member begins to lead, it builds these parts again from its
//! [`Leadership`].

use std::sync::Arc;

use super::contexts::{Contexts, Ports};
use super::leadership::Leadership;
use super::member::Member;
use super::options::RuntimeOptions;
use crate::gateway::CommandGateway;
use crate::operations::Operations;

/// A member that follows.
#[derive(Debug)]
pub struct Follower {
    parts: Leadership,
}

impl Follower {
    pub fn of(member: &Member) -> Self {
        Self { parts: Leadership::refusing(member) }
    }

    /// Refuses every command. The ports of a follower are built on this gateway.
    pub fn gateway(&self) -> &Arc<CommandGateway> {
        &self.parts.gateway
    }

    /// The operations of the APIs. They know no host, because only the leader connects to hosts.
    pub fn operations(self, ports: Ports, options: RuntimeOptions) -> Arc<Operations> {
        Contexts::assemble(self.parts, Vec::new(), ports, options).operations
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use chronova_events::clock::SystemClock;
    use chronova_events::envelope::Meta;
    use chronova_events::ids::HostId;
    use chronova_events::store::memory::MemoryStore;
    use chronova_projections::views::Views;

    use super::*;
    use crate::aggregate::CommandError;
    use crate::host::{HostCommand, HostRoot};

    #[tokio::test]
    async fn a_follower_sends_no_command_and_looks_at_no_aggregate() {
        let log = MemoryStore::new();
        let member = Member::start(Arc::clone(&log) as _, Arc::new(SystemClock), Views::new()).await.unwrap();
        let follower = Follower::of(&member);
        let (host, down) = (HostId::random(), HostCommand::ReportDown { reason: "test".to_owned() });
        let refused = follower.gateway().send::<HostRoot>(&host, down, Meta::system("test")).await;
        assert!(matches!(refused, Err(CommandError::Unavailable(_))), "{refused:?}");
        // An actor here would not see the events that the leader appends, so the gateway gives out no state.
        assert!(follower.gateway().look::<HostRoot>(&host).await.is_err());
        member.stop().await;
    }
}
