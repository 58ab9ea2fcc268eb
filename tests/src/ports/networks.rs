//! The promises that every implementation of [`NetworkService`] keeps.

use std::net::IpAddr;
use std::sync::Arc;

use async_trait::async_trait;
use chronova_actors::ports::{
    InterfaceRequest, InterfacesRequest, NetworkService, PortError, PortGrants, PortInfo, ServiceCaller,
};
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

/// Creates the resources of a case without the [`NetworkService`] under test.
#[async_trait]
pub trait NetworkStage: Send + Sync {
    /// A new project with a group [`GROUP`] and a network whose ports share `addresses` IPv4 addresses.
    async fn tenant(&self, addresses: u8) -> NetworkTenant;

    /// A port that the project creates itself.
    async fn own_port(&self, tenant: &NetworkTenant) -> PortId;

    /// Deletes a port, as its project may at any time.
    async fn delete_port(&self, tenant: &NetworkTenant, port: PortId);

    /// All hosts to which a port is bound, including the host that has the port's traffic.
    async fn bindings(&self, port: PortId) -> Vec<String>;

    /// An external network whose pool has `addresses` addresses. A router connects it with the tenant's network, and
    /// takes one of these addresses.
    async fn pool(&self, tenant: &NetworkTenant, addresses: u8) -> NetworkId;

    /// Associates a new floating address with the first address of the interface.
    async fn float(&self, tenant: &NetworkTenant, nic: &NicInfo) -> IpAddr;
}

pub type NetworkCase = for<'a> fn(&'a dyn NetworkService, &'a dyn NetworkStage) -> BoxFuture<'a, anyhow::Result<()>>;

/// The cases of the suite.
pub const CASES: &[(&str, NetworkCase)] = &[
    ("checks_before_a_server_is_accepted", |service, stage| checks(service, stage).boxed()),
    ("allocates_once_for_each_server", |service, stage| allocates_once(service, stage).boxed()),
    ("allocates_in_the_order_asked_for", |service, stage| allocates_in_order(service, stage).boxed()),
    ("leaves_nothing_of_half_an_allocation", |service, stage| leaves_nothing(service, stage).boxed()),
    ("releases_what_it_made_and_keeps_what_it_was_given", |service, stage| releases(service, stage).boxed()),
    ("attaches_once_for_each_process", |service, stage| attaches_once(service, stage).boxed()),
    ("undoes_an_attachment_whose_answer_was_lost", |service, stage| undoes_attach(service, stage).boxed()),
    ("detaches_only_the_ports_of_the_server", |service, stage| detaches(service, stage).boxed()),
    ("applies_security_groups_to_servers", |service, stage| applies_groups(service, stage).boxed()),
    ("refuses_security_groups_in_kind", |service, stage| refuses_groups(service, stage).boxed()),
    ("finds_security_groups_by_id_and_by_name", |service, stage| finds_groups(service, stage).boxed()),
    ("adds_and_removes_addresses", |service, stage| changes_addresses(service, stage).boxed()),
    ("finds_ports_by_address", |service, stage| finds_by_address(service, stage).boxed()),
    ("tells_floating_addresses", |service, stage| tells_floating(service, stage).boxed()),
    ("refreshes_interfaces_without_lost_ports", |service, stage| refreshes(service, stage).boxed()),
    ("rebinds_ports_to_hosts", |service, stage| rebinds(service, stage).boxed()),
    ("binds_ports_to_the_destination_of_a_live_migration", |service, stage| binds_ahead(service, stage).boxed()),
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
        grants: PortGrants::default(),
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
        grants: PortGrants::default(),
    }
}

pub(super) fn addresses(nic: &NicInfo) -> Vec<IpAddr> {
    nic.fixed_ips.iter().filter_map(|ip| ip.address.parse().ok()).collect()
}

