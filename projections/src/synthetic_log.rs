//! Generates a synthetic log of a cloud for measurements. Hosts come up. Servers are built, stopped, started and
//! deleted, with events like those of a real cloud.

use std::collections::VecDeque;

use chronova_events::envelope::StreamId;
use chronova_events::host::HostEvent;
use chronova_events::ids::{ConsumerId, HostId, InstanceId, ProcessId, ProjectId, ProviderId, UserId};
use chronova_events::instance::{
    BuildRequested, BuildSucceeded, DeleteRequested, Deleted, InstanceEvent, NetworkAllocated, NicInfo, Placed,
    PowerAction, PowerCompleted, PowerRequested,
};
use chronova_events::ledger::{
    Allocation, Claimed, Inventory, InventoryReplaced, LedgerEvent, ProviderCreated, Released,
};
use chronova_events::process::{Finished, ProcessEvent, ProcessOutcome, Started, StepDone, StepOutput, Task};
use chronova_events::quota::{QuotaEvent, QuotaReleased, QuotaReserved};
use chronova_events::registry::Event;
use chronova_events::{host, instance};
use uuid::Uuid;

const HOSTS: u64 = 100;
const PROJECTS: u64 = 20;

/// An endless sequence of events with their streams.
#[derive(Debug)]
pub struct SyntheticEvents {
    /// The number of servers alive at the same time. Beyond it the oldest server is deleted.
    fleet: usize,
    /// How many times each server is stopped and started.
    cycles: u32,
    alive: VecDeque<InstanceId>,
    made: u64,
    next: VecDeque<(StreamId, Event)>,
    request: Option<BuildRequested>,
    nics: Vec<NicInfo>,
}

impl SyntheticEvents {
    pub fn new(fleet: usize, cycles: u32) -> Self {
        let request = instance::samples().into_iter().find_map(|event| match event {
            InstanceEvent::BuildRequested(request) => Some(request),
            _ => None,
        });
        let nics = instance::samples().into_iter().find_map(|event| match event {
            InstanceEvent::NetworkAllocated(allocated) => Some(allocated.nics),
            _ => None,
        });
        let (alive, next) = (VecDeque::new(), VecDeque::new());
        let mut life = Self { fleet, cycles, alive, made: 0, next, request, nics: nics.unwrap_or_default() };
        life.begin();
        life
    }

    fn push(&mut self, noun: &str, key: impl std::fmt::Display, event: impl Into<Event>) {
        self.next.push_back((StreamId::new(noun, key), event.into()));
    }

    fn ledger(&mut self, event: impl Into<LedgerEvent>) {
        self.push("ledger", "main", event.into());
    }

    fn begin(&mut self) {
        let registered = host::samples().into_iter().find_map(|event| match event {
            HostEvent::Registered(registered) => Some(registered),
            _ => None,
        });
        for number in 0..HOSTS {
            let (id, name) = (host_id(number), format!("host-{number}"));
            let provider = ProviderId(id.0);
            self.ledger(ProviderCreated { provider, name: name.clone(), parent: None });
            let line = |class: &str, total| Inventory {
                class: class.to_owned(),
                total,
                reserved: 0,
                min_unit: 1,
                max_unit: total,
                step_size: 1,
                allocation_ratio: 16.0,
            };
            let inventories = vec![line("DISK_GB", 1 << 20), line("MEMORY_MB", 1 << 24), line("VCPU", 1 << 16)];
            self.ledger(InventoryReplaced { provider, inventories });
            if let Some(mut registered) = registered.clone() {
                (registered.host, registered.number, registered.hostname) = (id, number + 1, name);
                self.push("host", id, HostEvent::from(registered));
            }
        }
    }

    fn step(&mut self, process: ProcessId, step: &str, output: StepOutput) {
        self.push("process", process, ProcessEvent::from(StepDone { step: step.to_owned(), output }));
    }

    fn finish(&mut self, process: ProcessId) {
        self.push("process", process, ProcessEvent::from(Finished { outcome: ProcessOutcome::Succeeded }));
    }

    fn start(&mut self, process: ProcessId, task: Task) {
        self.push("process", process, ProcessEvent::from(Started { process, task }));
    }

