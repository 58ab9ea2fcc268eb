//! The metadata service (nova-api-metadata), which answers guests about themselves.
//!
//! Source: nova `api/metadata/{handler,base,password}.py`. `actors/src/metadata` builds the answers. [`caller`]
//! identifies the guest. Apart from the read models there is no cache, so a guest sees a change as soon as the read
//! models show it.
//!
//! The service needs no token, and the paths that exist depend on the guest. As in Nova, one handler serves every path
//! and method. So `PUT /latest/api/token` answers 404, and not 405.

mod caller;
mod config;
mod guest;

use std::sync::Arc;

use chronova_actors::metadata::tree::{self, MetadataEntry};
use chronova_actors::metadata::{GuestMetadata, sources};

pub use self::config::MetadataConfig;
pub(crate) use self::guest::Guest;

use crate::ctx::Ctx;
use crate::dispatch;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Method, Route};

/// The longest password, in bytes. Nova stores a password in four chunks of 255 bytes.
const LONGEST_PASSWORD: usize = 4 * 255;

/// The tables of all resources.
pub const ROUTES: &[&[Route]] = &[&[
    any("metadata.root.get", Method::Get, "/"),
    any("metadata.root.post", Method::Post, "/"),
    any("metadata.root.put", Method::Put, "/"),
    any("metadata.root.patch", Method::Patch, "/"),
    any("metadata.root.delete", Method::Delete, "/"),
    any("metadata.get", Method::Get, "/{path*}"),
    any("metadata.post", Method::Post, "/{path*}"),
    any("metadata.put", Method::Put, "/{path*}"),
    any("metadata.patch", Method::Patch, "/{path*}"),
    any("metadata.delete", Method::Delete, "/{path*}"),
]];

const fn any(op: &'static str, method: Method, path: &'static str) -> Route {
    Route::new(op, method, path, handler!(answer)).public().raw_body()
}

async fn answer(ctx: Ctx) -> Result<Reply, Fault> {
    let whole = ctx.param("path").to_owned();
    let path = normal(&whole);
    // A caller need not be a known guest to list the versions.
    if path.is_empty() {
        return shown(tree::root());
    }
    let guest = caller::who(&ctx).await?;
    match look_up(&ctx, &guest, &path).await? {
        Some(MetadataEntry::Password) => password(ctx, &guest).await,
        Some(found) => shown(found),
        None => Err(Fault::no_route()),
    }
}

/// The names of a path after empty names, `.` and `..` are resolved, as `posixpath.normpath` does.
fn normal(path: &str) -> Vec<&str> {
    path.split('/').fold(Vec::new(), |mut names, name| {
        match name {
            "" | "." => {}
            ".." => drop(names.pop()),
            name => names.push(name),
        }
        names
    })
}

async fn look_up(ctx: &Ctx, guest: &Guest, path: &[&str]) -> Result<Option<MetadataEntry>, Fault> {
    let (queries, server) = (Arc::clone(ctx.queries()?), guest.server()?);
    let floating_ip = sources::floating_ip(queries.networks.as_ref(), server).await.map_err(caller::unavailable)?;
    let devices = match path.last() {
        Some(&"meta_data.json") => queries.devices(guest.id(), server).await,
        _ => Vec::new(),
    };
    let plugged = match path.last() {
        Some(&"network_data.json") => sources::plugged(queries.networks.as_ref(), server).await,
        _ => Vec::new(),
    };
    let options = &queries.server_options.metadata;
    let said = match path.last() {
        Some(&"vendor_data2.json") => {
            sources::said(options, queries.log.as_ref(), server).await.map_err(Fault::internal)?
        }
        _ => None,
    };
    let (floating_ip, said) = (floating_ip.as_deref(), said.as_ref());
    let (devices, plugged) = (&devices, &plugged);
    let about = GuestMetadata { server, password: None, options, devices, plugged, floating_ip, said };
    let today = queries.clock.now().to_utc().date_naive().to_string();
    about.look_up(path, &today).map_err(Fault::internal)
}

fn shown(found: MetadataEntry) -> Result<Reply, Fault> {
    match found {
        MetadataEntry::Json(document) => Ok(Reply::json_text(200, document)),
        MetadataEntry::Text(text) => Ok(Reply::bytes(200, "text/plain; charset=UTF-8", text)),
        MetadataEntry::Password => Err(Fault::no_route()),
    }
}

/// Reads or stores the guest's password. A stored password cannot be replaced. Otherwise an attacker in the guest's
/// network could change it.
async fn password(mut ctx: Ctx, guest: &Guest) -> Result<Reply, Fault> {
    let posted = guest.server()?.guest_password.clone();
    match ctx.route.method {
        Method::Get | Method::Head => Ok(Reply::text(200, posted.unwrap_or_default())),
        Method::Post if posted.is_some() => Err(caller::conflict()),
        Method::Post => {
            let password = read(&mut ctx).await?;
            let dispatch = ctx.dispatch()?.clone();
            dispatch::post_password(&dispatch, guest, &ctx.requester.request_id, password)
                .await
                .map_err(caller::refused)?;
            Ok(Reply::text(200, ""))
        }
        _ => Err(Fault::bad_request("GET and POST only are supported.")),
    }
}

async fn read(ctx: &mut Ctx) -> Result<String, Fault> {
    let body = ctx.read_body(LONGEST_PASSWORD).await.map_err(|fault| match fault.status {
        413 => Fault::bad_request("Request is too large."),
        _ => fault,
    })?;
    String::from_utf8(body.to_vec())
        .map_err(|_| Fault::bad_request("The password is not valid UTF-8: post it as text."))
}

#[cfg(test)]
mod tests {
    use super::normal;

    #[test]
    fn paths_are_normalized() {
        assert_eq!(normal("//openstack/./latest/"), ["openstack", "latest"]);
        assert_eq!(normal("../latest/../openstack"), ["openstack"]);
        assert_eq!(normal("/.."), [""; 0]);
    }
}
