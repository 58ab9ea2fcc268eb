//! Identifies the guest behind a request.
//!
//! Guests have no tokens. With Neutron's metadata proxy (`[neutron] service_metadata_proxy`), the proxy names the
//! guest's server, and proves its own identity with a secret. Otherwise the guest is identified by its source address,
//! and by its network if that is known. Separate networks may use the same addresses.
//!
//! Invariant: a port identifies a server only if both belong to the same project. Otherwise the creator of a port could
//! name another project's server as the device of that port.

use std::net::IpAddr;
use std::path::Path;

use chronova_actors::aggregate::CommandError;
use chronova_actors::instance::InstanceReject;
use chronova_actors::ports::{PortError, ServiceCaller};
use chronova_events::ids::{InstanceId, NetworkId};
use chronova_hypervisor::volumes::{bridge_name, is_bridge_name};
use hmac::{Hmac, Mac as _};
use sha2::Sha256;

use super::guest::Guest;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::secret::Secret;

/// Identifies the guest. An unknown guest gets 404, which does not reveal servers of other projects.
pub(super) async fn who(ctx: &Ctx) -> Result<Guest, Fault> {
    match &ctx.app.config.metadata.proxy_secret {
        Some(secret) if ctx.header("X-Metadata-Provider").is_some_and(|provider| !provider.is_empty()) => {
            by_provider(ctx, secret)
        }
        Some(secret) => by_proxy(ctx, secret),
        None => by_address(ctx).await,
    }
}

fn by_proxy(ctx: &Ctx, secret: &Secret) -> Result<Guest, Fault> {
    let instance = ctx.header("X-Instance-ID").ok_or_else(|| missing("X-Instance-ID"))?;
    let signature = ctx.header("X-Instance-ID-Signature").ok_or_else(|| missing("X-Instance-ID-Signature"))?;
    let project = ctx.header("X-Tenant-ID").ok_or_else(|| missing("X-Tenant-ID"))?;
    for name in ["X-Instance-ID", "X-Tenant-ID"] {
        if ctx.headers.get_all(name).count() > 1 {
            return Err(Fault::bad_request(format!("Multiple {name} headers found within request.")));
        }
    }
    check(secret, instance, Some(signature))?;
    let guest = instance.parse().ok().and_then(|id| find(ctx, id).transpose()).ok_or_else(Fault::no_route)??;
    if guest.server()?.request.project.as_str() != project {
        tracing::warn!(%instance, project, "the metadata proxy names another project than the server's");
        return Err(Fault::no_route());
    }
    Ok(guest)
}

/// Always refuses, with Nova's message for a provider without subnets. A load balancer names its metadata provider
/// instead of the server, and Nova looks up the provider's subnets. Chronova does not support such providers.
fn by_provider(ctx: &Ctx, secret: &Secret) -> Result<Guest, Fault> {
    let provider = ctx.header("X-Metadata-Provider").ok_or_else(|| missing("X-Metadata-Provider"))?;
    ctx.header("X-Forwarded-For").ok_or_else(|| missing("X-Forwarded-For"))?;
    check(secret, provider, ctx.header("X-Metadata-Provider-Signature"))?;
    Err(Fault::bad_request(format!("Could not find any subnets for provider {provider}")))
}

fn missing(name: &str) -> Fault {
    match name {
        "X-Forwarded-For" => Fault::bad_request("X-Forwarded-For is missing from request."),
        _ => Fault::bad_request(format!("{name} header is missing from request.")),
    }
}

/// Checks the proxy's signature. The check takes the same time whichever byte is wrong.
fn check(secret: &Secret, signed: &str, signature: Option<&str>) -> Result<(), Fault> {
    let told = signature.and_then(bytes_of);
    let mac = Hmac::<Sha256>::new_from_slice(secret.expose().as_bytes()).map_err(Fault::internal)?;
    match told.is_some_and(|told| mac.chain_update(signed).verify_slice(&told).is_ok()) {
        true => Ok(()),
        false => {
            tracing::warn!(
                id = signed,
                "the signature of a request for metadata does not match metadata_proxy_shared_secret"
            );
            Err(Fault::forbidden("Invalid proxy request signature."))
        }
    }
}

/// The bytes of a signature in lower-case hexadecimal digits, as proxies write them. Upper-case digits are refused.
fn bytes_of(hex: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let pairs = hex.as_bytes().chunks(2);
    pairs.map(|pair| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?)).collect()
}

/// The answer if the network service fails: 503. Guests repeat such requests.
pub(super) fn unavailable(error: PortError) -> Fault {
    Fault::unavailable("The network service does not answer.").caused_by(error)
}

