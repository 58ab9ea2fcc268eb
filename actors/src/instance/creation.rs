//! A user's request for one or more new servers, and the commands that create the single servers.

use std::sync::Arc;

use chronova_events::ids::{BlockDeviceId, InstanceId, ProcessId, ProjectId, ServerGroupId};
use chronova_events::instance::{BlockDevice, BlockDevicesMapped, BuildRequested, FilesGiven};
use chronova_events::store::StoreError;
use thiserror::Error;

use super::{InstanceReject, InstanceRequest};
use crate::quota::{DefaultLimits, QuotaReject};
use crate::server_group::ServerGroupReject;

/// A request for new servers; all its resources were looked up and checked.
#[derive(Debug, Clone)]
pub struct CreateServersRequest {
    /// The common part of the servers' requests. [`Self::server`] replaces ids, names, numbers and indexes.
    pub template: BuildRequested,
    /// `None`: each hostname is derived from the server's name.
    pub hostname: Option<String>,
    /// The disks, unless they are those that the image and the flavor imply.
    pub mapped: Option<BlockDevicesMapped>,
    pub files: Option<FilesGiven>,
    pub min_count: u32,
    pub max_count: u32,
    /// `[chronova] max_servers_per_request`: the most servers of one request.
    pub most: u32,
    pub group: Option<GroupToJoin>,
    /// The limits of a project without own limits.
    pub defaults: DefaultLimits,
}

/// The server group that new servers join.
#[derive(Debug, Clone)]
pub struct GroupToJoin {
    /// The project that owns the group.
    pub project: ProjectId,
    pub group: ServerGroupId,
    /// How many servers of one user the group may have; -1 means no limit.
    pub limit: i64,
}

/// Why a request created no servers.
#[derive(Debug, Clone, Error)]
pub enum CreateReject {
    #[error(transparent)]
    Quota(QuotaReject),
    #[error(transparent)]
    Group(ServerGroupReject),
    /// Nova's `InstanceExists`: another server has this host name.
    #[error("a server with the host name {0} exists")]
    NameTaken(String),
    #[error("server {instance}: {reject}")]
    Server { instance: InstanceId, reject: InstanceReject },
    /// The log did not append an event in time. The process is undone, so no server stays.
    #[error("the event log is not available")]
    Unavailable(#[source] StoreError),
}

impl CreateServersRequest {
    /// The request that creates the server `index` of `of`. The same inputs give the same ids, so a repeated request
    /// creates no second server.
    pub fn server(&self, instance: InstanceId, index: usize, of: usize, number: u64) -> InstanceRequest {
        let (name, hostname) = self.names(instance, index, of);
        let request = BuildRequested {
            instance,
            process: build_process(instance),
            number,
            launch_index: u32::try_from(index).unwrap_or(u32::MAX),
            batch: u32::try_from(of).unwrap_or(u32::MAX),
            name,
            hostname,
            flavor: Arc::clone(&self.template.flavor),
            ..self.template.clone()
        };
        let mapped = self.mapped.as_ref().map(|mapped| Box::new(disks_of(mapped, instance)));
        InstanceRequest::Build { request: Box::new(request), mapped, files: self.files.clone() }
    }

    /// The host names that the servers of this request may get. A name that derives from a server's id is unique, so it
    /// is left out.
    pub fn hostnames(&self) -> Vec<String> {
        const NOBODY: InstanceId = InstanceId(uuid::Uuid::nil());
        let own = |index, of| self.names(NOBODY, index, of).1;
        let single = (self.min_count <= 1).then(|| own(0, 1));
        let several = if self.max_count > 1 { self.max_count.min(self.most) } else { 0 };
        let several = (0..usize::try_from(several).unwrap_or(usize::MAX)).map(|index| own(index, 2));
        single.into_iter().chain(several).filter(|name| *name != hostname("", NOBODY)).collect()
    }

    /// Name and hostname of the server `index` out of `of`.
    fn names(&self, instance: InstanceId, index: usize, of: usize) -> (String, String) {
        let numbered = |text: &str| if of > 1 { format!("{text}-{}", index + 1) } else { text.to_owned() };
        let name = numbered(&self.template.name);
        let hostname = match &self.hostname {
            Some(hostname) => numbered(hostname),
            None => hostname(&name, instance),
        };
        (name, hostname)
    }
}

/// The process that builds a server created by a request.
pub fn build_process(instance: InstanceId) -> ProcessId {
    ProcessId::derive(instance.0, "build")
}

/// The mappings for one server, with new ids.
fn disks_of(mapped: &BlockDevicesMapped, instance: InstanceId) -> BlockDevicesMapped {
    let own = |(index, device): (usize, &BlockDevice)| BlockDevice {
        id: BlockDeviceId::derive(instance.0, &format!("device-{index}")),
        ..device.clone()
    };
    BlockDevicesMapped { devices: mapped.devices.iter().enumerate().map(own).collect(), image: mapped.image.clone() }
}

/// A display name as a hostname (RFC 952 and 1123, at most 63 characters), as Nova makes it.
pub fn hostname(name: &str, instance: InstanceId) -> String {
    let mut text: String = name
        .chars()
        .map(|c| if matches!(c, ' ' | '_' | '.') { '-' } else { c })
        .filter(|c| c.is_ascii_alphanumeric() || *c == '-')
        .map(|c| c.to_ascii_lowercase())
        .collect();
    text.truncate(63);
    let text = text.trim_matches('-');
    if text.is_empty() { format!("server-{instance}") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostnames_have_only_valid_characters() {
        let id = InstanceId(uuid::Uuid::nil());
        assert_eq!(hostname("My Server_1.example", id), "my-server-1-example");
        assert_eq!(hostname("ü", id), "server-00000000-0000-0000-0000-000000000000");
        assert_eq!(hostname(&"a".repeat(80), id).len(), 63);
    }
}
