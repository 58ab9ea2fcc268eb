//! The promises that every implementation of [`NetworkService`] keeps.

use std::net::IpAddr;
use std::sync::Arc;

use async_trait::async_trait;
use chronova_actors::ports::{InterfaceRequest, InterfacesRequest, NetworkService, PortError, PortInfo, ServiceCaller};
use chronova_events::envelope::Meta;
use chronova_events::ids::{InstanceId, NetworkId, PortId, ProcessId, ProjectId, SecurityGroupId};
use chronova_events::instance::{NicInfo, RequestedNetworks, RequestedNic};
use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::promise;

/// The name of a tenant's second security group.
pub const GROUP: &str = "web";
const HOST: &str = "compute1";

/// A project with one network for its servers.
#[derive(Debug, Clone)]
pub struct NetworkTenant {
    pub project: ProjectId,
    pub network: NetworkId,
    /// The group with the name [`GROUP`].
    pub group: SecurityGroupId,
}

/// Creates the resources of a case, without the port.
#[async_trait]
pub trait NetworkStage: Send + Sync {
    /// A new project with a network whose ports have `addresses` IPv4 addresses to share, and with a group [`GROUP`].
    async fn tenant(&self, addresses: u8) -> NetworkTenant;

    /// A port that the project creates itself.
    async fn own_port(&self, tenant: &NetworkTenant) -> PortId;

    /// Deletes a port, as its project may at any time.
    async fn delete_port(&self, tenant: &NetworkTenant, port: PortId);

    /// A network with `addresses` floating addresses. A router, which takes one of them, leads from there to the tenant's
    /// network.
    async fn pool(&self, tenant: &NetworkTenant, addresses: u8) -> NetworkId;

    /// Associates a new floating address with the first address of the interface.
    async fn float(&self, tenant: &NetworkTenant, nic: &NicInfo) -> IpAddr;
}

pub type NetworkCase = for<'a> fn(&'a dyn NetworkService, &'a dyn NetworkStage) -> BoxFuture<'a, anyhow::Result<()>>;

/// The cases of the suite.
pub const CASES: &[(&str, NetworkCase)] = &[
    ("checks_before_a_server_is_accepted", |port, stage| checks(port, stage).boxed()),
    ("allocates_once_for_each_server", |port, stage| allocates_once(port, stage).boxed()),
    ("allocates_in_the_order_asked_for", |port, stage| allocates_in_order(port, stage).boxed()),
    ("leaves_nothing_of_half_an_allocation", |port, stage| leaves_nothing(port, stage).boxed()),
    ("releases_what_it_made_and_keeps_what_it_was_given", |port, stage| releases(port, stage).boxed()),
    ("attaches_once_for_each_process", |port, stage| attaches_once(port, stage).boxed()),
    ("undoes_an_attachment_whose_answer_was_lost", |port, stage| undoes_attach(port, stage).boxed()),
    ("detaches_only_the_ports_of_the_server", |port, stage| detaches(port, stage).boxed()),
    ("applies_security_groups_to_servers", |port, stage| applies_groups(port, stage).boxed()),
    ("refuses_security_groups_in_kind", |port, stage| refuses_groups(port, stage).boxed()),
    ("finds_security_groups_by_id_and_by_name", |port, stage| finds_groups(port, stage).boxed()),
    ("adds_and_removes_addresses", |port, stage| changes_addresses(port, stage).boxed()),
    ("finds_ports_by_address", |port, stage| finds_by_address(port, stage).boxed()),
    ("tells_floating_addresses", |port, stage| tells_floating(port, stage).boxed()),
    ("refreshes_interfaces_without_lost_ports", |port, stage| refreshes(port, stage).boxed()),
    ("rebinds_ports_to_hosts", |port, stage| rebinds(port, stage).boxed()),
];

fn caller(tenant: &NetworkTenant) -> ServiceCaller {
    ServiceCaller { project: Some(tenant.project.clone()), is_admin: true, token: None, rights: None, meta: meta() }
}

fn meta() -> Arc<Meta> {
    Meta::system("conformance")
}

pub(super) fn on(network: NetworkId) -> RequestedNic {
    RequestedNic { network: Some(network), port: None, fixed_ip: None, tag: None }
}