async fn find_port(
    service: &dyn NetworkService,
    tenant: &NetworkTenant,
    id: PortId,
) -> anyhow::Result<Option<PortInfo>> {
    Ok(service.find_ports(&[id], &caller(tenant)).await?.pop())
}

async fn checks(service: &dyn NetworkService, stage: &dyn NetworkStage) -> anyhow::Result<()> {
    let (own, other) = (stage.tenant(5).await, stage.tenant(5).await);
    let default = ["default".to_owned()];
    let check = async |nic: RequestedNic, groups: &[String]| {
        service.check(&own.project, &RequestedNetworks::These(vec![nic]), groups, &caller(&own)).await
    };
    promise!(check(on(own.network), &default).await.is_ok(), "the service refuses the project's own network");
    let foreign = check(on(other.network), &default).await;
    promise!(
        matches!(foreign, Err(PortError::Invalid(_))),
        "a network of another project is not refused as invalid: {foreign:?}"
    );
    let unknown = check(on(NetworkId::random()), &default).await;
    promise!(
        matches!(unknown, Err(PortError::Invalid(_))),
        "a network that does not exist is not refused as invalid: {unknown:?}"
    );
    let unknown = check(given(PortId::random()), &default).await;
    promise!(
        matches!(unknown, Err(PortError::Invalid(_))),
        "a port that does not exist is not refused as invalid: {unknown:?}"
    );
    let group = check(on(own.network), &["nonsense".to_owned()]).await;
    promise!(
        matches!(group, Err(PortError::Invalid(_))),
        "a group that does not exist is not refused as invalid: {group:?}"
    );
    let attached = service.check_attach(&own.project, &on(other.network), &caller(&own)).await;
    promise!(
        matches!(attached, Err(PortError::NotFound(_))),
        "attaching a network of another project is not refused as missing: {attached:?}"
    );
    Ok(())
}

async fn allocates_once(service: &dyn NetworkService, stage: &dyn NetworkStage) -> anyhow::Result<()> {
    let tenant = stage.tenant(5).await;
    let wanted = server(&tenant, vec![on(tenant.network)]);
    let first = service.allocate(wanted.clone(), meta()).await?;
    let again = service.allocate(wanted.clone(), meta()).await?;
    promise!(first == again, "two requests for the same server give different ports: {first:?} and {again:?}");
    let [nic] = &first[..] else { anyhow::bail!("a request for one interface gives another number: {first:?}") };
    promise!(nic.owned, "a port that was created for the server is not marked as owned");
    promise!(nic.network == tenant.network, "the port is on another network");
    let Some(info) = find_port(service, &tenant, nic.port).await? else { anyhow::bail!("the port is not found") };
    promise!(info.server == Some(wanted.instance), "the port is not the server's: {info:?}");
    promise!(info.project == tenant.project, "the port is of another project: {info:?}");
    promise!(info.host.as_deref() == Some(HOST), "the port is not bound to the host: {info:?}");
    let shown: Vec<IpAddr> = info.addresses.iter().map(|at| at.address).collect();
    promise!(shown == addresses(nic), "port and interface have different addresses: {info:?}, {nic:?}");
    Ok(())
}

async fn allocates_in_order(service: &dyn NetworkService, stage: &dyn NetworkStage) -> anyhow::Result<()> {
    let tenant = stage.tenant(5).await;
    let own = stage.own_port(&tenant).await;
    let nics =
        service.allocate(server(&tenant, vec![on(tenant.network), given(own), on(tenant.network)]), meta()).await?;
    promise!(nics.len() == 3, "a request for three interfaces gives another number: {nics:?}");
    promise!(nics[1].port == own && !nics[1].owned, "the second interface is not the given port: {nics:?}");
    promise!(nics[0].owned && nics[2].owned, "a port that was made for the server is not marked as owned: {nics:?}");
    Ok(())
}

