//! Creates servers: reserves quota, and waits until the process `create_servers` has recorded all of them or is undone.
//!
//! One append claims the quota and requests the process. Each server has a further append, which records it. The wait
//! has no limit, because the outcome is open while the process runs. If the log is not available, or this member stops
//! executing processes, the caller gets an error at once. If the caller goes away, the process continues.

use std::sync::Arc;

use chronova_events::envelope::{Meta, Position};
use chronova_events::ids::{InstanceId, ProcessId};
use chronova_events::quota::QuotaEvent;
use chronova_events::registry::NounEvent as _;
use chronova_events::store::StoreError;

use chronova_projections::views::Views;

use super::Operations;
use super::unique_names::{PATIENCE, reserve};
use crate::aggregate::{CommandError, Committed};
use crate::coordination::name_turns::NameTurns;
use crate::coordination::passwords::OneTimePasswords;
use crate::coordination::waiting_requests::{CreateOrder, CreateRequests};
use crate::gateway::CommandGateway;
use crate::instance::creation::{CreateReject, CreateServersRequest};
use crate::quota::{QuotaCommand, QuotaRoot, ServersWanted};
use crate::server_options::NameScope;

/// The servers that a request created.
#[derive(Debug, Clone)]
pub struct CreatedServers {
    /// The servers in the order of their launch indexes.
    pub instances: Vec<InstanceId>,
    /// A read model that has reached this position shows all of them.
    pub position: Position,
}

impl Operations {
    /// Creates the servers of `request`: as many as quota admits between its minimum and maximum count. Their config
    /// drives, if they have any, get `password`.
    ///
    /// # Errors
    /// The quota is exceeded, the request is for too many servers, a host name is taken, the server group is full, or
    /// the log is not available. After a refusal, no server of the request exists. If the log is not available, the
    /// caller does not know whether any exists.
    pub async fn create_servers(
        &self,
        meta: Arc<Meta>,
        request: CreateServersRequest,
        password: Option<String>,
    ) -> Result<CreatedServers, CreateReject> {
        let admission = Admission {
            gateway: Arc::clone(&self.gateway),
            passwords: Arc::clone(&self.passwords),
            create_requests: Arc::clone(&self.create_requests),
            views: Arc::clone(&self.queries.views),
            names: Arc::clone(&self.names),
            scope: self.reconcile.server_options.name_scope,
        };
        // The creation runs in its own task, so that it completes even if the client goes away.
        let creation = tokio::spawn(admission.create(meta, request, password));
        creation.await.unwrap_or_else(|_| Err(lost()))
    }
}

struct Admission {
    gateway: Arc<CommandGateway>,
    passwords: Arc<OneTimePasswords>,
    create_requests: Arc<CreateRequests>,
    views: Arc<Views>,
    names: Arc<NameTurns>,
    scope: NameScope,
}

impl Admission {
    /// Creates the servers. If names must be unique, first waits for the turn of the names.
    async fn create(
        self,
        meta: Arc<Meta>,
        request: CreateServersRequest,
        password: Option<String>,
    ) -> Result<CreatedServers, CreateReject> {
        let turn = reserve(&self.names, &self.views, self.scope, &request).await;
        let turn = turn.map_err(CreateReject::NameTaken)?;
        let views = Arc::clone(&self.views);
        let created = self.claim(meta, request, password).await?;
        if turn.is_some() {
            views.wait_for(created.position, PATIENCE).await;
        }
        Ok(created)
    }

    async fn claim(
        self,
        meta: Arc<Meta>,
        request: CreateServersRequest,
        password: Option<String>,
    ) -> Result<CreatedServers, CreateReject> {
        let process = ProcessId::random();
        let project = request.template.project.clone();
        let claim = QuotaCommand::Claim(Box::new(wanted(process, &request)));
        if let Some(password) = password.filter(|_| request.template.config_drive) {
            self.passwords.keep(process, password);
        }
        let order = CreateOrder { request: Arc::new(request), meta: Arc::clone(&meta) };
        let outcome = self.create_requests.take_in(process, order);
        let claimed = match self.gateway.send::<QuotaRoot>(&project, claim, meta).await {
            Ok(committed) => committed,
            Err(error) => {
                self.create_requests.withdraw(process);
                self.passwords.forget(process);
                return Err(match error {
                    CommandError::Rejected(reject) => CreateReject::Quota(reject),
                    CommandError::Unavailable(error) => CreateReject::Unavailable(error),
                });
            }
        };
        let position = outcome.await.unwrap_or_else(|_| Err(lost()))?;
        Ok(CreatedServers { instances: instances(&claimed), position: position.max(claimed.position) })
    }
}

fn wanted(process: ProcessId, request: &CreateServersRequest) -> ServersWanted {
    let template = &request.template;
    ServersWanted {
        project: template.project.clone(),
        process,
        min_count: request.min_count,
        max_count: request.max_count,
        most: request.most,
        cores: template.flavor.vcpus,
        memory_mib: template.flavor.memory_mib,
        group: request.group.as_ref().map(|wanted| (wanted.project.clone(), wanted.group)),
        defaults: request.defaults,
    }
}

/// The servers of a claim. The process's id is new, so the events of this command name all of them.
fn instances(claimed: &Committed) -> Vec<InstanceId> {
    let events = claimed.events.iter().filter_map(|event| QuotaEvent::of(event));
    let claims = events.filter_map(|event| match event {
        QuotaEvent::ServersClaimed(claimed) => Some(claimed.instances.iter().copied()),
        _ => None,
    });
    claims.flatten().collect()
}

fn lost() -> CreateReject {
    CreateReject::Unavailable(StoreError::Closed)
}
