//! The calls of persistent subscriptions, except reads.

use std::sync::Arc;

use chronova_events::envelope::StreamId;
use tonic::{Response, Status};

use super::super::access::LogUser;
use super::super::append::stream_name;
use super::super::links::LinkStream;
use super::super::served::ServedLog;
use super::super::wire::{AllOption, Empty, FilterOptions, RevisionOption};
use super::group::GroupStanding;
use super::groups::PersistentGroups;
use super::settings::{ALL, FilterRecord, GroupRecord, PersistentGroupId, PersistentSettings};
use super::wire::{
    AllStart, CreateGroupReq, DeleteGroupReq, DeletedSource, GroupConnection, GroupFilter, GroupInfo, GroupInfoReq,
    GroupInfoResp, GroupStart, InfoSource, ListGroupsReq, ListGroupsResp, ListedGroups, ReplayLimit, ReplayParkedReq,
    ReplaySource, StreamStart,
};

type GroupCallResult<Message> = Result<Response<Message>, Status>;

pub(in crate::eventstoredb) async fn create(
    groups: Arc<PersistentGroups>,
    user: LogUser,
    request: CreateGroupReq,
) -> GroupCallResult<Empty> {
    let options = request.options.ok_or_else(incomplete)?;
    let (source, after, filter) = start(groups.log(), options.start).await?;
    let filter = filter.map(FilterRecord::of).transpose()?;
    let id = PersistentGroupId::new(source, options.group_name)?;
    groups.create(&user, id, after, filter, PersistentSettings::of(options.settings)?).await?;
    Ok(Response::new(Empty {}))
}

/// Changes the settings. A new start counts only if the group has no checkpoint yet. The filter stays.
pub(in crate::eventstoredb) async fn update(
    groups: Arc<PersistentGroups>,
    user: LogUser,
    request: CreateGroupReq,
) -> GroupCallResult<Empty> {
    let options = request.options.ok_or_else(incomplete)?;
    let (source, after, _) = start(groups.log(), options.start).await?;
    let id = PersistentGroupId::new(source, options.group_name)?;
    groups.update(&user, &id, after, PersistentSettings::of(options.settings)?).await?;
    Ok(Response::new(Empty {}))
}

pub(in crate::eventstoredb) async fn delete(
    groups: Arc<PersistentGroups>,
    user: LogUser,
    request: DeleteGroupReq,
) -> GroupCallResult<Empty> {
    let options = request.options.ok_or_else(incomplete)?;
    let source = match options.source.ok_or_else(incomplete)? {
        DeletedSource::Stream(name) => stream_name(Some(name))?,
        DeletedSource::All(_) => ALL.to_owned(),
    };
    groups.delete(&user, &PersistentGroupId::new(source, options.group_name)?).await?;
    Ok(Response::new(Empty {}))
}

pub(in crate::eventstoredb) async fn info(
    groups: Arc<PersistentGroups>,
    request: GroupInfoReq,
) -> GroupCallResult<GroupInfoResp> {
    let options = request.options.ok_or_else(incomplete)?;
    let source = named(options.source)?.ok_or_else(incomplete)?;
    let (record, standing) = groups.describe(&PersistentGroupId::new(source, options.group_name)?).await?;
    let subscription_info = Some(shown(&groups, &record, &standing));
    Ok(Response::new(GroupInfoResp { subscription_info }))
}

pub(in crate::eventstoredb) async fn list(
    groups: Arc<PersistentGroups>,
    request: ListGroupsReq,
) -> GroupCallResult<ListGroupsResp> {
    let source = match request.options.and_then(|options| options.listed) {
        Some(ListedGroups::Of(of)) => named(of.source)?,
        Some(ListedGroups::All(_)) | None => None,
    };
    let mut subscriptions = Vec::new();
    for id in groups.list(source.as_deref()).await? {
        let (record, standing) = groups.describe(&id).await?;
        subscriptions.push(shown(&groups, &record, &standing));
    }
    if subscriptions.is_empty() && source.is_some() {
        return Err(Status::not_found("this stream has no persistent subscription"));
    }
    Ok(Response::new(ListGroupsResp { subscriptions }))
}

pub(in crate::eventstoredb) async fn replay(
    groups: Arc<PersistentGroups>,
    user: LogUser,
    request: ReplayParkedReq,
) -> GroupCallResult<Empty> {
    let options = request.options.ok_or_else(incomplete)?;
    let source = match options.source.ok_or_else(incomplete)? {
        ReplaySource::Stream(name) => stream_name(Some(name))?,
        ReplaySource::All(_) => ALL.to_owned(),
    };
    let limit = match options.end {
        Some(ReplayLimit::After(count)) => {
            Some(u64::try_from(count).map_err(|_| Status::invalid_argument("stop_at may not be negative"))?)
        }
        Some(ReplayLimit::NoLimit(_)) | None => None,
    };
    groups.replay(&user, &PersistentGroupId::new(source, options.group_name)?, limit).await?;
    Ok(Response::new(Empty {}))
}