fn given(port: PortId) -> RequestedNic {
    RequestedNic { network: None, port: Some(port), fixed_ip: None, tag: None }
}

pub(super) fn server(tenant: &NetworkTenant, nics: Vec<RequestedNic>) -> InterfacesRequest {
    InterfacesRequest {
        instance: InstanceId::random(),
        project: tenant.project.clone(),
        hostname: "web-1".to_owned(),
        host: HOST.to_owned(),
        availability_zone: "nova".to_owned(),
        networks: RequestedNetworks::These(nics),
        security_groups: vec!["default".to_owned()],
    }
}

fn one_more(of: &InterfacesRequest, nic: RequestedNic) -> InterfaceRequest {
    InterfaceRequest {
        process: ProcessId::random(),
        instance: of.instance,
        project: of.project.clone(),
        hostname: of.hostname.clone(),
        host: of.host.clone(),
        availability_zone: of.availability_zone.clone(),
        nic,
    }
}

pub(super) fn addresses(nic: &NicInfo) -> Vec<IpAddr> {
    nic.fixed_ips.iter().filter_map(|ip| ip.address.parse().ok()).collect()
}

async fn one(port: &dyn NetworkService, tenant: &NetworkTenant, id: PortId) -> anyhow::Result<Option<PortInfo>> {
    Ok(port.find_ports(&[id], &caller(tenant)).await?.pop())
}

async fn checks(port: &dyn NetworkService, stage: &dyn NetworkStage) -> anyhow::Result<()> {
    let (own, other) = (stage.tenant(5).await, stage.tenant(5).await);
    let default = ["default".to_owned()];
    let check = async |nic: RequestedNic, groups: &[String]| {
        port.check(&own.project, &RequestedNetworks::These(vec![nic]), groups).await
    };
    promise!(check(on(own.network), &default).await.is_ok(), "a network of its own is refused to a project");
    let foreign = check(on(other.network), &default).await;
    promise!(matches!(foreign, Err(PortError::Invalid(_))), "a network of another project: {foreign:?}");
    let unknown = check(on(NetworkId::random()), &default).await;
    promise!(matches!(unknown, Err(PortError::Invalid(_))), "a network that is not there: {unknown:?}");
    let unknown = check(given(PortId::random()), &default).await;
    promise!(matches!(unknown, Err(PortError::Invalid(_))), "a port that is not there: {unknown:?}");
    let group = check(on(own.network), &["nonsense".to_owned()]).await;
    promise!(matches!(group, Err(PortError::Invalid(_))), "a group that is not there: {group:?}");
    let attached = port.check_attach(&own.project, &on(other.network)).await;
    promise!(matches!(attached, Err(PortError::NotFound(_))), "attaching a network of another project: {attached:?}");
    Ok(())
}

async fn allocates_once(port: &dyn NetworkService, stage: &dyn NetworkStage) -> anyhow::Result<()> {
    let tenant = stage.tenant(5).await;
    let wanted = server(&tenant, vec![on(tenant.network)]);
    let first = port.allocate(wanted.clone(), meta()).await?;
    let again = port.allocate(wanted.clone(), meta()).await?;
    promise!(first == again, "asked twice for the same server it gives other ports: {first:?} and {again:?}");
    let [nic] = &first[..] else { anyhow::bail!("one interface was asked for: {first:?}") };
    promise!(nic.owned, "a port that was made for the server is not marked so");
    promise!(nic.network == tenant.network, "the port is on another network");
    let Some(info) = one(port, &tenant, nic.port).await? else { anyhow::bail!("the port is not found") };
    promise!(info.server == Some(wanted.instance), "the port is not the server's: {info:?}");
    promise!(info.project == tenant.project, "the port is of another project: {info:?}");
    promise!(info.host.as_deref() == Some(HOST), "the port is not bound to the host: {info:?}");
    let shown: Vec<IpAddr> = info.addresses.iter().map(|at| at.address).collect();
    promise!(shown == addresses(nic), "port and interface have other addresses: {info:?}, {nic:?}");
    Ok(())
}

