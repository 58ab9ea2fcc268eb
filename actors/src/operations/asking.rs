//! Requests that take something before they ask their server: the process `ask_server` does both, or neither.

use std::sync::Arc;

use chronova_events::envelope::Position;
use chronova_events::ids::{InstanceId, ProcessId};
use chronova_events::process::Task;
use chronova_events::store::StoreError;

use super::Operations;
use crate::aggregate::CommandError;
use crate::coordination::waiting_requests::{RequestRefusal as _, ServerRequests};
use crate::gateway::CommandGateway;
use crate::instance::asking::{AskServerReject, ServerRequest};
use crate::process::{ProcessCommand, ProcessRoot};

impl Operations {
    /// Takes what the request needs, and asks the server, which is asked for `process`.
    ///
    /// # Errors
    /// What is needed cannot be had, the server refuses, or the log does not take the events. Then nothing is left of it.
    pub(super) async fn take_and_ask(
        &self,
        instance: InstanceId,
        process: ProcessId,
        request: ServerRequest,
    ) -> Result<Position, AskServerReject> {
        let asking = Asking { gateway: Arc::clone(&self.gateway), requests: Arc::clone(&self.server_requests) };
        // A task of its own: a client that goes away between the two leaves nothing half done.
        let asked = tokio::spawn(asking.ask(instance, process, request));
        asked.await.unwrap_or_else(|_| Err(AskServerReject::lost()))
    }
}

struct Asking {
    gateway: Arc<CommandGateway>,
    requests: Arc<ServerRequests>,
}

impl Asking {
    async fn ask(
        self,
        instance: InstanceId,
        process: ProcessId,
        request: ServerRequest,
    ) -> Result<Position, AskServerReject> {
        let asking = ProcessId::derive(process.0, "ask");
        let task = Task::AskServer { instance, process, needs: request.first.need() };
        let meta = Arc::clone(&request.meta);
        let told = self.requests.take_in(asking, request);
        let start = ProcessCommand::Start { process: asking, task };
        if let Err(error) = self.gateway.send::<ProcessRoot>(&asking, start, meta).await {
            self.requests.withdraw(asking);
            return Err(AskServerReject::Unavailable(match error {
                CommandError::Unavailable(error) => error,
                // Its id is new, so nothing is in its way.
                CommandError::Rejected(_) => StoreError::Closed,
            }));
        }
        told.await.unwrap_or_else(|_| Err(AskServerReject::lost()))
    }
}
