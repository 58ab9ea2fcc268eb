//! A router's external gateway (`external_gateway_info`). The gateway is a port in an external network. This port
//! belongs to no project.

use chronova_actors::services::embedded::network::router::GATEWAY_OWNER;
use chronova_actors::services::embedded::network::{
    FixedIpRequest, NetworkCommand, NetworkRoot, PortPatch, PortRequest,
};
use chronova_events::ids::{NetworkId, PortId, ProjectId, RouterId};
use chronova_events::network::{Port, PortBinding, PortSettings};
use chronova_events::router::RouterRow;
use serde_json::Value;

use super::attributes::Attributes;
use super::{faults, interfaces, targets};
use crate::ctx::Ctx;
use crate::dispatch;
use crate::fault::Fault;
use crate::policy::{Permit, PolicyTarget};

/// The gateway in a body.
#[derive(Debug)]
pub(super) struct ExternalGatewayInfo {
    /// `None`: the router gets no gateway.
    network: Option<NetworkId>,
    pub(super) snat: Option<bool>,
    addresses: Vec<FixedIpRequest>,
}

impl ExternalGatewayInfo {
    pub(super) fn none() -> Self {
        Self { network: None, snat: None, addresses: Vec::new() }
    }

    /// `None` if the body does not have the attribute.
    pub(super) fn of(
        ctx: &Ctx,
        body: &mut Attributes,
        target: &PolicyTarget,
        update: bool,
    ) -> Result<Option<Self>, Fault> {
        let map = match body.take("external_gateway_info") {
            None => return Ok(None),
            Some(Value::Null) => return Ok(Some(Self::none())),
            Some(Value::Object(map)) if map.is_empty() => return Ok(Some(Self::none())),
            Some(Value::Object(map)) => map,
            Some(_) => return Err(wrong("it is not a dictionary")),
        };
        let mut info = Attributes::from_map(map);
        for (name, on_create, on_update) in GUARDED {
            if info.has(name) {
                ctx.authorize_rule(if update { on_update } else { on_create }, target)?;
            }
        }
        let network = info.id("network_id")?.ok_or_else(|| wrong("network_id is missing"))?;
        let snat = info.boolean("enable_snat")?;
        let addresses = info.objects("external_fixed_ips", |fixed| {
            Ok(FixedIpRequest { subnet: fixed.id("subnet_id")?, address: fixed.parsed("ip_address", "IP address")? })
        })?;
        if info.take("qos_policy_id").is_some_and(|value| !value.is_null()) {
            return Err(faults::invalid_input("qos_policy_id is not supported"));
        }
        info.finish()?;
        Ok(Some(Self { network: Some(network), snat, addresses: addresses.unwrap_or_default() }))
    }
}

/// Restricted attributes, with the rules for creating and for updating a router.
const GUARDED: [(&str, &str, &str); 2] = [
    (
        "enable_snat",
        "create_router:external_gateway_info:enable_snat",
        "update_router:external_gateway_info:enable_snat",
    ),
    (
        "external_fixed_ips",
        "create_router:external_gateway_info:external_fixed_ips",
        "update_router:external_gateway_info:external_fixed_ips",
    ),
];

fn wrong(reason: &str) -> Fault {
    Fault::bad_request(format!("Invalid input for external_gateway_info. Reason: {reason}.")).key("HTTPBadRequest")
}

/// Gives the router the requested gateway. `None` leaves the router's gateway unchanged.
pub(super) async fn set(
    ctx: &Ctx,
    permit: &Permit,
    row: &RouterRow,
    wanted: Option<&ExternalGatewayInfo>,
) -> Result<(), Fault> {
    let Some(wanted) = wanted else { return Ok(()) };
    let router = row.id();
    let old = ctx.views()?.networks.read(|view| view.gateway_of(router).cloned());
    let Some(network) = wanted.network else { return end(ctx, permit, router, old.as_deref()).await };
    check(ctx, network, wanted)?;
    match old.as_deref() {
        Some(port) if port.created.network == network => readdress(ctx, permit, port, wanted).await,
        old => {
            interfaces::check_overlaps(ctx, router, network, None)?;
            end(ctx, permit, router, old).await?;
            let command = NetworkCommand::CreatePort(port(router, wanted));
            send(ctx, permit, network, command).await
        }
    }
}