async fn allocates_in_order(port: &dyn NetworkService, stage: &dyn NetworkStage) -> anyhow::Result<()> {
    let tenant = stage.tenant(5).await;
    let own = stage.own_port(&tenant).await;
    let nics = port.allocate(server(&tenant, vec![on(tenant.network), given(own), on(tenant.network)]), meta()).await?;
    promise!(nics.len() == 3, "three interfaces were asked for: {nics:?}");
    promise!(nics[1].port == own && !nics[1].owned, "the second interface is not the given port: {nics:?}");
    promise!(nics[0].owned && nics[2].owned, "the others were made for the server: {nics:?}");
    Ok(())
}

async fn leaves_nothing(port: &dyn NetworkService, stage: &dyn NetworkStage) -> anyhow::Result<()> {
    let tenant = stage.tenant(1).await;
    let refused = port.allocate(server(&tenant, vec![on(tenant.network), on(tenant.network)]), meta()).await;
    promise!(matches!(refused, Err(PortError::Conflict(_))), "two ports on a network with one address: {refused:?}");
    let other = port.allocate(server(&tenant, vec![on(tenant.network)]), meta()).await;
    promise!(other.is_ok(), "the address of a refused allocation is not given back: {other:?}");
    Ok(())
}

async fn releases(port: &dyn NetworkService, stage: &dyn NetworkStage) -> anyhow::Result<()> {
    let tenant = stage.tenant(5).await;
    let own = stage.own_port(&tenant).await;
    let wanted = server(&tenant, vec![on(tenant.network), given(own)]);
    let nics = port.allocate(wanted.clone(), meta()).await?;
    for _ in 0..2 {
        port.release(wanted.instance, &tenant.project, meta()).await?;
    }
    promise!(one(port, &tenant, nics[0].port).await?.is_none(), "a port that was made for the server is still there");
    let Some(kept) = one(port, &tenant, own).await? else { anyhow::bail!("a port that was given is deleted") };
    promise!(kept.server.is_none(), "a port that was given is still the server's: {kept:?}");
    Ok(())
}

async fn attaches_once(port: &dyn NetworkService, stage: &dyn NetworkStage) -> anyhow::Result<()> {
    let tenant = stage.tenant(5).await;
    let wanted = server(&tenant, vec![on(tenant.network)]);
    let first = port.allocate(wanted.clone(), meta()).await?;
    let more = one_more(&wanted, on(tenant.network));
    let (attached, again) = (port.attach(more.clone(), meta()).await?, port.attach(more, meta()).await?);
    promise!(attached == again, "asked twice by a process it gives other ports: {attached:?} and {again:?}");
    promise!(attached.port != first[0].port, "it gives a port that the server has already");
    let other = port.attach(one_more(&wanted, on(tenant.network)), meta()).await?;
    promise!(other.port != attached.port, "another process is given the same port");
    Ok(())
}

async fn undoes_attach(port: &dyn NetworkService, stage: &dyn NetworkStage) -> anyhow::Result<()> {
    let tenant = stage.tenant(5).await;
    let wanted = server(&tenant, vec![on(tenant.network)]);
    let first = port.allocate(wanted.clone(), meta()).await?;
    let more = one_more(&wanted, on(tenant.network));
    port.undo_attach(wanted.instance, more.process, meta()).await?;
    let made = port.attach(more.clone(), meta()).await?;
    for _ in 0..2 {
        port.undo_attach(wanted.instance, more.process, meta()).await?;
    }
    promise!(one(port, &tenant, made.port).await?.is_none(), "the port of an undone attachment is still there");
    promise!(one(port, &tenant, first[0].port).await?.is_some(), "a port of before the attachment is gone");
    Ok(())
}

async fn detaches(port: &dyn NetworkService, stage: &dyn NetworkStage) -> anyhow::Result<()> {
    let tenant = stage.tenant(5).await;
    let own = stage.own_port(&tenant).await;
    let (mine, others) = (server(&tenant, vec![given(own)]), server(&tenant, vec![on(tenant.network)]));
    port.allocate(mine.clone(), meta()).await?;
    let theirs = port.allocate(others, meta()).await?;
    port.detach(mine.instance, theirs[0].port, meta()).await?;
    promise!(one(port, &tenant, theirs[0].port).await?.is_some(), "the port of another server is deleted");
    for _ in 0..2 {
        port.detach(mine.instance, own, meta()).await?;
    }
    let Some(kept) = one(port, &tenant, own).await? else { anyhow::bail!("a port that was given is deleted") };
    promise!(kept.server.is_none(), "a detached port is still the server's: {kept:?}");
    Ok(())
}

