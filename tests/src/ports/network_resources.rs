//! The promises of an implementation of [`NetworkResources`]. The suite runs on the embedded service, but not on
//! Neutron.

use std::net::IpAddr;

use chronova_actors::ports::{
    FloatingIpAllocationReject, NetworkResources, NetworkService, NewSecurityGroup, PortError, ServiceCaller,
};
use chronova_events::envelope::Meta;
use chronova_events::ids::{PortId, ProjectId};
use chronova_events::security_group::{Direction, Ethertype, RuleTraffic};
use futures::FutureExt as _;

use super::networks::{NetworkCase, NetworkStage, addresses, on, server};
use super::promise;

/// The cases of the suite.
pub const CASES: &[(&str, NetworkCase)] = &[
    ("shows_networks_to_those_who_may_see_them", |port, stage| shows_networks(port, stage).boxed()),
    ("gives_floating_addresses_and_takes_them_back", |port, stage| gives_floating(port, stage).boxed()),
    ("has_a_floating_address_stand_for_a_port", |port, stage| associates(port, stage).boxed()),
    ("shows_security_groups_to_their_project_alone", |port, stage| shows_groups(port, stage).boxed()),
    ("changes_rules_of_security_groups", |port, stage| changes_rules(port, stage).boxed()),
    ("keeps_a_security_group_in_use", |port, stage| keeps_used(port, stage).boxed()),
];

fn user(project: &ProjectId) -> ServiceCaller {
    let meta = Meta::system("conformance");
    ServiceCaller { project: Some(project.clone()), is_admin: false, token: None, rights: None, meta }
}

fn resources(port: &dyn NetworkService) -> anyhow::Result<&dyn NetworkResources> {
    port.resources().ok_or_else(|| anyhow::anyhow!("the service offers no resources of users"))
}

fn is_missing<T>(answer: &Result<T, PortError>) -> bool {
    matches!(answer, Err(PortError::NotFound(_)))
}

async fn shows_networks(port: &dyn NetworkService, stage: &dyn NetworkStage) -> anyhow::Result<()> {
    let (port, own, other) = (resources(port)?, stage.tenant(5).await, stage.tenant(5).await);
    let pool = stage.pool(&own, 2).await;
    let found = port.find_network(own.network, &user(&own.project)).await?;
    promise!((found.id, found.external) == (own.network, false), "the network is another one: {found:?}");
    let foreign = port.find_network(own.network, &user(&other.project)).await;
    promise!(is_missing(&foreign), "another project finds the network: {foreign:?}");
    let listed = port.list_networks(&user(&other.project)).await?;
    promise!(listed.iter().all(|known| known.id != own.network), "another project lists the network: {listed:?}");
    promise!(listed.iter().any(|known| known.id == other.network), "a network of its own is not listed: {listed:?}");
    let outside = listed.iter().find(|known| known.id == pool);
    promise!(
        outside.is_some_and(|known| known.external),
        "an external network is not listed, or not as external: {listed:?}"
    );
    Ok(())
}

async fn gives_floating(port: &dyn NetworkService, stage: &dyn NetworkStage) -> anyhow::Result<()> {
    let (port, own, other) = (resources(port)?, stage.tenant(5).await, stage.tenant(5).await);
    // The pool has two addresses, and the router takes one of them.
    let pool = stage.pool(&own, 2).await;
    let caller = user(&own.project);
    let given = port.allocate_floating_ip(pool, &own.project, &caller).await?;
    promise!(
        (&given.project, given.network) == (&own.project, pool),
        "the floating address is of another project or network: {given:?}"
    );
    promise!(given.target.is_none(), "a new floating address is associated with a port: {given:?}");
    promise!(
        port.list_floating_ips(&caller).await? == [given.clone()],
        "the list is not the project's one floating address"
    );
    let foreign = port.find_floating_ip(given.id, &user(&other.project)).await;
    promise!(is_missing(&foreign), "another project finds the floating address: {foreign:?}");
    let taken = port.release_floating_ip(given.id, &user(&other.project)).await;
    promise!(is_missing(&taken), "another project releases the floating address: {taken:?}");
    let empty = port.allocate_floating_ip(pool, &own.project, &caller).await;
    promise!(
        matches!(empty, Err(FloatingIpAllocationReject::NoneLeft)),
        "a network without floating addresses is not refused as empty: {empty:?}"
    );
    port.release_floating_ip(given.id, &caller).await?;
    let gone = port.find_floating_ip(given.id, &caller).await;
    promise!(is_missing(&gone), "a released floating address is found: {gone:?}");
    promise!(
        port.allocate_floating_ip(pool, &own.project, &caller).await.is_ok(),
        "a released address cannot be given again"
    );
    Ok(())
}

