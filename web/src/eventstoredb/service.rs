//! Routes a call from its path to its function.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use chronova_events::envelope::Revision;
use chronova_events::store::Appended;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use prost::Message as _;
use tonic::body::BoxBody;
use tonic::codegen::{Body, StdError, http};
use tonic::{Code, Response, Status, Streaming};

use super::access::LogUser;
use super::append::{self, AppendRefusal, MAX_EVENTS};
use super::call::{GrpcHandler, grpc};
use super::persistent::{self, PersistentGroups};
use super::read::{self, ReadResponses};
use super::served::ServedLog;
use super::wire::{
    self, AppendContent, AppendPosition, AppendReq, AppendResp, AppendResult, AppendSuccess, BatchAppendReq,
    BatchAppendResp, BatchExpected, BatchResult, CurrentRevision, Empty, ExpectedRevision, ProposedMessage, ReadReq,
};
use super::{show, status};

/// The version of EventStoreDB that this protocol corresponds to. Clients query it first.
const SPOKEN_VERSION: &str = "23.10.0-chronova";

/// The delay after a wrong credential, so that guessing is slow.
const GUESS: Duration = Duration::from_millis(250);

const STREAMS: &str = "/event_store.client.streams.Streams/";
const PERSISTENT: &str = "/event_store.client.persistent_subscriptions.PersistentSubscriptions/";

/// Answers one call that came in on `local`.
pub(super) async fn answer<B>(
    groups: Arc<PersistentGroups>,
    local: SocketAddr,
    request: http::Request<B>,
) -> http::Response<BoxBody>
where
    B: Body + Send + 'static,
    B::Error: Into<StdError> + Send,
{
    let path = request.uri().path().to_owned();
    let log = Arc::clone(groups.log());
    let limit = log.max_append_bytes;
    // Clients send this call before they send a credential. The answer may be given to anybody, because it does not
    // depend on the log.
    if path == "/event_store.client.server_features.ServerFeatures/GetSupportedMethods" {
        return grpc(limit).unary(GrpcHandler(|_: Empty| async { Ok(Response::new(supported())) }), request).await;
    }
    let Some(user) = user_of(&log, &request) else {
        tokio::time::sleep(GUESS).await;
        return Status::unauthenticated("the request needs a name and a password, or a bearer token").into_http();
    };
    tracing::debug!(target: "chronova_web::access", path, user = user.name, "called");
    if let Some(method) = path.strip_prefix(PERSISTENT) {
        return Box::pin(persistent_call(groups, method, user, request)).await;
    }
    match path.strip_prefix(STREAMS) {
        Some("Read") => {
            let call = GrpcHandler(move |request: ReadReq| {
                let (log, user) = (Arc::clone(&log), user.clone());
                async move {
                    Ok::<Response<ReadResponses>, Status>(Response::new(read::read(log, &user, request.options).await?))
                }
            });
            grpc(limit).server_streaming(call, request).await
        }
        Some("Append") => {
            let call =
                GrpcHandler(move |requests: Streaming<AppendReq>| append(Arc::clone(&log), user.clone(), requests));
            grpc(limit).client_streaming(call, request).await
        }
        Some("BatchAppend") => {
            let call = GrpcHandler(move |requests: Streaming<BatchAppendReq>| {
                let answers = batches(Arc::clone(&log), user.clone(), requests);
                async move { Ok::<_, Status>(Response::new(answers)) }
            });
            grpc(limit).streaming(call, request).await
        }
        Some("Delete" | "Tombstone") => {
            Status::failed_precondition("streams of this log cannot be deleted").into_http()
        }
        _ if path == "/event_store.client.gossip.Gossip/Read" => {
            let call = GrpcHandler(move |_: Empty| {
                let members = cluster(&log, local);
                async move { Ok(Response::new(members)) }
            });
            grpc(limit).unary(call, request).await
        }
        _ => Status::unimplemented(format!("{path} is not supported")).into_http(),
    }
}