async fn leaves_nothing(service: &dyn NetworkService, stage: &dyn NetworkStage) -> anyhow::Result<()> {
    let tenant = stage.tenant(1).await;
    let refused = service.allocate(server(&tenant, vec![on(tenant.network), on(tenant.network)]), meta()).await;
    promise!(
        matches!(refused, Err(PortError::Conflict(_))),
        "a second port on a network with one address is not refused as a conflict: {refused:?}"
    );
    let other = service.allocate(server(&tenant, vec![on(tenant.network)]), meta()).await;
    promise!(other.is_ok(), "the address of a refused allocation is not given back: {other:?}");
    Ok(())
}

async fn releases(service: &dyn NetworkService, stage: &dyn NetworkStage) -> anyhow::Result<()> {
    let tenant = stage.tenant(5).await;
    let own = stage.own_port(&tenant).await;
    let wanted = server(&tenant, vec![on(tenant.network), given(own)]);
    let nics = service.allocate(wanted.clone(), meta()).await?;
    for _ in 0..2 {
        service.release(wanted.instance, &tenant.project, &[], meta()).await?;
    }
    promise!(
        find_port(service, &tenant, nics[0].port).await?.is_none(),
        "a port that was made for the server is still there"
    );
    let Some(kept) = find_port(service, &tenant, own).await? else { anyhow::bail!("a port that was given is deleted") };
    promise!(kept.server.is_none(), "a port that was given is still the server's: {kept:?}");
    Ok(())
}

async fn attaches_once(service: &dyn NetworkService, stage: &dyn NetworkStage) -> anyhow::Result<()> {
    let tenant = stage.tenant(5).await;
    let wanted = server(&tenant, vec![on(tenant.network)]);
    let first = service.allocate(wanted.clone(), meta()).await?;
    let more = one_more(&wanted, on(tenant.network));
    let (attached, again) = (service.attach(more.clone(), meta()).await?, service.attach(more, meta()).await?);
    promise!(attached == again, "two requests of one process give different ports: {attached:?} and {again:?}");
    promise!(attached.port != first[0].port, "the service attaches a port that the server already has");
    let other = service.attach(one_more(&wanted, on(tenant.network)), meta()).await?;
    promise!(other.port != attached.port, "another process gets the same port");
    Ok(())
}

async fn undoes_attach(service: &dyn NetworkService, stage: &dyn NetworkStage) -> anyhow::Result<()> {
    let tenant = stage.tenant(5).await;
    let wanted = server(&tenant, vec![on(tenant.network)]);
    let first = service.allocate(wanted.clone(), meta()).await?;
    let more = one_more(&wanted, on(tenant.network));
    service.undo_attach(wanted.instance, &wanted.project, more.process, meta()).await?;
    let made = service.attach(more.clone(), meta()).await?;
    for _ in 0..2 {
        service.undo_attach(wanted.instance, &wanted.project, more.process, meta()).await?;
    }
    promise!(
        find_port(service, &tenant, made.port).await?.is_none(),
        "the port of an undone attachment is still there"
    );
    promise!(
        find_port(service, &tenant, first[0].port).await?.is_some(),
        "the undo deleted a port that is older than the attachment"
    );
    Ok(())
}

async fn detaches(service: &dyn NetworkService, stage: &dyn NetworkStage) -> anyhow::Result<()> {
    let tenant = stage.tenant(5).await;
    let own = stage.own_port(&tenant).await;
    let (mine, others) = (server(&tenant, vec![given(own)]), server(&tenant, vec![on(tenant.network)]));
    service.allocate(mine.clone(), meta()).await?;
    let theirs = service.allocate(others, meta()).await?;
    service.detach(mine.instance, &mine.project, theirs[0].port, true, meta()).await?;
    promise!(find_port(service, &tenant, theirs[0].port).await?.is_some(), "the port of another server is deleted");
    for _ in 0..2 {
        service.detach(mine.instance, &mine.project, own, false, meta()).await?;
    }
    let Some(kept) = find_port(service, &tenant, own).await? else { anyhow::bail!("a port that was given is deleted") };
    promise!(kept.server.is_none(), "a detached port is still the server's: {kept:?}");
    Ok(())
}