async fn names(
    port: &dyn NetworkService,
    tenant: &NetworkTenant,
    server: InstanceId,
) -> anyhow::Result<Option<Vec<String>>> {
    let told = port.group_names(&[(server, tenant.project.clone())], &caller(tenant)).await?;
    promise!(told.len() == 1, "one server was asked about: {told:?}");
    Ok(told.into_iter().next().flatten())
}

async fn applies_groups(port: &dyn NetworkService, stage: &dyn NetworkStage) -> anyhow::Result<()> {
    let (tenant, by) = (stage.tenant(5).await, ServiceCaller::system("conformance"));
    let wanted = server(&tenant, vec![on(tenant.network), on(tenant.network)]);
    let id = wanted.instance;
    port.allocate(wanted, meta()).await?;
    let default = || vec!["default".to_owned(); 2];
    promise!(names(port, &tenant, id).await? == Some(default()), "two ports are in the default group");
    for named in [GROUP.to_owned(), tenant.group.to_string()] {
        for _ in 0..2 {
            port.add_security_group(id, &tenant.project, &named, &by).await?;
        }
        let mut now = names(port, &tenant, id).await?.unwrap_or_default();
        now.sort();
        promise!(now == ["default", "default", GROUP, GROUP], "two ports in two groups: {now:?}");
        port.remove_security_group(id, &tenant.project, &named, &by).await?;
        promise!(names(port, &tenant, id).await? == Some(default()), "the group still applies");
    }
    Ok(())
}

async fn refuses_groups(port: &dyn NetworkService, stage: &dyn NetworkStage) -> anyhow::Result<()> {
    let (tenant, by) = (stage.tenant(5).await, ServiceCaller::system("conformance"));
    let wanted = server(&tenant, vec![on(tenant.network)]);
    let id = wanted.instance;
    port.allocate(wanted, meta()).await?;
    let unknown = port.add_security_group(id, &tenant.project, "nonsense", &by).await;
    promise!(matches!(unknown, Err(PortError::NotFound(_))), "a group that is not there: {unknown:?}");
    let foreign = stage.tenant(5).await.group.to_string();
    let foreign = port.add_security_group(id, &tenant.project, &foreign, &by).await;
    promise!(matches!(foreign, Err(PortError::NotFound(_))), "a group of another project: {foreign:?}");
    let absent = port.remove_security_group(id, &tenant.project, GROUP, &by).await;
    promise!(matches!(absent, Err(PortError::NotFound(_))), "a group that does not apply: {absent:?}");
    let nobody = InstanceId::random();
    let portless = port.add_security_group(nobody, &tenant.project, GROUP, &by).await;
    promise!(matches!(portless, Err(PortError::Invalid(_))), "a server without ports: {portless:?}");
    promise!(names(port, &tenant, nobody).await?.is_none(), "a server without ports has groups");
    Ok(())
}

async fn finds_groups(port: &dyn NetworkService, stage: &dyn NetworkStage) -> anyhow::Result<()> {
    let tenant = stage.tenant(5).await;
    let foreign = stage.tenant(6).await.group;
    let named = [GROUP.to_owned(), "nonsense".to_owned(), tenant.group.to_string(), foreign.to_string()];
    let found = port.find_security_groups(&tenant.project, &named, &caller(&tenant)).await?;
    let ids: Vec<Option<SecurityGroupId>> = found.iter().map(|group| group.as_ref().map(|group| group.id)).collect();
    let own = Some(tenant.group);
    promise!(ids == [own, None, own, None], "by name, unknown, by id, by the id of another project's: {found:?}");
    let rules = found[0].as_ref().map_or(0, |group| group.rules.len());
    promise!(rules > 0, "a new group lets everything out, so it has rules: {found:?}");
    Ok(())
}