/// Answers a call of persistent subscriptions.
async fn persistent_call<B>(
    groups: Arc<PersistentGroups>,
    method: &str,
    user: LogUser,
    request: http::Request<B>,
) -> http::Response<BoxBody>
where
    B: Body + Send + 'static,
    B::Error: Into<StdError> + Send,
{
    let limit = groups.log().max_append_bytes;
    match method {
        "Create" => {
            let call = GrpcHandler(move |message| persistent::create(Arc::clone(&groups), user.clone(), message));
            grpc(limit).unary(call, request).await
        }
        "Update" => {
            let call = GrpcHandler(move |message| persistent::update(Arc::clone(&groups), user.clone(), message));
            grpc(limit).unary(call, request).await
        }
        "Delete" => {
            let call = GrpcHandler(move |message| persistent::delete(Arc::clone(&groups), user.clone(), message));
            grpc(limit).unary(call, request).await
        }
        "GetInfo" => {
            let call = GrpcHandler(move |message| persistent::info(Arc::clone(&groups), message));
            grpc(limit).unary(call, request).await
        }
        "List" => {
            let call = GrpcHandler(move |message| persistent::list(Arc::clone(&groups), message));
            grpc(limit).unary(call, request).await
        }
        "ReplayParked" => {
            let call = GrpcHandler(move |message| persistent::replay(Arc::clone(&groups), user.clone(), message));
            grpc(limit).unary(call, request).await
        }
        "Read" => {
            let call = GrpcHandler(move |messages| persistent::read(Arc::clone(&groups), user.clone(), messages));
            grpc(limit).streaming(call, request).await
        }
        _ => Status::unimplemented(format!("{PERSISTENT}{method} is not supported")).into_http(),
    }
}

fn user_of<B>(log: &ServedLog, request: &http::Request<B>) -> Option<LogUser> {
    let header = request.headers().get(http::header::AUTHORIZATION)?.to_str().ok()?;
    log.users.admit(header).cloned()
}

/// The features that clients may query; in lower case, as in EventStoreDB.
fn supported() -> wire::SupportedMethods {
    const TO_ALL: &[&str] = &["stream", "all"];
    let streams = "event_store.client.streams.streams";
    let persistent = "event_store.client.persistent_subscriptions.persistentsubscriptions";
    let methods: [(&str, &str, &[&str]); 11] = [
        ("read", streams, &[]),
        ("append", streams, &[]),
        ("batchappend", streams, &[]),
        ("read", "event_store.client.gossip.gossip", &[]),
        ("create", persistent, TO_ALL),
        ("update", persistent, TO_ALL),
        ("delete", persistent, TO_ALL),
        ("read", persistent, TO_ALL),
        ("getinfo", persistent, TO_ALL),
        ("list", persistent, TO_ALL),
        ("replayparked", persistent, TO_ALL),
    ];
    let method = |(method, service, features): (&str, &str, &[&str])| wire::SupportedMethod {
        method_name: method.to_owned(),
        service_name: service.to_owned(),
        features: features.iter().map(|feature| (*feature).to_owned()).collect(),
    };
    wire::SupportedMethods {
        methods: methods.into_iter().map(method).collect(),
        event_store_server_version: SPOKEN_VERSION.to_owned(),
    }
}

/// Describes a cluster with one member, at the address to which the client is connected.
fn cluster(log: &ServedLog, local: SocketAddr) -> wire::ClusterInfo {
    let member = wire::MemberInfo {
        instance_id: Some(show::uuid(uuid::Uuid::nil(), false)),
        time_stamp: log.clock.now().0.saturating_mul(10),
        state: wire::LEADER,
        is_alive: true,
        http_end_point: Some(wire::EndPoint { address: local.ip().to_string(), port: u32::from(local.port()) }),
    };
    wire::ClusterInfo { members: vec![member] }
}

// ---------------------------------------------------------------------------------------------------------- appending

