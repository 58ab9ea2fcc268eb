//! `POST /servers`.
//!
//! | step | file | what it may answer |
//! |---|---|---|
//! | read the body | [`wish`] | 400: what the schema cannot say |
//! | read the block device mappings, look up what they name | [`devices`], [`volumes`] | 400 in Nova's words |
//! | look up and check flavor, image, key, zone, networks | [`admit`] | 400, 403, 404, 409 in Nova's words |
//! | take quota and places in a server group, record the servers | here | 403 over quota; 202 |
//!
//! Nothing is recorded before everything that can be known beforehand is checked. Quota is taken for server ids that do
//! not exist yet; when a server then cannot be recorded its room is given back at once, and a reservation whose server
//! never came to be (a crash between the two) is found by its ids.
//!
//! Personality files (until 2.56) are not put into guests' disks, for guests are built agentless: they are on the config
//! drive, and the metadata service has them.

mod admit;
mod devices;
mod names;
mod volumes;
mod wish;

use std::sync::Arc;

use crate::dispatch::Dispatch;
use chronova_actors::aggregate::CommandError;
use chronova_actors::instance::{InstanceAggregate, InstanceCommand};
use chronova_actors::quota::{self, Overdrawn, QuotaAggregate, QuotaCommand, QuotaReject};
use chronova_actors::server_group::{ServerGroupAggregate, ServerGroupCommand, ServerGroupReject};
use chronova_events::ids::{InstanceId, ProcessId};
use chronova_events::instance::{BlockDevicesMapped, BuildRequested, FilesGiven};
use serde_json::{Value, json};

pub(super) use self::admit::{fits, key, limits};
pub(super) use self::wish::files;

use self::admit::Admitted;
pub(super) use self::admit::visible_flavor;
use self::wish::Wish;
use crate::compute::views::server::disk_config;
use crate::compute::{quotas, reject};
use crate::ctx::Ctx;
use crate::dispatch;
use crate::fault::Fault;
use crate::policy::Permit;
use crate::reply::Reply;

pub(super) async fn create(ctx: Ctx) -> Result<Reply, Fault> {
    let permit = ctx.permit()?;
    let dispatch = ctx.dispatch()?.clone();
    let wish = Wish::read(&ctx)?;
    let admitted = admit::admit(&ctx, dispatch.queries(), &wish).await?;
    let instances = reserve(&ctx, &dispatch, &permit, &wish, &admitted).await?;
    join_group(&ctx, &dispatch, &permit, &admitted, &instances).await?;
    let reservation = names::reservation();
    let password = new_password(&ctx, wish.admin_pass.as_deref());
    for (index, instance) in instances.iter().enumerate() {
        let request = request(&ctx, &dispatch, &wish, &admitted, *instance, index, instances.len(), &reservation);
        keep_password(&dispatch, request.process, request.config_drive, password.as_ref());
        let process = request.process;
        let (mapped, files) = (admitted.mapped.as_ref(), wish.files.clone());
        if let Err(fault) = build(&dispatch, &permit, request, mapped, files).await {
            dispatch.passwords().forget(process);
            give_back(&dispatch, &permit, &admitted, &instances[index..]).await;
            return Err(fault);
        }
    }
    Ok(answer(&ctx, &wish, &instances, &reservation, password))
}

/// What a guest's administrator logs in with, where such passwords are told: what was asked for, or one that is made up.
/// It is told in the answer and put on the guest's config drive, and is kept nowhere: neither in the log of events nor in
/// the log of text.
pub(super) fn new_password(ctx: &Ctx, asked: Option<&str>) -> Option<String> {
    let config = &ctx.app.compute.config;
    config.enable_instance_password.then(|| match asked {
        Some(password) => password.to_owned(),
        None => names::password(config.password_length),
    })
}

/// Lets a process put it on the config drive that it makes, if it makes one.
pub(super) fn keep_password(dispatch: &Dispatch, process: ProcessId, config_drive: bool, password: Option<&String>) {
    if let Some(password) = password.filter(|_| config_drive) {
        dispatch.passwords().keep(process, password.clone());
    }
}

