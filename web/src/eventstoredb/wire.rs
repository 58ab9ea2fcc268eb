//! The messages of EventStoreDB's protocol that this server supports.
//!
//! Written by hand from the protocol's published field numbers. A generator for `.proto` files would be one more
//! program to install for these few messages. Most fields that the server never reads are left out, because protobuf
//! skips unknown fields.

/// Declares messages. Plain fields have the protocol's names; some `oneof`s have other names.
macro_rules! messages {
    ($( $(#[$doc:meta])* $name:ident { $( $(#[$field_meta:meta])* $field:ident : $ty:ty ),* $(,)? } )+) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, ::prost::Message)]
        pub(in crate::eventstoredb) struct $name {
            $( $(#[$field_meta])* pub(in crate::eventstoredb) $field: $ty, )*
        }
    )+};
}

/// Declares a `oneof`.
macro_rules! choices {
    ($( $(#[$doc:meta])* $name:ident { $( $(#[$variant_meta:meta])* $variant:ident($ty:ty) ),+ $(,)? } )+) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, ::prost::Oneof)]
        pub(in crate::eventstoredb) enum $name { $( $(#[$variant_meta])* $variant($ty), )+ }
    )+};
}

pub(super) use {choices, messages};

// ---------------------------------------------------------------------------------------- event_store.client (shared)

messages! {
    Empty {}
    Uuid {
        #[prost(oneof = "UuidValue", tags = "1, 2")]
        value: Option<UuidValue>,
    }
    StructuredUuid {
        #[prost(int64, tag = "1")]
        most_significant_bits: i64,
        #[prost(int64, tag = "2")]
        least_significant_bits: i64,
    }
    StreamIdentifier {
        #[prost(bytes = "bytes", tag = "3")]
        stream_name: bytes::Bytes,
    }
    /// `AllStreamPosition`, and every other message of a position, because all have the same fields.
    Position {
        #[prost(uint64, tag = "1")]
        commit_position: u64,
        #[prost(uint64, tag = "2")]
        prepare_position: u64,
    }
    /// `google.protobuf.Timestamp`
    Timestamp {
        #[prost(int64, tag = "1")]
        seconds: i64,
        #[prost(int32, tag = "2")]
        nanos: i32,
    }
    /// `google.protobuf.Any`
    Any {
        #[prost(string, tag = "1")]
        type_url: String,
        #[prost(bytes = "vec", tag = "2")]
        value: Vec<u8>,
    }
    /// `google.rpc.Status`
    RpcStatus {
        #[prost(int32, tag = "1")]
        code: i32,
        #[prost(string, tag = "2")]
        message: String,
        #[prost(message, optional, tag = "3")]
        details: Option<Any>,
    }
    /// `event_store.client.WrongExpectedVersion`, the detail of a batch append's error
    WrongVersionDetail {
        #[prost(oneof = "DetailCurrent", tags = "1, 2")]
        current: Option<DetailCurrent>,
        #[prost(oneof = "DetailExpected", tags = "3, 4, 5, 6")]
        expected: Option<DetailExpected>,
    }
    /// `event_store.client.BadRequest`
    BadRequestDetail {
        #[prost(string, tag = "1")]
        message: String,
    }
    /// `event_store.client.MaximumAppendSizeExceeded`
    TooLargeDetail {
        #[prost(uint32, tag = "1")]
        max_append_size: u32,
    }
}

choices! {
    UuidValue {
        #[prost(message, tag = "1")]
        Structured(StructuredUuid),
        #[prost(string, tag = "2")]
        Text(String),
    }
    DetailCurrent {
        #[prost(uint64, tag = "1")]
        Revision(u64),
        #[prost(message, tag = "2")]
        NoStream(Empty),
    }
    DetailExpected {
        #[prost(uint64, tag = "3")]
        Revision(u64),
        #[prost(message, tag = "4")]
        Any(Empty),
        #[prost(message, tag = "5")]
        StreamExists(Empty),
        #[prost(message, tag = "6")]
        NoStream(Empty),
    }
}

// --------------------------------------------------------------------------- event_store.client.streams.Streams: Read

messages! {
    ReadReq {
        #[prost(message, optional, tag = "1")]
        options: Option<ReadOptions>,
    }
    ReadOptions {
        #[prost(oneof = "ReadFrom", tags = "1, 2")]
        from: Option<ReadFrom>,
        #[prost(int32, tag = "3")]
        read_direction: i32,
        #[prost(bool, tag = "4")]
        resolve_links: bool,
        #[prost(oneof = "ReadCount", tags = "5, 6")]
        count: Option<ReadCount>,
        #[prost(oneof = "ReadFilter", tags = "7, 8")]
        filter: Option<ReadFilter>,
        #[prost(message, optional, tag = "9")]
        uuid_option: Option<UuidOption>,
    }
    StreamOptions {
        #[prost(message, optional, tag = "1")]
        stream_identifier: Option<StreamIdentifier>,
        #[prost(oneof = "RevisionOption", tags = "2, 3, 4")]
        revision: Option<RevisionOption>,
    }
    AllOptions {
        #[prost(oneof = "AllOption", tags = "1, 2, 3")]
        position: Option<AllOption>,
    }
    FilterOptions {
        #[prost(oneof = "FilterSubject", tags = "1, 2")]
        subject: Option<FilterSubject>,
        #[prost(oneof = "FilterWindow", tags = "3, 4")]
        window: Option<FilterWindow>,
        #[prost(uint32, tag = "5")]
        checkpoint_interval_multiplier: u32,
    }
    FilterExpression {
        #[prost(string, tag = "1")]
        regex: String,
        #[prost(string, repeated, tag = "2")]
        prefix: Vec<String>,
    }
    UuidOption {
        #[prost(oneof = "UuidForm", tags = "1, 2")]
        form: Option<UuidForm>,
    }
}

choices! {
    ReadFrom {
        #[prost(message, tag = "1")]
        Stream(StreamOptions),
        #[prost(message, tag = "2")]
        All(AllOptions),
    }
    ReadCount {
        #[prost(uint64, tag = "5")]
        Count(u64),
        #[prost(message, tag = "6")]
        Subscription(Empty),
    }
    ReadFilter {
        #[prost(message, tag = "7")]
        Filter(FilterOptions),
        #[prost(message, tag = "8")]
        None(Empty),
    }
    RevisionOption {
        #[prost(uint64, tag = "2")]
        Revision(u64),
        #[prost(message, tag = "3")]
        Start(Empty),
        #[prost(message, tag = "4")]
        End(Empty),
    }
    AllOption {
        #[prost(message, tag = "1")]
        Position(Position),
        #[prost(message, tag = "2")]
        Start(Empty),
        #[prost(message, tag = "3")]
        End(Empty),
    }
    FilterSubject {
        #[prost(message, tag = "1")]
        Stream(FilterExpression),
        #[prost(message, tag = "2")]
        EventType(FilterExpression),
    }
    FilterWindow {
        #[prost(uint32, tag = "3")]
        Max(u32),
        #[prost(message, tag = "4")]
        Count(Empty),
    }
    UuidForm {
        #[prost(message, tag = "1")]
        Structured(Empty),
        #[prost(message, tag = "2")]
        Text(Empty),
    }
}

/// The value of `ReadOptions::read_direction` for backwards.
pub(super) const BACKWARDS: i32 = 1;

messages! {
    ReadResp {
        #[prost(oneof = "ReadContent", tags = "1, 2, 3, 4, 8, 9")]
        content: Option<ReadContent>,
    }
    ReadEvent {
        #[prost(message, optional, tag = "1")]
        event: Option<RecordedEvent>,
        #[prost(message, optional, tag = "2")]
        link: Option<RecordedEvent>,
        #[prost(oneof = "EventPosition", tags = "3, 4")]
        position: Option<EventPosition>,
    }
    RecordedEvent {
        #[prost(message, optional, tag = "1")]
        id: Option<Uuid>,
        #[prost(message, optional, tag = "2")]
        stream_identifier: Option<StreamIdentifier>,
        #[prost(uint64, tag = "3")]
        stream_revision: u64,
        #[prost(uint64, tag = "4")]
        prepare_position: u64,
        #[prost(uint64, tag = "5")]
        commit_position: u64,
        #[prost(btree_map = "string, string", tag = "6")]
        metadata: std::collections::BTreeMap<String, String>,
        #[prost(bytes = "bytes", tag = "7")]
        custom_metadata: bytes::Bytes,
        #[prost(bytes = "bytes", tag = "8")]
        data: bytes::Bytes,
    }
    SubscriptionConfirmation {
        #[prost(string, tag = "1")]
        subscription_id: String,
    }
    Checkpoint {
        #[prost(uint64, tag = "1")]
        commit_position: u64,
        #[prost(uint64, tag = "2")]
        prepare_position: u64,
    }
    StreamNotFound {
        #[prost(message, optional, tag = "1")]
        stream_identifier: Option<StreamIdentifier>,
    }
    /// `CaughtUp` and `FellBehind`, which have the same fields.
    Standing {
        #[prost(message, optional, tag = "1")]
        timestamp: Option<Timestamp>,
        #[prost(uint64, optional, tag = "2")]
        stream_revision: Option<u64>,
        #[prost(message, optional, tag = "3")]
        position: Option<Position>,
    }
}

choices! {
    ReadContent {
        #[prost(message, tag = "1")]
        Event(ReadEvent),
        #[prost(message, tag = "2")]
        Confirmation(SubscriptionConfirmation),
        #[prost(message, tag = "3")]
        Checkpoint(Checkpoint),
        #[prost(message, tag = "4")]
        StreamNotFound(StreamNotFound),
        #[prost(message, tag = "8")]
        CaughtUp(Standing),
        #[prost(message, tag = "9")]
        FellBehind(Standing),
    }
    EventPosition {
        #[prost(uint64, tag = "3")]
        Commit(u64),
        #[prost(message, tag = "4")]
        None(Empty),
    }
}

// ------------------------------------------------------------------------------------- Streams: Append and BatchAppend

messages! {
    AppendReq {
        #[prost(oneof = "AppendContent", tags = "1, 2")]
        content: Option<AppendContent>,
    }
    AppendOptions {
        #[prost(message, optional, tag = "1")]
        stream_identifier: Option<StreamIdentifier>,
        #[prost(oneof = "ExpectedRevision", tags = "2, 3, 4, 5")]
        expected: Option<ExpectedRevision>,
    }
    ProposedMessage {
        #[prost(message, optional, tag = "1")]
        id: Option<Uuid>,
        #[prost(btree_map = "string, string", tag = "2")]
        metadata: std::collections::BTreeMap<String, String>,
        #[prost(bytes = "bytes", tag = "3")]
        custom_metadata: bytes::Bytes,
        #[prost(bytes = "bytes", tag = "4")]
        data: bytes::Bytes,
    }
    AppendResp {
        #[prost(oneof = "AppendResult", tags = "1, 2")]
        result: Option<AppendResult>,
    }
    /// `AppendResp.Success` and `BatchAppendResp.Success`, which have the same fields.
    AppendSuccess {
        #[prost(oneof = "CurrentRevision", tags = "1, 2")]
        current: Option<CurrentRevision>,
        #[prost(oneof = "AppendPosition", tags = "3, 4")]
        position: Option<AppendPosition>,
    }
    WrongExpectedVersion {
        #[prost(oneof = "WrongCurrent", tags = "6, 7")]
        current: Option<WrongCurrent>,
        #[prost(oneof = "WrongExpected", tags = "8, 9, 10, 11")]
        expected: Option<WrongExpected>,
    }
    BatchAppendReq {
        #[prost(message, optional, tag = "1")]
        correlation_id: Option<Uuid>,
        #[prost(message, optional, tag = "2")]
        options: Option<AppendOptions>,
        #[prost(message, repeated, tag = "3")]
        proposed_messages: Vec<ProposedMessage>,
        #[prost(bool, tag = "4")]
        is_final: bool,
    }
    BatchAppendResp {
        #[prost(message, optional, tag = "1")]
        correlation_id: Option<Uuid>,
        #[prost(oneof = "BatchResult", tags = "2, 3")]
        result: Option<BatchResult>,
        #[prost(message, optional, tag = "4")]
        stream_identifier: Option<StreamIdentifier>,
        #[prost(oneof = "BatchExpected", tags = "5, 6, 7, 8")]
        expected: Option<BatchExpected>,
    }
}

choices! {
    AppendContent {
        #[prost(message, tag = "1")]
        Options(AppendOptions),
        #[prost(message, tag = "2")]
        Proposed(ProposedMessage),
    }
    ExpectedRevision {
        #[prost(uint64, tag = "2")]
        Revision(u64),
        #[prost(message, tag = "3")]
        NoStream(Empty),
        #[prost(message, tag = "4")]
        Any(Empty),
        #[prost(message, tag = "5")]
        StreamExists(Empty),
    }
    AppendResult {
        #[prost(message, tag = "1")]
        Success(AppendSuccess),
        #[prost(message, tag = "2")]
        WrongExpectedVersion(WrongExpectedVersion),
    }
    CurrentRevision {
        #[prost(uint64, tag = "1")]
        Revision(u64),
        #[prost(message, tag = "2")]
        NoStream(Empty),
    }
    AppendPosition {
        #[prost(message, tag = "3")]
        Position(Position),
        #[prost(message, tag = "4")]
        None(Empty),
    }
    WrongCurrent {
        #[prost(uint64, tag = "6")]
        Revision(u64),
        #[prost(message, tag = "7")]
        NoStream(Empty),
    }
    WrongExpected {
        #[prost(uint64, tag = "8")]
        Revision(u64),
        #[prost(message, tag = "9")]
        Any(Empty),
        #[prost(message, tag = "10")]
        StreamExists(Empty),
        #[prost(message, tag = "11")]
        NoStream(Empty),
    }
    BatchResult {
        #[prost(message, tag = "2")]
        Error(RpcStatus),
        #[prost(message, tag = "3")]
        Success(AppendSuccess),
    }
    BatchExpected {
        #[prost(uint64, tag = "5")]
        Revision(u64),
        #[prost(message, tag = "6")]
        NoStream(Empty),
        #[prost(message, tag = "7")]
        Any(Empty),
        #[prost(message, tag = "8")]
        StreamExists(Empty),
    }
}

// ----------------------------------------------------------------------------------------- Gossip and ServerFeatures

messages! {
    ClusterInfo {
        #[prost(message, repeated, tag = "1")]
        members: Vec<MemberInfo>,
    }
    MemberInfo {
        #[prost(message, optional, tag = "1")]
        instance_id: Option<Uuid>,
        #[prost(int64, tag = "2")]
        time_stamp: i64,
        #[prost(int32, tag = "3")]
        state: i32,
        #[prost(bool, tag = "4")]
        is_alive: bool,
        #[prost(message, optional, tag = "5")]
        http_end_point: Option<EndPoint>,
    }
    EndPoint {
        #[prost(string, tag = "1")]
        address: String,
        #[prost(uint32, tag = "2")]
        port: u32,
    }
    SupportedMethods {
        #[prost(message, repeated, tag = "1")]
        methods: Vec<SupportedMethod>,
        #[prost(string, tag = "2")]
        event_store_server_version: String,
    }
    SupportedMethod {
        #[prost(string, tag = "1")]
        method_name: String,
        #[prost(string, tag = "2")]
        service_name: String,
        #[prost(string, repeated, tag = "3")]
        features: Vec<String>,
    }
}

/// `MemberInfo::state` of a node that takes appends.
pub(super) const LEADER: i32 = 8;