fn incomplete() -> Status {
    Status::invalid_argument("the request must name a stream or $all, and a group")
}

fn named(source: Option<InfoSource>) -> Result<Option<String>, Status> {
    source
        .map(|source| match source {
            InfoSource::Stream(name) => stream_name(Some(name)),
            InfoSource::All(_) => Ok(ALL.to_owned()),
        })
        .transpose()
}

/// The source of a new group, the place before its first event, and its filter. Clients name the first event itself.
async fn start(log: &ServedLog, start: Option<GroupStart>) -> Result<(String, u64, Option<FilterOptions>), Status> {
    match start.ok_or_else(incomplete)? {
        GroupStart::All(AllStart { position, filter }) => {
            let after = match position {
                Some(AllOption::Position(at)) => at.commit_position.saturating_sub(1),
                Some(AllOption::Start(_)) | None => 0,
                Some(AllOption::End(_)) => log.store.head().0,
            };
            let filter = match filter {
                Some(GroupFilter::Filter(filter)) => Some(filter),
                Some(GroupFilter::None(_)) | None => None,
            };
            Ok((ALL.to_owned(), after, filter))
        }
        GroupStart::Stream(StreamStart { stream_identifier, revision }) => {
            let name = stream_name(stream_identifier)?;
            let is_linked = LinkStream::parse(&name).is_some();
            let after = match revision {
                Some(RevisionOption::Revision(at)) if is_linked => at.saturating_sub(1),
                // The revision of the protocol is that of Chronova minus one.
                Some(RevisionOption::Revision(at)) => at,
                Some(RevisionOption::Start(_)) | None => 0,
                Some(RevisionOption::End(_)) if is_linked => log.store.head().0,
                Some(RevisionOption::End(_)) => log.last_revision(&StreamId::from_stored(&name)).await?.0,
            };
            Ok((name, after, None))
        }
    }
}

fn shown(groups: &PersistentGroups, record: &GroupRecord, standing: &GroupStanding) -> GroupInfo {
    let settings = &record.settings;
    let number = |value: usize| i32::try_from(value).unwrap_or(i32::MAX);
    let setting = |value: u32| i32::try_from(value).unwrap_or(i32::MAX);
    let count = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let is_of_log = record.id.source == ALL || LinkStream::parse(&record.id.source).is_some();
    let connections = standing.consumers.iter().map(|consumer| GroupConnection {
        username: consumer.user.clone(),
        total_items: count(consumer.delivered),
        available_slots: number(consumer.size.saturating_sub(consumer.sent)),
        in_flight_messages: number(consumer.sent),
    });
    let end = if is_of_log { groups.log().store.head().0 } else { standing.read };
    GroupInfo {
        event_source: record.id.source.clone(),
        group_name: record.id.group.clone(),
        status: "Live".to_owned(),
        connections: connections.collect(),
        total_items: standing.consumers.iter().map(|consumer| count(consumer.delivered)).sum(),
        last_checkpointed_event_position: last_place(record, standing.checkpoint.settled),
        last_known_event_position: last_place(record, end),
        resolve_link_tos: settings.resolve_links,
        start_from: first_place(record, is_of_log),
        message_timeout_milliseconds: setting(settings.message_timeout),
        extra_statistics: settings.extra_statistics,
        max_retry_count: setting(settings.max_retry_count),
        live_buffer_size: setting(settings.live_buffer_size),
        buffer_size: setting(settings.history_buffer_size),
        read_batch_size: setting(settings.read_batch_size),
        check_point_after_milliseconds: setting(settings.checkpoint_after),
        min_check_point_count: setting(settings.min_checkpoint_count),
        max_check_point_count: setting(settings.max_checkpoint_count),
        read_buffer_count: number(standing.waiting),
        total_in_flight_messages: number(standing.sent),
        outstanding_messages_count: number(standing.outstanding),
        named_consumer_strategy: settings.strategy.shown().to_owned(),
        max_subscriber_count: setting(settings.max_subscriber_count),
        parked_message_count: count(standing.parked),
    }
}

/// A place in the form of the protocol; empty before the first event.
fn last_place(record: &GroupRecord, place: u64) -> String {
    match place {
        0 => String::new(),
        at if record.id.source == ALL => format!("C:{at}/P:{at}"),
        at if LinkStream::parse(&record.id.source).is_some() => at.to_string(),
        at => (at - 1).to_string(),
    }
}

/// The place of the group's first event, in the form of the protocol.
fn first_place(record: &GroupRecord, is_of_log: bool) -> String {
    let at = if is_of_log && record.after > 0 { record.after + 1 } else { record.after };
    if record.id.source == ALL { format!("C:{at}/P:{at}") } else { at.to_string() }
}