async fn names(
    service: &dyn NetworkService,
    tenant: &NetworkTenant,
    server: InstanceId,
) -> anyhow::Result<Option<Vec<String>>> {
    let listed = service.group_names(&[(server, tenant.project.clone())], &caller(tenant)).await?;
    promise!(listed.len() == 1, "a question about one server gets another number of answers: {listed:?}");
    Ok(listed.into_iter().next().flatten())
}

async fn applies_groups(service: &dyn NetworkService, stage: &dyn NetworkStage) -> anyhow::Result<()> {
    let (tenant, by) = (stage.tenant(5).await, ServiceCaller::system("conformance"));
    let wanted = server(&tenant, vec![on(tenant.network), on(tenant.network)]);
    let id = wanted.instance;
    service.allocate(wanted, meta()).await?;
    let default = || vec!["default".to_owned(); 2];
    promise!(
        names(service, &tenant, id).await? == Some(default()),
        "a new port is not in the default group, or also in another group"
    );
    for named in [GROUP.to_owned(), tenant.group.to_string()] {
        for _ in 0..2 {
            service.add_security_group(id, &tenant.project, &named, &by).await?;
        }
        let mut now = names(service, &tenant, id).await?.unwrap_or_default();
        now.sort();
        promise!(now == ["default", "default", GROUP, GROUP], "a port has not exactly the two groups: {now:?}");
        service.remove_security_group(id, &tenant.project, &named, &by).await?;
        promise!(
            names(service, &tenant, id).await? == Some(default()),
            "a removed group still applies, or another group went with it"
        );
    }
    Ok(())
}

async fn refuses_groups(service: &dyn NetworkService, stage: &dyn NetworkStage) -> anyhow::Result<()> {
    let (tenant, by) = (stage.tenant(5).await, ServiceCaller::system("conformance"));
    let wanted = server(&tenant, vec![on(tenant.network)]);
    let id = wanted.instance;
    service.allocate(wanted, meta()).await?;
    let unknown = service.add_security_group(id, &tenant.project, "nonsense", &by).await;
    promise!(
        matches!(unknown, Err(PortError::NotFound(_))),
        "a group that does not exist is not refused as missing: {unknown:?}"
    );
    let foreign = stage.tenant(5).await.group.to_string();
    let foreign = service.add_security_group(id, &tenant.project, &foreign, &by).await;
    promise!(
        matches!(foreign, Err(PortError::NotFound(_))),
        "a group of another project is not refused as missing: {foreign:?}"
    );
    let absent = service.remove_security_group(id, &tenant.project, GROUP, &by).await;
    promise!(
        matches!(absent, Err(PortError::NotFound(_))),
        "removing a group that does not apply is not refused as missing: {absent:?}"
    );
    let nobody = InstanceId::random();
    let portless = service.add_security_group(nobody, &tenant.project, GROUP, &by).await;
    promise!(
        matches!(portless, Err(PortError::Invalid(_))),
        "a group for a server without ports is not refused as invalid: {portless:?}"
    );
    promise!(names(service, &tenant, nobody).await?.is_none(), "a server without ports has groups");
    Ok(())
}

async fn finds_groups(service: &dyn NetworkService, stage: &dyn NetworkStage) -> anyhow::Result<()> {
    let tenant = stage.tenant(5).await;
    let foreign = stage.tenant(6).await.group;
    let named = [GROUP.to_owned(), "nonsense".to_owned(), tenant.group.to_string(), foreign.to_string()];
    let found = service.find_security_groups(&tenant.project, &named, &caller(&tenant)).await?;
    let ids: Vec<Option<SecurityGroupId>> = found.iter().map(|group| group.as_ref().map(|group| group.id)).collect();
    let own = Some(tenant.group);
    promise!(ids == [own, None, own, None], "the found groups are not the project's own, by name and by id: {found:?}");
    let rules = found[0].as_ref().map_or(0, |group| group.rules.len());
    promise!(rules > 0, "a new group has no rules, so it lets nothing out: {found:?}");
    Ok(())
}

