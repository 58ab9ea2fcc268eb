//! Requests for servers, in the form that the API sends.

use chronova_actors::instance::creation::{CreateReject, CreateServersRequest};
use chronova_actors::quota::DefaultLimits;
use chronova_events::ids::InstanceId;
use uuid::Uuid;

use crate::world::{Life, build_request, user_meta};

impl Life {
    /// Requests servers as the API does, and waits until they are recorded.
    pub async fn create(&self, request: CreateServersRequest) -> Result<Vec<InstanceId>, CreateReject> {
        let created = self.operations().create_servers(user_meta(), request, None).await?;
        Ok(created.instances)
    }
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