async fn append(
    log: Arc<ServedLog>,
    user: LogUser,
    mut requests: Streaming<AppendReq>,
) -> Result<Response<AppendResp>, Status> {
    let incomplete = || Status::invalid_argument("an append must begin with its options");
    let Some(AppendContent::Options(options)) = requests.message().await?.and_then(|request| request.content) else {
        return Err(incomplete());
    };
    let expected = options.expected.ok_or_else(incomplete)?;
    let name = append::stream_name(options.stream_identifier)?;
    let (mut proposed, mut size) = (Vec::new(), 0);
    while let Some(request) = requests.message().await? {
        if let Some(AppendContent::Proposed(message)) = request.content {
            size += message.data.len() + message.custom_metadata.len();
            if size > log.max_append_bytes || proposed.len() >= MAX_EVENTS {
                return Err(too_large(&log));
            }
            proposed.push(message);
        }
    }
    let result = match append::append(&log, &user, name, &expected, proposed).await {
        Ok(appended) => AppendResult::Success(success(appended)),
        Err(AppendRefusal::WrongVersion(actual)) => {
            AppendResult::WrongExpectedVersion(wrong_version(&expected, actual))
        }
        Err(AppendRefusal::TooLarge(_)) => return Err(too_large(&log)),
        Err(AppendRefusal::Status(status)) => return Err(status),
    };
    Ok(Response::new(AppendResp { result: Some(result) }))
}

fn too_large(log: &ServedLog) -> Status {
    let mut status = Status::invalid_argument(format!(
        "an append may have at most {} bytes and {MAX_EVENTS} events",
        log.max_append_bytes
    ));
    // EventStoreDB's clients recognize this refusal by this header.
    let value = tonic::metadata::MetadataValue::from_static("maximum-append-size-exceeded");
    status.metadata_mut().insert("exception", value);
    status
}

fn success(appended: Appended) -> AppendSuccess {
    // An empty append to a missing stream creates no stream.
    let current = match appended.revision.0.checked_sub(1) {
        Some(revision) => CurrentRevision::Revision(revision),
        None => CurrentRevision::NoStream(Empty {}),
    };
    let position = AppendPosition::Position(show::position(appended.position));
    AppendSuccess { current: Some(current), position: Some(position) }
}

fn wrong_version(expected: &ExpectedRevision, actual: Revision) -> wire::WrongExpectedVersion {
    let current = match actual.0.checked_sub(1) {
        Some(revision) => wire::WrongCurrent::Revision(revision),
        None => wire::WrongCurrent::NoStream(Empty {}),
    };
    let expected = match expected {
        ExpectedRevision::Revision(revision) => wire::WrongExpected::Revision(*revision),
        ExpectedRevision::NoStream(_) => wire::WrongExpected::NoStream(Empty {}),
        ExpectedRevision::Any(_) => wire::WrongExpected::Any(Empty {}),
        ExpectedRevision::StreamExists(_) => wire::WrongExpected::StreamExists(Empty {}),
    };
    wire::WrongExpectedVersion { current: Some(current), expected: Some(expected) }
}

type BatchAnswers = BoxStream<'static, Result<BatchAppendResp, Status>>;

/// Appends that are not complete yet, by their correlation.
type Unfinished = BTreeMap<uuid::Uuid, (wire::AppendOptions, Vec<ProposedMessage>)>;

/// The most incomplete appends of one call at the same time.
const MAX_UNFINISHED: usize = 16;

fn batches(log: Arc<ServedLog>, user: LogUser, requests: Streaming<BatchAppendReq>) -> BatchAnswers {
    let state = (log, user, requests, Unfinished::new());
    stream::try_unfold(state, |(log, user, mut requests, mut unfinished)| async move {
        let mut ending = log.ending();
        loop {
            let request = tokio::select! {
                request = requests.message() => request?,
                () = ending.wait() => return Err(status::ending()),
            };
            let Some(request) = request else { return Ok(None) };
            if let Some(answer) = batch(&log, &user, request, &mut unfinished).await? {
                return Ok(Some((answer, (log, user, requests, unfinished))));
            }
        }
    })
    .boxed()
}

