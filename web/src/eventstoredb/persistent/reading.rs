//! The call of one consumer: it gets events, and acknowledges or rejects them.

use std::sync::Arc;

use futures::stream::{self, BoxStream, StreamExt as _};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::task::JoinSet;
use tonic::{Response, Status, Streaming};
use uuid::Uuid;

use super::super::access::{LogRight, LogUser};
use super::super::append::{stream_name, uuid_of};
use super::super::links::LinkStream;
use super::super::show::{self, ReadFormat};
use super::super::wire::{Empty, SubscriptionConfirmation, UuidForm};
use super::group::{Delivery, GroupMessage, Settling};
use super::groups::{PersistentGroups, may_consume};
use super::settings::{ALL, MAX_BUFFER, PersistentGroupId};
use super::wire::{
    GroupAnswer, GroupEvent, GroupReadContent, GroupReadOptions, GroupReadReq, GroupReadResp, PARK, ReadSource,
    RetryCount, SKIP, STOP,
};

pub(in crate::eventstoredb) type GroupResponses = BoxStream<'static, Result<GroupReadResp, Status>>;

/// Starts the call of a consumer. Its first message has the options; the others settle events.
pub(in crate::eventstoredb) async fn read(
    groups: Arc<PersistentGroups>,
    user: LogUser,
    mut requests: Streaming<GroupReadReq>,
) -> Result<Response<GroupResponses>, Status> {
    let Some(GroupReadContent::Options(options)) = requests.message().await?.and_then(|request| request.content) else {
        return Err(Status::invalid_argument("a persistent subscription must begin with its options"));
    };
    let requests = stream::unfold(requests, |mut requests| async move {
        let next = requests.message().await.ok().flatten()?;
        Some((next, requests))
    });
    Ok(Response::new(consume(&groups, &user, options, requests.boxed()).await?))
}

/// Joins the group as a consumer. The call ends when the client ends `requests`.
pub(super) async fn consume(
    groups: &PersistentGroups,
    user: &LogUser,
    options: GroupReadOptions,
    requests: BoxStream<'static, GroupReadReq>,
) -> Result<GroupResponses, Status> {
    may_consume(user)?;
    let source = match options.source {
        Some(ReadSource::Stream(name)) => stream_name(Some(name))?,
        Some(ReadSource::All(_)) => ALL.to_owned(),
        None => return Err(Status::invalid_argument("a persistent subscription must name a stream or $all")),
    };
    let size = usize::try_from(options.buffer_size).ok().filter(|size| (1..=MAX_BUFFER).contains(size));
    let size = size.ok_or_else(|| Status::invalid_argument(format!("buffer_size must be 1 to {MAX_BUFFER}")))?;
    let structured = matches!(options.uuid_option.and_then(|option| option.form), Some(UuidForm::Structured(_)));
    let id = PersistentGroupId::new(source, options.group_name)?;
    let place = groups.log().subscription()?;
    let (record, task) = groups.open(&id).await?;
    // The room for the status at the end is in addition to the events.
    let (events, deliveries) = mpsc::channel(size + 1);
    let (answer, joined) = oneshot::channel();
    let ended = || Status::unavailable("the persistent subscription ended: subscribe again");
    task.send(GroupMessage::Join { user: user.name.clone(), size, events, answer }).await.map_err(|_| ended())?;
    let consumer = joined.await.map_err(|_| ended())??;
    let mut settling = JoinSet::new();
    settling.spawn(settle(task, consumer, requests));
    let links = LinkStream::parse(&id.source).map(|links| (links, record.settings.resolve_links));
    let shown = ReadFormat { exact: user.right == LogRight::Peer, structured };
    let confirmation = Some(SubscriptionConfirmation { subscription_id: id.shown() });
    let state = Consumption { confirmation, deliveries, settling, links, shown, _place: place };
    Ok(stream::try_unfold(state, |mut state| async move {
        Ok::<_, Status>(state.next().await?.map(|answer| (answer, state)))
    })
    .boxed())
}

/// The state of one consumer's call. When it is dropped, the task of the group takes the consumer's events back.
struct Consumption {
    /// `None` after it is sent.
    confirmation: Option<SubscriptionConfirmation>,
    deliveries: mpsc::Receiver<Result<Delivery, Status>>,
    /// The task that passes the client's messages on.
    settling: JoinSet<()>,
    /// The link stream, and whether the client wants the events, too.
    links: Option<(LinkStream, bool)>,
    shown: ReadFormat,
    _place: OwnedSemaphorePermit,
}

impl Consumption {
    async fn next(&mut self) -> Result<Option<GroupReadResp>, Status> {
        if let Some(confirmation) = self.confirmation.take() {
            return Ok(Some(GroupReadResp { content: Some(GroupAnswer::Confirmation(confirmation)) }));
        }
        let delivery = tokio::select! {
            delivery = self.deliveries.recv() => delivery,
            _ = self.settling.join_next() => None,
        };
        let Some(delivery) = delivery.transpose()? else { return Ok(None) };
        let event = match &self.links {
            Some((links, resolved)) => show::linked(&delivery.event, links.name(), *resolved, self.shown)?,
            None => show::event(&delivery.event, self.shown)?,
        };
        let retries = match i32::try_from(delivery.retries).unwrap_or(i32::MAX) {
            0 => RetryCount::None(Empty {}),
            count => RetryCount::Count(count),
        };
        let event =
            GroupEvent { event: event.event, link: event.link, position: event.position, retries: Some(retries) };
        Ok(Some(GroupReadResp { content: Some(GroupAnswer::Event(event)) }))
    }
}

/// Passes the client's messages on to the task of the group, until the client ends the call.
async fn settle(task: mpsc::Sender<GroupMessage>, consumer: u64, mut requests: BoxStream<'static, GroupReadReq>) {
    while let Some(request) = requests.next().await {
        let (ids, how) = match request.content {
            Some(GroupReadContent::Ack(acknowledged)) => (acknowledged.ids, Settling::Done),
            Some(GroupReadContent::Nack(rejected)) => {
                let how = match rejected.action {
                    PARK => Settling::Park(rejected.reason),
                    SKIP => Settling::Done,
                    STOP => Settling::Stop,
                    _ => Settling::Retry,
                };
                (rejected.ids, how)
            }
            Some(GroupReadContent::Options(_)) | None => continue,
        };
        let ids: Vec<Uuid> = ids.into_iter().filter_map(|id| uuid_of(Some(id))).collect();
        if task.send(GroupMessage::Settle { consumer, ids, how }).await.is_err() {
            return;
        }
    }
}
