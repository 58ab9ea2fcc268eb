//! Requests that claim quota or create an image before they reach the server.

use chronova_actors::instance::asking::{ServerRequest, TakenFirst};
use chronova_actors::instance::{InstanceRequest, InstanceRoot};
use chronova_actors::operations::ServerCall;
use chronova_actors::operations::server_images::ServerImageRequest;
use chronova_actors::operations::server_moves::ResizeRequest;
use chronova_actors::quota::{DefaultLimits, ServerQuotaClaim};
use chronova_events::ids::{ImageId, InstanceId, ProjectId, UserId};
use chronova_events::instance::{Alive, FlavorSnapshot, Instance, Rotation};

use crate::world::{ADMIN, Life, user_meta};

/// The limits of a project without quota limits.
pub(crate) const UNLIMITED: DefaultLimits = DefaultLimits::NONE;

impl Life {
    /// Requests a resize to another flavor.
    pub async fn resize_to(&self, instance: InstanceId, flavor: FlavorSnapshot) -> Result<(), String> {
        self.resize_within(instance, flavor, UNLIMITED).await
    }

    pub async fn resize_within(
        &self,
        instance: InstanceId,
        flavor: FlavorSnapshot,
        defaults: DefaultLimits,
    ) -> Result<(), String> {
        let server = self.server_now(instance).await?;
        let request = ResizeRequest { flavor, disk_config: None, defaults };
        let asked = self.operations().resize(user_meta(), call(instance, &server), request).await;
        asked.map(drop).map_err(|reject| reject.to_string())
    }

    /// Requests the revert of a resize or a migration.
    pub async fn revert_resize(&self, instance: InstanceId) -> Result<(), String> {
        self.revert_within(instance, UNLIMITED).await
    }

    pub async fn revert_within(&self, instance: InstanceId, defaults: DefaultLimits) -> Result<(), String> {
        let server = self.server_now(instance).await?;
        let asked = self.operations().revert(user_meta(), call(instance, &server), defaults).await;
        asked.map(drop).map_err(|reject| reject.to_string())
    }

    /// Requests the restore of a soft-deleted server.
    pub async fn restore(&self, instance: InstanceId) -> Result<(), String> {
        let server = self.server_now(instance).await?;
        let asked = self.operations().restore(user_meta(), call(instance, &server), UNLIMITED).await;
        asked.map(drop).map_err(|reject| reject.to_string())
    }

    /// Requests an image of the server, or a backup.
    pub async fn snapshot(&self, instance: InstanceId, backup: Option<Rotation>) -> Result<ImageId, String> {
        let server = self.server_now(instance).await?;
        let (operations, call) = (self.operations(), call(instance, &server));
        let (image, owner) = (ImageId::random(), Some(ProjectId::new("p")));
        let (name, user) = ("copy".to_owned(), UserId::new("u"));
        let request = ServerImageRequest { image, name, project: owner, user, metadata: vec![] };
        let asked = match backup {
            None => operations.create_image(user_meta(), call, request).await,
            Some(backup) => operations.create_backup(user_meta(), call, request, backup).await,
        };
        asked.map(|_| image).map_err(|reject| reject.to_string())
    }

    pub async fn shelve(&self, instance: InstanceId) -> Result<(), String> {
        let server = self.server_now(instance).await?;
        let (project, user) = (Some(ProjectId::new("p")), UserId::new("u"));
        let asked = self.operations().shelve(user_meta(), call(instance, &server), project, user).await;
        asked.map(drop).map_err(|reject| reject.to_string())
    }

    /// Claims quota, and sends the request to the server.
    pub(crate) async fn claim_and_ask(&self, claim: ServerQuotaClaim, request: InstanceRequest) -> Result<(), String> {
        let first = TakenFirst::Quota(Box::new(claim));
        let asked = self.operations().take_and_ask(ServerRequest { first, request, meta: user_meta() }).await;
        asked.map(drop).map_err(|reject| reject.to_string())
    }

    async fn server_now(&self, instance: InstanceId) -> Result<Alive, String> {
        match self.context().gateway.look::<InstanceRoot>(&instance).await {
            Ok(Instance::Alive(server)) => Ok(*server),
            Ok(Instance::Absent | Instance::Deleted(_)) => Err("there is no such server".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}

fn call(id: InstanceId, server: &Alive) -> ServerCall<'_> {
    ServerCall { id, server, asker: ADMIN, is_admin: true }
}