async fn changes_addresses(service: &dyn NetworkService, stage: &dyn NetworkStage) -> anyhow::Result<()> {
    let tenant = stage.tenant(2).await;
    let wanted = server(&tenant, vec![on(tenant.network)]);
    let (id, project) = (wanted.instance, &tenant.project);
    let nics = service.allocate(wanted, meta()).await?;
    service.add_address(id, project, tenant.network, meta()).await?;
    let now = service.refresh(id, &nics).await?;
    promise!(addresses(&now[0]).len() == 2, "the port has not two addresses after one was added: {now:?}");
    let full = service.add_address(id, project, tenant.network, meta()).await;
    promise!(
        matches!(full, Err(PortError::Conflict(_))),
        "a network without free addresses is not refused as a conflict: {full:?}"
    );
    let elsewhere = service.add_address(id, project, NetworkId::random(), meta()).await;
    promise!(
        matches!(elsewhere, Err(PortError::NotFound(_))),
        "a network without a port of the server is not refused as missing: {elsewhere:?}"
    );
    let first = addresses(&nics[0])[0];
    service.remove_address(id, project, first, meta()).await?;
    let now = service.refresh(id, &nics).await?;
    let left = addresses(&now[0]);
    promise!(left.len() == 1 && left[0] != first, "the second address is not the only one left: {now:?}");
    let gone = service.remove_address(id, project, first, meta()).await;
    promise!(
        matches!(gone, Err(PortError::NotFound(_))),
        "removing an address again is not refused as missing: {gone:?}"
    );
    Ok(())
}

async fn finds_by_address(service: &dyn NetworkService, stage: &dyn NetworkStage) -> anyhow::Result<()> {
    let tenant = stage.tenant(5).await;
    let wanted = server(&tenant, vec![on(tenant.network)]);
    let nics = service.allocate(wanted.clone(), meta()).await?;
    let at = service.ports_at(addresses(&nics[0])[0], &ServiceCaller::system("conformance")).await?;
    let own: Vec<_> = at.iter().filter(|port| port.network == tenant.network).collect();
    promise!(own.len() == 1 && own[0].port == nics[0].port, "the port with the address is not found: {at:?}");
    promise!(own[0].server == Some(wanted.instance), "the port does not name its server: {at:?}");
    Ok(())
}

async fn tells_floating(service: &dyn NetworkService, stage: &dyn NetworkStage) -> anyhow::Result<()> {
    let tenant = stage.tenant(5).await;
    let nics = service.allocate(server(&tenant, vec![on(tenant.network), on(tenant.network)]), meta()).await?;
    let ports: Vec<PortId> = nics.iter().map(|nic| nic.port).collect();
    let none = service.floating_addresses(&ports, &caller(&tenant)).await?;
    promise!(none.is_empty(), "a port has a floating address that nobody gave it: {none:?}");
    let floating = stage.float(&tenant, &nics[1]).await;
    let listed = service.floating_addresses(&ports, &caller(&tenant)).await?;
    let listed: Vec<_> = listed.iter().map(|floating| (floating.port, floating.address)).collect();
    promise!(listed == [(nics[1].port, floating)], "{floating} is not listed for the second port alone: {listed:?}");
    Ok(())
}