    fn build(&mut self) {
        self.made += 1;
        let id = InstanceId::derive(Uuid::NAMESPACE_OID, &self.made.to_string());
        let project = project_of(id);
        let process = ProcessId::derive(id.0, "build");
        let (host, hostname) = (host_id(self.made % HOSTS), format!("host-{}", self.made % HOSTS));
        let reserved = QuotaReserved { project: project.clone(), instances: vec![id], cores: 1, memory_mib: 512 };
        self.push("quota", &project, QuotaEvent::from(reserved));
        if let Some(mut request) = self.request.clone() {
            (request.instance, request.process, request.number) = (id, process, self.made);
            request.project = project.clone();
            request.name = format!("load-{}", self.made);
            request.hostname.clone_from(&request.name);
            self.push("instance", id, InstanceEvent::from(request));
        }
        self.start(process, Task::BuildInstance { instance: id });
        let resources = vec![("DISK_GB".to_owned(), 1), ("MEMORY_MB".to_owned(), 512), ("VCPU".to_owned(), 1)];
        self.ledger(Claimed {
            consumer: ConsumerId::new(id.to_string()),
            project,
            user: UserId::new("user"),
            consumer_type: Some("INSTANCE".to_owned()),
            allocations: vec![Allocation { provider: ProviderId(host.0), resources }],
        });
        let availability_zone = "nova".to_owned();
        let placed = Placed { process, host, hostname: hostname.clone(), attempt: 1, availability_zone };
        self.push("instance", id, InstanceEvent::from(placed));
        self.step(process, "choose_host", StepOutput::Host { host, hostname });
        let nics = self.nics.clone();
        self.push("instance", id, InstanceEvent::from(NetworkAllocated { process, nics: nics.clone() }));
        self.step(process, "allocate_network", StepOutput::Nics(nics));
        self.step(process, "spawn_guest", StepOutput::Nothing);
        self.push("instance", id, InstanceEvent::from(BuildSucceeded { process }));
        self.finish(process);
        for cycle in 0..self.cycles {
            self.power(id, cycle, PowerAction::Stop);
            self.power(id, cycle, PowerAction::Start);
        }
        self.alive.push_back(id);
    }

    fn power(&mut self, id: InstanceId, cycle: u32, action: PowerAction) {
        let process = ProcessId::derive(id.0, &format!("{action:?} {cycle}"));
        self.push("instance", id, InstanceEvent::from(PowerRequested { process, action }));
        self.start(process, Task::Power { instance: id, action });
        self.step(process, "set_power", StepOutput::Nothing);
        self.push("instance", id, InstanceEvent::from(PowerCompleted { process, action }));
        self.finish(process);
    }

    fn delete(&mut self, id: InstanceId) {
        let process = ProcessId::derive(id.0, "delete");
        self.push("instance", id, InstanceEvent::from(DeleteRequested { process, cancels: None }));
        self.start(process, Task::DeleteInstance { instance: id, cancels: None });
        for step in ["destroy_guest", "release_network"] {
            self.step(process, step, StepOutput::Nothing);
        }
        self.ledger(Released { consumer: ConsumerId::new(id.to_string()) });
        let project = project_of(id);
        self.push("quota", &project, QuotaEvent::from(QuotaReleased { project: project.clone(), instance: id }));
        self.push("instance", id, InstanceEvent::from(Deleted { process }));
        self.finish(process);
    }
}

impl Iterator for SyntheticEvents {
    type Item = (StreamId, Event);

    fn next(&mut self) -> Option<Self::Item> {
        while self.next.is_empty() {
            match self.alive.pop_front() {
                Some(oldest) if self.alive.len() >= self.fleet => self.delete(oldest),
                Some(oldest) => {
                    self.alive.push_front(oldest);
                    self.build();
                }
                None => self.build(),
            }
        }
        self.next.pop_front()
    }
}

fn host_id(number: u64) -> HostId {
    HostId(Uuid::from_u128(0x1000 + u128::from(number)))
}

fn project_of(id: InstanceId) -> ProjectId {
    ProjectId::new(format!("project-{}", id.0.as_u128() % u128::from(PROJECTS)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::runner::catch_up;
    use crate::views::Views;
    use chronova_events::envelope::{Meta, NewEvent, Timestamp};
    use chronova_events::store::memory::MemoryStore;
    use chronova_events::store::{EventStore, Expected};

    #[tokio::test]
    async fn it_lives() {
        let store = MemoryStore::new();
        for ((stream, event), time) in SyntheticEvents::new(5, 1).take(1_000).zip(1..) {
            let new = NewEvent::new(event, Timestamp(time), &Meta::system("test"));
            store.append(&stream, Expected::Any, vec![new]).await.unwrap();
        }
        let views = Views::new();
        catch_up(&*store, &views).await.unwrap();
        let (all, alive) = views.servers.read(|servers| {
            (servers.all().count(), servers.all().filter(|row| row.instance.alive().is_some()).count())
        });
        assert!(all > 10 && (4..=6).contains(&alive), "{all} servers, {alive} alive");
        assert!(views.processes.read(crate::processes::Processes::len) <= 1);
        assert!(views.placement.read(|view| view.ledger.consumers.len()) <= 6);
    }
}