/// The gateway of a new router, if the body requests one.
pub(super) fn of_new(
    ctx: &Ctx,
    router: RouterId,
    wanted: Option<&ExternalGatewayInfo>,
) -> Result<Option<(NetworkId, PortRequest)>, Fault> {
    let Some((wanted, network)) = wanted.and_then(|wanted| Some((wanted, wanted.network?))) else { return Ok(None) };
    check(ctx, network, wanted)?;
    Ok(Some((network, port(router, wanted))))
}

fn check(ctx: &Ctx, network: NetworkId, wanted: &ExternalGatewayInfo) -> Result<(), Fault> {
    let row = targets::find_network(ctx, &network.to_string())?;
    if !row.settings().external {
        return Err(faults::bad("router", format_args!("Network {network} is not an external network")));
    }
    let gateways: Vec<_> = ctx.views()?.networks.read(|view| {
        let subnets = view.whole(network).into_iter().flat_map(|network| network.subnets.values());
        subnets.filter_map(|subnet| subnet.added.settings.gateway).collect()
    });
    match wanted.addresses.iter().filter_map(|fixed| fixed.address).find(|address| gateways.contains(address)) {
        Some(address) => {
            Err(faults::bad("router", format_args!("External IP {address} is the same as the gateway IP")))
        }
        None => Ok(()),
    }
}

/// Deletes a gateway. Refuses, as Neutron does, if floating addresses need the gateway.
async fn end(ctx: &Ctx, permit: &Permit, router: RouterId, old: Option<&Port>) -> Result<(), Fault> {
    let Some(port) = old else { return Ok(()) };
    let network = port.created.network;
    if ctx.views()?.networks.read(|view| view.routed_by(router).next().is_some()) {
        return Err(Fault::conflict(format!(
            "Gateway cannot be updated for router {router}, since a gateway to external network {network} is required by \
             one or more floating IPs."
        ))
        .key("RouterExternalGatewayInUseByFloatingIp"));
    }
    send(ctx, permit, network, NetworkCommand::DeletePort { port: port.created.port }).await
}

async fn readdress(ctx: &Ctx, permit: &Permit, port: &Port, wanted: &ExternalGatewayInfo) -> Result<(), Fault> {
    let has = |requested: &FixedIpRequest| {
        port.addresses().iter().any(|fixed| {
            requested.subnet.is_none_or(|subnet| subnet == fixed.subnet)
                && requested.address.is_none_or(|address| address == fixed.address)
        })
    };
    if wanted.addresses.is_empty()
        || (wanted.addresses.len() == port.addresses().len() && wanted.addresses.iter().all(has))
    {
        return Ok(());
    }
    let patch = PortPatch { addresses: Some(wanted.addresses.clone()), ..PortPatch::default() };
    send(ctx, permit, port.created.network, NetworkCommand::ChangePort { port: port.created.port, patch }).await
}

fn port(router: RouterId, wanted: &ExternalGatewayInfo) -> PortRequest {
    PortRequest {
        port: PortId::random(),
        project: ProjectId::new(""),
        mac: None,
        addresses: Some(wanted.addresses.clone()).filter(|addresses| !addresses.is_empty()),
        settings: PortSettings::default(),
        port_security: Some(false),
        security_groups: Some(vec![]),
        binding: PortBinding { device: router.to_string(), owner: GATEWAY_OWNER.to_owned(), host: String::new() },
        made_for: None,
    }
}

pub(super) async fn send(ctx: &Ctx, permit: &Permit, network: NetworkId, command: NetworkCommand) -> Result<(), Fault> {
    dispatch::send::<NetworkRoot>(ctx.app.dispatch()?, permit, &network, command)
        .await
        .map(drop)
        .map_err(faults::network(network))
}