async fn by_address(ctx: &Ctx) -> Result<Guest, Fault> {
    if ctx.header("X-Instance-ID").is_some() {
        tracing::warn!("X-Instance-ID has an effect only with [neutron] service_metadata_proxy");
    }
    let GuestOrigin { address, network } = origin(ctx).ok_or_else(Fault::no_route)?;
    let ports = ctx.queries()?.networks.ports_at(address, &ServiceCaller::system("metadata")).await;
    let mut guests = Vec::new();
    for port in ports.map_err(unavailable)?.into_iter().filter(|port| network.may_be(port.network)) {
        let guest = port.server.map(|id| find(ctx, id)).transpose()?.flatten();
        let own = |guest: &Guest| guest.server().is_ok_and(|server| server.request.project == port.project);
        guests.extend(guest.filter(own));
    }
    match (guests.pop(), guests.is_empty()) {
        (Some(guest), true) => Ok(guest),
        (Some(_), false) => {
            tracing::warn!(
                %address,
                "guests of several networks have this address: only a metadata proxy that names its network can tell \
                 them apart"
            );
            Err(Fault::no_route())
        }
        (None, _) => Err(Fault::no_route()),
    }
}

/// The source of a guest's request.
struct GuestOrigin {
    address: IpAddr,
    network: GuestNetwork,
}

/// The known facts about a guest's network.
enum GuestNetwork {
    Unknown,
    Network(NetworkId),
    /// The guest is in a network whose bridge on this machine has one of these names.
    Bridges(Vec<String>),
}

impl GuestNetwork {
    fn may_be(&self, network: NetworkId) -> bool {
        match self {
            Self::Unknown => true,
            Self::Network(known) => *known == network,
            Self::Bridges(names) => names.contains(&bridge_name(network)),
        }
    }
}

/// The source of the request. Any client can write a header, so only the headers of trusted proxies are used. Such
/// headers may have at most one address and at most one network, because the client may have written a second value. A
/// guest behind a bridge of this machine is in that bridge's network, even if it uses an address of another network.
fn origin(ctx: &Ctx) -> Option<GuestOrigin> {
    let (config, peer) = (&ctx.app.config, ctx.remote?.to_canonical());
    let trusted = config.metadata.use_forwarded_for && config.trusted_proxies.iter().any(|net| net.contains(&peer));
    let one = |name: &str| {
        let mut told = ctx.headers.get_all(name).filter(|_| trusted);
        match (told.next(), told.next()) {
            (None, _) => Some(None),
            (Some(one), None) => Some(Some(one.to_str().ok()?.trim())),
            (Some(_), Some(_)) => None,
        }
    };
    let network = match one("X-Neutron-Network-ID")? {
        Some(id) => Some(GuestNetwork::Network(id.parse().ok()?)),
        None => None,
    };
    match one("X-Forwarded-For")? {
        Some(address) => {
            let address = address.parse::<IpAddr>().ok()?.to_canonical();
            Some(GuestOrigin { address, network: network.unwrap_or(GuestNetwork::Unknown) })
        }
        None => {
            let network = network.unwrap_or_else(|| bridges_to(&config.metadata.neighbours, peer));
            Some(GuestOrigin { address: peer, network })
        }
    }
}

/// The bridges behind which this machine sees the address. Reads Linux's table of IPv4 neighbours; each line has the
/// address first and the interface last. The kernel generates the file, so reading it does not wait for a disk.
fn bridges_to(neighbours: &Path, address: IpAddr) -> GuestNetwork {
    let table = std::fs::read_to_string(neighbours).unwrap_or_default();
    let mut bridges = Vec::new();
    for line in table.lines() {
        let mut words = line.split_whitespace();
        let (first, last) = (words.next(), words.next_back());
        if let Some(name) = last.filter(|name| is_bridge_name(name))
            && first.and_then(|word| word.parse::<IpAddr>().ok()) == Some(address)
        {
            bridges.push(name.to_owned());
        }
    }
    if bridges.is_empty() { GuestNetwork::Unknown } else { GuestNetwork::Bridges(bridges) }
}

fn find(ctx: &Ctx, id: InstanceId) -> Result<Option<Guest>, Fault> {
    let row = ctx.queries()?.views.servers.read(|servers| servers.get(id).cloned());
    Ok(row.filter(|row| row.instance.alive().is_some()).map(Guest::known))
}

pub(super) fn conflict() -> Fault {
    Fault::conflict("There was a conflict when trying to complete your request.")
}

/// The refusal of a guest's password.
pub(super) fn refused(error: CommandError<InstanceReject>) -> Fault {
    match error {
        CommandError::Rejected(InstanceReject::GuestPasswordKept) => conflict(),
        CommandError::Rejected(InstanceReject::NotFound) => Fault::no_route(),
        CommandError::Rejected(other) => Fault::internal(other),
        CommandError::Unavailable(cause) => Fault::of_log(&cause),
    }
}