async fn associates(service: &dyn NetworkService, stage: &dyn NetworkStage) -> anyhow::Result<()> {
    let (port, own) = (resources(service)?, stage.tenant(5).await);
    let (pool, caller) = (stage.pool(&own, 3).await, user(&own.project));
    let wanted = server(&own, vec![on(own.network)]);
    let nics = service.allocate(wanted.clone(), Meta::system("conformance")).await?;
    let to: (PortId, IpAddr) = (nics[0].port, addresses(&nics[0])[0]);
    let first = port.allocate_floating_ip(pool, &own.project, &caller).await?;
    let second = port.allocate_floating_ip(pool, &own.project, &caller).await?;
    port.associate_floating_ip(first.id, Some(to), &caller).await?;
    let shown = port.find_floating_ip(first.id, &caller).await?.target;
    let Some(target) = shown else { anyhow::bail!("an associated floating address has no port") };
    promise!(
        (target.port, target.address) == to,
        "the floating address is associated with another port or address: {target:?}"
    );
    promise!(
        target.device == wanted.instance.to_string(),
        "the floating address does not name the port's server: {target:?}"
    );
    let taken = port.associate_floating_ip(second.id, Some(to), &caller).await;
    promise!(
        matches!(taken, Err(PortError::Conflict(_))),
        "a second floating address for one address is not refused as a conflict: {taken:?}"
    );
    let nothing = port.associate_floating_ip(second.id, Some((to.0, [192, 0, 2, 1].into())), &caller).await;
    promise!(
        matches!(nothing, Err(PortError::Invalid(_))),
        "an address that the port lacks is not refused as invalid: {nothing:?}"
    );
    port.associate_floating_ip(first.id, None, &caller).await?;
    let shown = port.find_floating_ip(first.id, &caller).await?;
    promise!(shown.target.is_none(), "a disassociated floating address still has its port: {shown:?}");
    Ok(())
}

async fn shows_groups(port: &dyn NetworkService, stage: &dyn NetworkStage) -> anyhow::Result<()> {
    let (port, own, other) = (resources(port)?, stage.tenant(5).await, stage.tenant(5).await);
    let (mine, theirs) = (user(&own.project), user(&other.project));
    let (name, description) = ("db".to_owned(), "databases".to_owned());
    let made = port.create_group(NewSecurityGroup { project: own.project.clone(), name, description }, &mine).await?;
    promise!(
        (made.name.as_str(), made.description.as_str()) == ("db", "databases"),
        "the group has another name or description: {made:?}"
    );
    let listed = port.list_groups(true, &mine).await?;
    promise!(
        listed.iter().all(|group| group.project == own.project),
        "groups of other projects are listed: {listed:?}"
    );
    let names: Vec<&str> = listed.iter().map(|group| group.name.as_str()).collect();
    promise!(["db", "default"].iter().all(|name| names.contains(name)), "a group is not listed: {names:?}");
    let changed = port.change_group(made.id, "sql".to_owned(), String::new(), &mine).await?;
    promise!(
        (changed.name.as_str(), changed.description.as_str()) == ("sql", ""),
        "the group has not the new name and description: {changed:?}"
    );
    let answers = [
        port.find_group(made.id, &theirs).await.map(drop),
        port.change_group(made.id, "mine".to_owned(), String::new(), &theirs).await.map(drop),
        port.delete_group(made.id, &theirs).await,
    ];
    promise!(answers.iter().all(is_missing), "another project finds the group: {answers:?}");
    let default = listed.iter().find(|group| group.name == "default").map(|group| group.id);
    let Some(default) = default else { anyhow::bail!("there is no default group") };
    let kept = port.delete_group(default, &mine).await;
    promise!(matches!(kept, Err(PortError::Invalid(_))), "a user deletes the default group: {kept:?}");
    port.delete_group(made.id, &mine).await?;
    let gone = port.find_group(made.id, &mine).await;
    promise!(is_missing(&gone), "a deleted group is found: {gone:?}");
    Ok(())
}

async fn changes_rules(port: &dyn NetworkService, stage: &dyn NetworkStage) -> anyhow::Result<()> {
    let (port, own, other) = (resources(port)?, stage.tenant(5).await, stage.tenant(5).await);
    let (mine, theirs) = (user(&own.project), user(&other.project));
    let traffic = RuleTraffic {
        direction: Direction::Ingress,
        ethertype: Ethertype::Ipv4,
        protocol: Some("tcp".to_owned()),
        port_min: Some(22),
        port_max: Some(23),
        remote_prefix: Some("192.0.2.0/24".to_owned()),
        remote_group: None,
    };
    let made = port.add_rule(own.group, traffic.clone(), &mine).await?;
    promise!((made.group, &made.traffic) == (own.group, &traffic), "the rule is of another group or traffic: {made:?}");
    let group = port.find_group(own.group, &mine).await?;
    promise!(group.rules.contains(&made), "the group lacks its new rule: {group:?}");
    let again = port.add_rule(own.group, traffic.clone(), &mine).await;
    promise!(matches!(again, Err(PortError::Invalid(_))), "the same rule again is not refused as invalid: {again:?}");
    let foreign = port.add_rule(own.group, traffic, &theirs).await;
    promise!(is_missing(&foreign), "another project adds a rule: {foreign:?}");
    promise!(is_missing(&port.find_rule(made.id, &theirs).await), "another project finds the rule");
    promise!(is_missing(&port.remove_rule(made.id, &theirs).await), "another project removes the rule");
    port.remove_rule(made.id, &mine).await?;
    promise!(is_missing(&port.find_rule(made.id, &mine).await), "a removed rule is found");
    Ok(())
}

async fn keeps_used(service: &dyn NetworkService, stage: &dyn NetworkStage) -> anyhow::Result<()> {
    let (port, own) = (resources(service)?, stage.tenant(5).await);
    let (wanted, caller) = (server(&own, vec![on(own.network)]), user(&own.project));
    service.allocate(wanted.clone(), Meta::system("conformance")).await?;
    service.add_security_group(wanted.instance, &own.project, &own.group.to_string(), &caller).await?;
    let used = port.delete_group(own.group, &caller).await;
    promise!(
        matches!(used, Err(PortError::Conflict(_))),
        "deleting a group that a port uses is not refused as a conflict: {used:?}"
    );
    promise!(port.find_group(own.group, &caller).await.is_ok(), "a group that a port uses is gone");
    Ok(())
}
