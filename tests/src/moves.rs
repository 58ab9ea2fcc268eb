//! Moves of servers in the world of the tests.

use chronova_actors::instance::InstanceCommand;
use chronova_actors::instance::moving::MoveCommand;
use chronova_actors::quota::{DefaultLimits, QuotaAggregate, QuotaCommand};
use chronova_events::ids::{FlavorId, InstanceId, ProcessId};
use chronova_events::instance::FlavorSnapshot;

use crate::world::{ADMIN, Life, build_request, user_meta};

impl Life {
    /// Asks for another flavor as the API does: quota first, then the server.
    pub async fn resize(&self, instance: InstanceId) -> Result<(), String> {
        let project = build_request(instance).project;
        let flavor = Box::new(larger());
        let widen = QuotaCommand::Widen {
            project: project.clone(),
            instance,
            cores: flavor.vcpus,
            memory_mib: flavor.memory_mib,
            defaults: DefaultLimits { instances: -1, cores: -1, memory_mib: -1 },
        };
        let gateway = &self.house().gateway;
        gateway.send::<QuotaAggregate>(&project, widen, user_meta()).await.map_err(|e| e.to_string())?;
        let process = ProcessId::random();
        self.moving(instance, MoveCommand::Resize { process, flavor, disk_config: None, asker: ADMIN }).await
    }

    pub async fn migrate(&self, instance: InstanceId) -> Result<(), String> {
        let process = ProcessId::random();
        self.moving(instance, MoveCommand::Migrate { process, host: None, asker: ADMIN }).await
    }

    pub async fn confirm_resize(&self, instance: InstanceId) -> Result<(), String> {
        let process = ProcessId::random();
        self.moving(instance, MoveCommand::Confirm { process, asker: ADMIN }).await
    }

    pub async fn revert_resize(&self, instance: InstanceId) -> Result<(), String> {
        let process = ProcessId::random();
        self.moving(instance, MoveCommand::Revert { process, asker: ADMIN }).await
    }

    async fn moving(&self, instance: InstanceId, command: MoveCommand) -> Result<(), String> {
        self.instance(instance, InstanceCommand::Move(Box::new(command))).await
    }
}

/// A flavor with more of everything than that of [`build_request`].
pub fn larger() -> FlavorSnapshot {
    FlavorSnapshot {
        id: FlavorId::new("2"),
        name: "small".to_owned(),
        vcpus: 2,
        memory_mib: 256,
        root_gib: 2,
        ephemeral_gib: 0,
        swap_mib: 0,
        extra_specs: vec![],
    }
}
