//! Ways to create servers in tests: as the API does (`create`), or one server with a chosen id (`build`).

use chronova_actors::instance::InstanceRequest;
use chronova_actors::instance::asking::asking_process;
use chronova_actors::instance::creation::{CreateReject, CreateServersRequest};
use chronova_actors::quota::ServerQuotaClaim;
use chronova_events::ids::InstanceId;
use chronova_events::instance::{BlockDevicesMapped, BuildRequested};
use uuid::Uuid;

use crate::requests::UNLIMITED;
use crate::world::{Life, build_request, user_meta};

impl Life {
    /// Requests servers as the API does, and waits until they are recorded.
    pub async fn create(&self, request: CreateServersRequest) -> Result<Vec<InstanceId>, CreateReject> {
        let created = self.operations().create_servers(user_meta(), request, None).await?;
        Ok(created.instances)
    }

    /// Claims quota and requests the server. Unlike the API, a test chooses the server's id.
    pub async fn build(&self, instance: InstanceId) -> Result<(), String> {
        self.build_of(build_request(instance)).await
    }

    pub async fn build_of(&self, request: BuildRequested) -> Result<(), String> {
        self.claim_and_ask(claim_for(&request), bare_build(request)).await
    }

    /// Like `build`, with a block device mapping.
    pub async fn build_mapped(&self, request: BuildRequested, mapped: BlockDevicesMapped) -> Result<(), String> {
        let claim = claim_for(&request);
        let (request, mapped) = (Box::new(request), Some(Box::new(mapped)));
        self.claim_and_ask(claim, InstanceRequest::Build { request, mapped, files: None }).await
    }
}

/// The quota that a new server needs.
fn claim_for(request: &BuildRequested) -> ServerQuotaClaim {
    ServerQuotaClaim {
        project: request.project.clone(),
        process: asking_process(request.process),
        instance: request.instance,
        asks_for: request.process,
        cores: request.flavor.vcpus,
        memory_mib: request.flavor.memory_mib,
        defaults: UNLIMITED,
    }
}

/// A build without a block device mapping and without injected files.
fn bare_build(request: BuildRequested) -> InstanceRequest {
    InstanceRequest::Build { request: Box::new(request), mapped: None, files: None }
}

/// A request for `count` small servers, without a quota limit.
pub fn create_request(count: u32) -> CreateServersRequest {
    CreateServersRequest {
        template: build_request(InstanceId(Uuid::nil())),
        hostname: None,
        mapped: None,
        files: None,
        min_count: count,
        max_count: count,
        most: 100,
        group: None,
        defaults: UNLIMITED,
    }
}