async fn changes_addresses(port: &dyn NetworkService, stage: &dyn NetworkStage) -> anyhow::Result<()> {
    let tenant = stage.tenant(2).await;
    let wanted = server(&tenant, vec![on(tenant.network)]);
    let (id, project) = (wanted.instance, &tenant.project);
    let nics = port.allocate(wanted, meta()).await?;
    port.add_address(id, project, tenant.network, meta()).await?;
    let now = port.refresh(id, &nics).await?;
    promise!(addresses(&now[0]).len() == 2, "one more address was asked for: {now:?}");
    let full = port.add_address(id, project, tenant.network, meta()).await;
    promise!(matches!(full, Err(PortError::Conflict(_))), "there is no third address: {full:?}");
    let elsewhere = port.add_address(id, project, NetworkId::random(), meta()).await;
    promise!(matches!(elsewhere, Err(PortError::NotFound(_))), "the server is not on that network: {elsewhere:?}");
    let first = addresses(&nics[0])[0];
    port.remove_address(id, project, first, meta()).await?;
    let now = port.refresh(id, &nics).await?;
    let left = addresses(&now[0]);
    promise!(left.len() == 1 && left[0] != first, "the first address was to go: {now:?}");
    let gone = port.remove_address(id, project, first, meta()).await;
    promise!(matches!(gone, Err(PortError::NotFound(_))), "the server has that address no more: {gone:?}");
    Ok(())
}

async fn finds_by_address(port: &dyn NetworkService, stage: &dyn NetworkStage) -> anyhow::Result<()> {
    let tenant = stage.tenant(5).await;
    let wanted = server(&tenant, vec![on(tenant.network)]);
    let nics = port.allocate(wanted.clone(), meta()).await?;
    let at = port.ports_at(addresses(&nics[0])[0], &ServiceCaller::system("conformance")).await?;
    let own: Vec<_> = at.iter().filter(|port| port.network == tenant.network).collect();
    promise!(own.len() == 1 && own[0].port == nics[0].port, "the port with the address is not found: {at:?}");
    promise!(own[0].server == Some(wanted.instance), "whose port it is is not told: {at:?}");
    Ok(())
}

async fn tells_floating(port: &dyn NetworkService, stage: &dyn NetworkStage) -> anyhow::Result<()> {
    let tenant = stage.tenant(5).await;
    let nics = port.allocate(server(&tenant, vec![on(tenant.network), on(tenant.network)]), meta()).await?;
    let ports: Vec<PortId> = nics.iter().map(|nic| nic.port).collect();
    let none = port.floating_addresses(&ports, &caller(&tenant)).await?;
    promise!(none.is_empty(), "nothing was given a floating address: {none:?}");
    let floating = stage.float(&tenant, &nics[1]).await;
    let told = port.floating_addresses(&ports, &caller(&tenant)).await?;
    let told: Vec<_> = told.iter().map(|floating| (floating.port, floating.address)).collect();
    promise!(told == [(nics[1].port, floating)], "{floating} stands for the second interface: {told:?}");
    Ok(())
}

async fn refreshes(port: &dyn NetworkService, stage: &dyn NetworkStage) -> anyhow::Result<()> {
    let tenant = stage.tenant(5).await;
    let wanted = server(&tenant, vec![on(tenant.network), on(tenant.network)]);
    let nics = port.allocate(wanted.clone(), meta()).await?;
    promise!(port.refresh(wanted.instance, &nics).await? == nics, "nothing changed");
    stage.delete_port(&tenant, nics[0].port).await;
    let now = port.refresh(wanted.instance, &nics).await?;
    promise!(now == nics[1..], "the first port is gone: {now:?}");
    Ok(())
}

async fn rebinds(port: &dyn NetworkService, stage: &dyn NetworkStage) -> anyhow::Result<()> {
    let tenant = stage.tenant(5).await;
    let wanted = server(&tenant, vec![on(tenant.network)]);
    let nics = port.allocate(wanted.clone(), meta()).await?;
    for host in [Some("compute2"), None, Some(HOST)] {
        for _ in 0..2 {
            port.rebind(wanted.instance, &tenant.project, host, "nova", meta()).await?;
        }
        let info = one(port, &tenant, nics[0].port).await?;
        let bound = info.as_ref().and_then(|info| info.host.as_deref());
        promise!(bound == host, "the port is to be at {host:?}: {info:?}");
        let owner = info.as_ref().and_then(|info| info.server);
        promise!(owner == Some(wanted.instance), "the port stays the server's: {info:?}");
    }
    port.rebind(InstanceId::random(), &tenant.project, None, "nova", meta()).await?;
    Ok(())
}