/// Takes room for as many servers as fit between `min_count` and `max_count`, as Nova does.
async fn reserve(
    ctx: &Ctx,
    dispatch: &Dispatch,
    permit: &Permit,
    wish: &Wish,
    admitted: &Admitted,
) -> Result<Vec<InstanceId>, Fault> {
    let mut count = bounded(ctx, wish, admitted)?;
    loop {
        let instances: Vec<InstanceId> = (0..count).map(|_| InstanceId::random()).collect();
        let command = QuotaCommand::Reserve {
            project: admitted.project.clone(),
            instances: instances.clone(),
            cores: admitted.flavor.vcpus,
            memory_mib: admitted.flavor.memory_mib,
            defaults: quotas::default_limits(ctx)?,
        };
        match dispatch::send::<QuotaAggregate>(dispatch, permit, &admitted.project, command).await {
            Ok(_) => return Ok(instances),
            Err(CommandError::Rejected(QuotaReject::Exceeded(over))) => {
                let room = room(&over, count);
                if room < wish.min_count || room >= count {
                    return Err(reject::over_quota(over));
                }
                count = room;
            }
            Err(error) => return Err(reject::quota(error)),
        }
    }
}

/// Servers that one request may ask for: their ids are made before quota is asked, and are one event.
const MOST_AT_ONCE: u32 = 10_000;

/// As many as are asked for, where that is no more than may be made at once; otherwise as many as there seems to be room
/// for. The project's own `decide` has the last word.
fn bounded(ctx: &Ctx, wish: &Wish, admitted: &Admitted) -> Result<u32, Fault> {
    let mut count = wish.max_count;
    if count <= MOST_AT_ONCE {
        return Ok(count);
    }
    let (flavor, defaults) = (&admitted.flavor, quotas::default_limits(ctx)?);
    let views = &ctx.queries()?.views;
    let known = views.quotas.read(|view| view.by_project.get(&admitted.project).cloned()).unwrap_or_default();
    let over = quota::decide::lacking(&known, u64::from(count), (flavor.vcpus, flavor.memory_mib), &defaults);
    if !over.is_empty() {
        count = room(&over, count);
        if count < wish.min_count {
            return Err(reject::over_quota(over));
        }
    }
    match count <= MOST_AT_ONCE {
        true => Ok(count),
        false => {
            Err(Fault::bad_request(format!("max_count must be at most {MOST_AT_ONCE}: ask for the others later.")))
        }
    }
}

/// How many of `count` servers there is room for.
fn room(over: &[Overdrawn], count: u32) -> u32 {
    over.iter()
        .map(|one| {
            let each = (one.requested / u64::from(count.max(1))).max(1);
            let free = u64::try_from(one.limit).unwrap_or(u64::MAX).saturating_sub(one.used);
            u32::try_from(free / each).unwrap_or(u32::MAX)
        })
        .min()
        .unwrap_or(count)
}

async fn build(
    dispatch: &Dispatch,
    permit: &Permit,
    request: BuildRequested,
    mapped: Option<&BlockDevicesMapped>,
    files: Option<FilesGiven>,
) -> Result<(), Fault> {
    let (instance, request) = (request.instance, Box::new(request));
    let mapped = mapped.map(|mapped| Box::new(volumes::again(mapped)));
    let command = InstanceCommand::BuildWith { request, mapped, files };
    dispatch::send::<InstanceAggregate>(dispatch, permit, &instance, command)
        .await
        .map(|_| ())
        .map_err(|error| reject::instance(instance, error))
}

/// Makes the servers members of the group that they are asked for, before they are: where they may be built is decided
/// with it.
async fn join_group(
    ctx: &Ctx,
    dispatch: &Dispatch,
    permit: &Permit,
    admitted: &Admitted,
    instances: &[InstanceId],
) -> Result<(), Fault> {
    let Some(group) = &admitted.group else { return Ok(()) };
    let join = ServerGroupCommand::Join {
        group: group.group,
        user: ctx.caller().user.clone(),
        instances: instances.to_vec(),
        limit: quotas::limit(ctx, &admitted.project, "server_group_members")?,
    };
    let Err(error) = dispatch::send::<ServerGroupAggregate>(dispatch, permit, &group.project, join).await else {
        return Ok(());
    };
    give_back(dispatch, permit, admitted, instances).await;
    let gone = matches!(error.rejection(), Some(ServerGroupReject::NotFound(_)));
    let fault = reject::server_group(error);
    Err(if gone { Fault::bad_request(fault.message) } else { fault })
}

