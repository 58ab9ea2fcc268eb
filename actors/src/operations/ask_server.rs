//! Requests that need quota or an image before their server decides. The process `ask_server` completes both steps, or
//! leaves nothing behind.

use std::sync::Arc;

use chronova_events::envelope::Position;
use chronova_events::ids::ProcessId;
use chronova_events::process::{RequestNeed, Task};
use chronova_events::store::StoreError;

use super::Operations;
use crate::aggregate::CommandError;
use crate::coordination::waiting_requests::{RequestRefusal as _, ServerRequests};
use crate::gateway::CommandGateway;
use crate::instance::asking::{AskServerReject, ServerRequest, TakenFirst};
use crate::process::{ProcessCommand, ProcessReject, ProcessRoot};
use crate::quota::{QuotaCommand, QuotaRoot};

impl Operations {
    /// Claims the quota or creates the image that the request needs, and sends the request to its server. Returns the
    /// position of the server's event.
    ///
    /// # Errors
    /// A service refuses what the request needs, the server refuses the request, or the log does not append the events.
    /// Then the request leaves nothing behind. One exception: the log failed after the server had accepted the request.
    pub async fn take_and_ask(&self, request: ServerRequest) -> Result<Position, AskServerReject> {
        let asking = Asking { gateway: Arc::clone(&self.gateway), requests: Arc::clone(&self.server_requests) };
        // The request runs in its own task, so that it completes even if the client goes away.
        let asked = tokio::spawn(asking.ask(request));
        asked.await.unwrap_or_else(|_| Err(AskServerReject::lost()))
    }
}

struct Asking {
    gateway: Arc<CommandGateway>,
    requests: Arc<ServerRequests>,
}

impl Asking {
    async fn ask(self, request: ServerRequest) -> Result<Position, AskServerReject> {
        let process = request.first.process();
        let outcome = self.requests.take_in(process, request.clone());
        if let Err(reject) = self.begin(process, request).await {
            self.requests.withdraw(process);
            return Err(reject);
        }
        outcome.await.unwrap_or_else(|_| Err(AskServerReject::lost()))
    }

    /// Appends the first event of the request. This event also requests the process. A claim that quota refuses leaves
    /// no event.
    async fn begin(&self, process: ProcessId, request: ServerRequest) -> Result<(), AskServerReject> {
        match request.first {
            TakenFirst::Quota(claim) => {
                let (project, claim) = (claim.project.clone(), QuotaCommand::ClaimForServer(claim));
                let claimed = self.gateway.send::<QuotaRoot>(&project, claim, request.meta).await;
                claimed.map(drop).map_err(|error| match error {
                    CommandError::Rejected(reject) => AskServerReject::Quota(reject),
                    CommandError::Unavailable(error) => AskServerReject::Unavailable(error),
                })
            }
            TakenFirst::Image { instance, asks_for, draft } => {
                let task = Task::AskServer { instance, asks_for, needs: RequestNeed::Image(draft.image) };
                let start = ProcessCommand::Start { process, task };
                let begun = self.gateway.send::<ProcessRoot>(&process, start, request.meta).await;
                begun.map(drop).map_err(not_begun)
            }
        }
    }
}

fn not_begun(error: CommandError<ProcessReject>) -> AskServerReject {
    AskServerReject::Unavailable(match error {
        CommandError::Unavailable(error) => error,
        // The process's id is new, so its stream is empty and the command is never rejected.
        CommandError::Rejected(_) => StoreError::Closed,
    })
}