/// Receives one part of an append. Returns an answer when the append is complete.
async fn batch(
    log: &ServedLog,
    user: &LogUser,
    request: BatchAppendReq,
    unfinished: &mut Unfinished,
) -> Result<Option<BatchAppendResp>, Status> {
    let correlation = append::uuid_of(request.correlation_id.clone())
        .ok_or_else(|| Status::invalid_argument("an append must have a correlation id"))?;
    if let Some(options) = request.options {
        unfinished.insert(correlation, (options, Vec::new()));
    }
    let Some((_, proposed)) = unfinished.get_mut(&correlation) else {
        return Err(Status::invalid_argument("an append must begin with its options"));
    };
    proposed.extend(request.proposed_messages);
    let size: usize = unfinished.values().flat_map(|(_, part)| part).map(ProposedMessage::encoded_len).sum();
    if unfinished.len() > MAX_UNFINISHED || size > 2 * log.max_append_bytes {
        return Err(too_large(log));
    }
    if !request.is_final {
        return Ok(None);
    }
    let Some((options, proposed)) = unfinished.remove(&correlation) else { return Ok(None) };
    let expected = options.expected.clone().unwrap_or(ExpectedRevision::Any(Empty {}));
    let done = match append::stream_name(options.stream_identifier.clone()) {
        Ok(name) => append::append(log, user, name, &expected, proposed).await,
        Err(status) => Err(AppendRefusal::Status(status)),
    };
    let result = match done {
        Ok(appended) => BatchResult::Success(success(appended)),
        Err(refusal) => BatchResult::Error(detailed(&expected, &refusal)),
    };
    Ok(Some(BatchAppendResp {
        correlation_id: request.correlation_id,
        result: Some(result),
        stream_identifier: options.stream_identifier,
        expected: Some(match expected {
            ExpectedRevision::Revision(revision) => BatchExpected::Revision(revision),
            ExpectedRevision::NoStream(_) => BatchExpected::NoStream(Empty {}),
            ExpectedRevision::Any(_) => BatchExpected::Any(Empty {}),
            ExpectedRevision::StreamExists(_) => BatchExpected::StreamExists(Empty {}),
        }),
    }))
}

/// A refusal with the detail by which clients recognize it.
fn detailed(expected: &ExpectedRevision, refusal: &AppendRefusal) -> wire::RpcStatus {
    let any = |name: &str, value: Vec<u8>| wire::Any {
        type_url: format!("type.googleapis.com/event_store.client.{name}"),
        value,
    };
    let (code, message, details) = match refusal {
        AppendRefusal::WrongVersion(actual) => {
            let detail = wire::WrongVersionDetail {
                current: Some(match actual.0.checked_sub(1) {
                    Some(revision) => wire::DetailCurrent::Revision(revision),
                    None => wire::DetailCurrent::NoStream(Empty {}),
                }),
                expected: Some(match expected {
                    ExpectedRevision::Revision(revision) => wire::DetailExpected::Revision(*revision),
                    ExpectedRevision::NoStream(_) => wire::DetailExpected::NoStream(Empty {}),
                    ExpectedRevision::Any(_) => wire::DetailExpected::Any(Empty {}),
                    ExpectedRevision::StreamExists(_) => wire::DetailExpected::StreamExists(Empty {}),
                }),
            };
            let message = "wrong expected version".to_owned();
            (Code::FailedPrecondition, message, any("WrongExpectedVersion", detail.encode_to_vec()))
        }
        AppendRefusal::TooLarge(limit) => {
            let detail = wire::TooLargeDetail { max_append_size: u32::try_from(*limit).unwrap_or(u32::MAX) };
            let message = format!("an append may have at most {limit} bytes");
            (Code::InvalidArgument, message, any("MaximumAppendSizeExceeded", detail.encode_to_vec()))
        }
        AppendRefusal::Status(status) if status.code() == Code::PermissionDenied => {
            (status.code(), status.message().to_owned(), any("AccessDenied", Vec::new()))
        }
        AppendRefusal::Status(status) => {
            let detail = wire::BadRequestDetail { message: status.message().to_owned() };
            (status.code(), status.message().to_owned(), any("BadRequest", detail.encode_to_vec()))
        }
    };
    wire::RpcStatus { code: code as i32, message, details: Some(details) }
}