/// What servers that are not made had taken.
async fn give_back(dispatch: &Dispatch, permit: &Permit, admitted: &Admitted, instances: &[InstanceId]) {
    let project = &admitted.project;
    for instance in instances {
        if let Some(group) = &admitted.group {
            let leave = ServerGroupCommand::Leave { group: group.group, instance: *instance };
            if let Err(error) = dispatch::send::<ServerGroupAggregate>(dispatch, permit, &group.project, leave).await {
                tracing::warn!(%instance, %error, "a server that was not made stays a member until it is reconciled");
            }
        }
        let release = QuotaCommand::Release { project: project.clone(), instance: *instance };
        if let Err(error) = dispatch::send::<QuotaAggregate>(dispatch, permit, project, release).await {
            tracing::warn!(%instance, %error, "quota of a server that was not made stays taken until it is reconciled");
        }
    }
}

#[allow(clippy::too_many_arguments, reason = "everything that was looked up becomes one fact here")]
fn request(
    ctx: &Ctx,
    dispatch: &Dispatch,
    wish: &Wish,
    admitted: &Admitted,
    instance: InstanceId,
    index: usize,
    of: usize,
    reservation: &str,
) -> BuildRequested {
    let (name, hostname) = names::of(wish, instance, index, of);
    BuildRequested {
        instance,
        process: ProcessId::random(),
        number: dispatch.next_server_number(),
        reservation: reservation.to_owned(),
        launch_index: u32::try_from(index).unwrap_or(u32::MAX),
        batch: u32::try_from(of).unwrap_or(u32::MAX),
        project: admitted.project.clone(),
        user: ctx.caller().user.clone(),
        name,
        hostname,
        description: wish.description.clone(),
        flavor: Arc::new(admitted.flavor.clone()),
        image: admitted.image.clone().map(Arc::new),
        key: admitted.key.clone(),
        user_data: wish.user_data.clone(),
        config_drive: wish.config_drive || ctx.app.compute.config.force_config_drive || demands_config_drive(admitted),
        networks: wish.networks.clone(),
        security_groups: wish.security_groups.clone(),
        metadata: wish.metadata.clone(),
        tags: wish.tags.clone(),
        availability_zone: admitted.availability_zone.clone(),
        forced_host: admitted.forced_host.clone(),
        requested_host: admitted.requested_host.clone(),
        scheduler_hints: wish.scheduler_hints.clone(),
        disk_config: wish.disk_config,
        access_ip_v4: wish.access_ip_v4.clone(),
        access_ip_v6: wish.access_ip_v6.clone(),
        trusted_certs: wish.trusted_certs.clone(),
    }
}

/// An image whose system finds out about itself nowhere else.
fn demands_config_drive(admitted: &Admitted) -> bool {
    let mut properties = admitted.image.iter().flat_map(|image| &image.properties);
    properties.any(|(name, value)| name == "img_config_drive" && value == "mandatory")
}

fn answer(ctx: &Ctx, wish: &Wish, instances: &[InstanceId], reservation: &str, password: Option<String>) -> Reply {
    if wish.return_reservation_id {
        return Reply::json(202, json!({"reservation_id": reservation}));
    }
    let Some(first) = instances.first() else { return Reply::empty(202) };
    let id = first.to_string();
    let groups: Vec<Value> = wish.security_groups.iter().map(|name| json!({"name": name})).collect();
    let mut server = json!({
        "id": id,
        "links": ctx.links.pair("servers", &id),
        "OS-DCF:diskConfig": disk_config(wish.disk_config),
        "security_groups": groups,
    });
    if let Some(password) = password {
        server["adminPass"] = json!(password);
    }
    Reply::json(202, json!({"server": server})).header("Location", ctx.links.to_self("servers", &id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_as_fit() {
        let over = |resource, requested, used, limit| Overdrawn { resource, requested, used, limit };
        assert_eq!(room(&[over("cores", 20, 16, 20)], 10), 2);
        assert_eq!(room(&[over("cores", 20, 16, 20), over("instances", 10, 9, 10)], 10), 1);
        assert_eq!(room(&[over("ram", 512, 51_200, 51_200)], 1), 0);
    }
}