async fn refreshes(service: &dyn NetworkService, stage: &dyn NetworkStage) -> anyhow::Result<()> {
    let tenant = stage.tenant(5).await;
    let wanted = server(&tenant, vec![on(tenant.network), on(tenant.network)]);
    let nics = service.allocate(wanted.clone(), meta()).await?;
    promise!(
        service.refresh(wanted.instance, &nics).await? == nics,
        "a refresh without a change gives other interfaces"
    );
    stage.delete_port(&tenant, nics[0].port).await;
    let now = service.refresh(wanted.instance, &nics).await?;
    promise!(now == nics[1..], "a refresh keeps the deleted port, or changes the other port: {now:?}");
    Ok(())
}

async fn rebinds(service: &dyn NetworkService, stage: &dyn NetworkStage) -> anyhow::Result<()> {
    let tenant = stage.tenant(5).await;
    let wanted = server(&tenant, vec![on(tenant.network)]);
    let nics = service.allocate(wanted.clone(), meta()).await?;
    for host in [Some("compute2"), None, Some(HOST)] {
        for _ in 0..2 {
            service.rebind(wanted.instance, &tenant.project, host, "nova", &PortGrants::default(), meta()).await?;
        }
        let info = find_port(service, &tenant, nics[0].port).await?;
        let bound = info.as_ref().and_then(|info| info.host.as_deref());
        promise!(bound == host, "the port is not bound to {host:?}: {info:?}");
        let owner = info.as_ref().and_then(|info| info.server);
        promise!(owner == Some(wanted.instance), "the port is no longer the server's: {info:?}");
    }
    service.rebind(InstanceId::random(), &tenant.project, None, "nova", &PortGrants::default(), meta()).await?;
    Ok(())
}

async fn binds_ahead(service: &dyn NetworkService, stage: &dyn NetworkStage) -> anyhow::Result<()> {
    let (tenant, there) = (stage.tenant(5).await, "compute2");
    let own = stage.own_port(&tenant).await;
    let wanted = server(&tenant, vec![on(tenant.network), given(own)]);
    let (id, project) = (wanted.instance, &tenant.project);
    let nics = service.allocate(wanted, meta()).await?;
    let host_of = async |port: PortId| anyhow::Ok(find_port(service, &tenant, port).await?.and_then(|info| info.host));
    let stays = async || {
        for nic in &nics {
            promise!(host_of(nic.port).await?.as_deref() == Some(HOST), "the traffic left the source: {nic:?}");
        }
        anyhow::Ok(())
    };
    for _ in 0..2 {
        service.bind_destination(id, project, there, &PortGrants::default(), meta()).await?;
        stays().await?;
    }
    let plugged = service.realise_at(&nics, there).await?;
    promise!(plugged.nics.len() == nics.len(), "the destination does not have one plug for each port: {plugged:?}");
    for _ in 0..2 {
        service.unbind_destination(id, project, there, meta()).await?;
        stays().await?;
    }
    for nic in &nics {
        let left = stage.bindings(nic.port).await;
        promise!(left == [HOST], "a binding to a destination is left behind: {left:?}");
    }
    service.bind_destination(id, project, there, &PortGrants::default(), meta()).await?;
    service.activate_destination(id, project, there, meta()).await?;
    for _ in 0..2 {
        service.rebind(id, project, Some(there), "nova", &PortGrants::default(), meta()).await?;
        service.unbind_destination(id, project, there, meta()).await?;
    }
    for nic in &nics {
        promise!(host_of(nic.port).await?.as_deref() == Some(there), "the traffic did not follow the guest: {nic:?}");
        let left = stage.bindings(nic.port).await;
        promise!(left == [there], "a binding to the source is left behind: {left:?}");
    }
    service.bind_destination(id, project, HOST, &PortGrants::default(), meta()).await?;
    service.release(id, project, &[], meta()).await?;
    promise!(find_port(service, &tenant, nics[0].port).await?.is_none(), "a port that moved is not deleted");
    let Some(kept) = find_port(service, &tenant, own).await? else { anyhow::bail!("a given port is deleted") };
    promise!(kept.server.is_none() && kept.host.is_none(), "a given port is still bound: {kept:?}");
    Ok(())
}
