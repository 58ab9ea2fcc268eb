//! Requests for servers, in the form that the API sends.

use chronova_actors::instance::InstanceRequest;
use chronova_actors::instance::creation::{CreateReject, CreateServersRequest};
use chronova_actors::quota::{DefaultLimits, QuotaCommand, QuotaRoot};
use chronova_events::ids::InstanceId;
use chronova_events::instance::{BlockDevicesMapped, BuildRequested};
use uuid::Uuid;

use crate::world::{Life, build_request, user_meta};

impl Life {
    /// Requests servers as the API does, and waits until they are recorded.
    pub async fn create(&self, request: CreateServersRequest) -> Result<Vec<InstanceId>, CreateReject> {
        let created = self.operations().create_servers(user_meta(), request, None).await?;
        Ok(created.instances)
    }

    /// Requests a server as the API does: quota first, then the server.
    pub async fn build(&self, instance: InstanceId) -> Result<(), String> {
        self.build_of(build_request(instance)).await
    }

    pub async fn build_of(&self, request: BuildRequested) -> Result<(), String> {
        let instance = request.instance;
        self.reserve(instance).await?;
        self.instance(instance, bare_build(request)).await
    }

    /// As `build`, with disks beyond those of image and flavor.
    pub async fn build_mapped(&self, request: BuildRequested, mapped: BlockDevicesMapped) -> Result<(), String> {
        let instance = request.instance;
        self.reserve(instance).await?;
        let (request, mapped) = (Box::new(request), Some(Box::new(mapped)));
        self.instance(instance, InstanceRequest::Build { request, mapped, files: None }).await
    }

    pub(crate) async fn reserve(&self, instance: InstanceId) -> Result<(), String> {
        self.reserve_for(&build_request(instance)).await
    }

    pub(crate) async fn reserve_for(&self, request: &BuildRequested) -> Result<(), String> {
        let gateway = &self.context().gateway;
        let reserve = QuotaCommand::Reserve {
            project: request.project.clone(),
            instances: vec![request.instance],
            cores: request.flavor.vcpus,
            memory_mib: request.flavor.memory_mib,
            defaults: DefaultLimits { instances: -1, cores: -1, memory_mib: -1 },
        };
        let project = request.project.clone();
        gateway.send::<QuotaRoot>(&project, reserve, user_meta()).await.map_err(|e| e.to_string())?;
        Ok(())
    }
}

/// A build without disks and files of its own.
pub fn bare_build(request: BuildRequested) -> InstanceRequest {
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
        defaults: DefaultLimits { instances: -1, cores: -1, memory_mib: -1 },
    }
}
