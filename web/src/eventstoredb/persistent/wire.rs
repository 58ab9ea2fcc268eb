//! The messages of persistent subscriptions: `event_store.client.persistent_subscriptions.PersistentSubscriptions`.

use super::super::wire::{
    AllOption, Empty, EventPosition, FilterOptions, RecordedEvent, RevisionOption, StreamIdentifier,
    SubscriptionConfirmation, Uuid, UuidOption, choices, messages,
};

// -------------------------------------------------------------------------------------------- Create, Update, Delete

messages! {
    /// `CreateReq` and `UpdateReq`.
    CreateGroupReq {
        #[prost(message, optional, tag = "1")]
        options: Option<GroupOptions>,
    }
    /// The options of `CreateReq` and of `UpdateReq`. Their fields are the same, except that only `CreateReq` has a
    /// filter.
    GroupOptions {
        #[prost(oneof = "GroupStart", tags = "4, 5")]
        start: Option<GroupStart>,
        #[prost(string, tag = "2")]
        group_name: String,
        #[prost(message, optional, tag = "3")]
        settings: Option<SettingsMessage>,
    }
    StreamStart {
        #[prost(message, optional, tag = "1")]
        stream_identifier: Option<StreamIdentifier>,
        #[prost(oneof = "RevisionOption", tags = "2, 3, 4")]
        revision: Option<RevisionOption>,
    }
    AllStart {
        #[prost(oneof = "AllOption", tags = "1, 2, 3")]
        position: Option<AllOption>,
        #[prost(oneof = "GroupFilter", tags = "4, 5")]
        filter: Option<GroupFilter>,
    }
    SettingsMessage {
        #[prost(bool, tag = "1")]
        resolve_links: bool,
        #[prost(bool, tag = "3")]
        extra_statistics: bool,
        #[prost(int32, tag = "5")]
        max_retry_count: i32,
        #[prost(int32, tag = "7")]
        min_checkpoint_count: i32,
        #[prost(int32, tag = "8")]
        max_checkpoint_count: i32,
        #[prost(int32, tag = "9")]
        max_subscriber_count: i32,
        #[prost(int32, tag = "10")]
        live_buffer_size: i32,
        #[prost(int32, tag = "11")]
        read_batch_size: i32,
        #[prost(int32, tag = "12")]
        history_buffer_size: i32,
        /// The number of the strategy, from clients that do not send the strategy's name.
        #[prost(int32, tag = "13")]
        named_consumer_strategy: i32,
        #[prost(oneof = "MessageTimeout", tags = "4, 14")]
        message_timeout: Option<MessageTimeout>,
        #[prost(oneof = "CheckpointAfter", tags = "6, 15")]
        checkpoint_after: Option<CheckpointAfter>,
        #[prost(string, tag = "16")]
        consumer_strategy: String,
    }
    DeleteGroupReq {
        #[prost(message, optional, tag = "1")]
        options: Option<DeleteGroupOptions>,
    }
    DeleteGroupOptions {
        #[prost(oneof = "DeletedSource", tags = "1, 3")]
        source: Option<DeletedSource>,
        #[prost(string, tag = "2")]
        group_name: String,
    }
}

choices! {
    GroupStart {
        #[prost(message, tag = "4")]
        Stream(StreamStart),
        #[prost(message, tag = "5")]
        All(AllStart),
    }
    GroupFilter {
        #[prost(message, tag = "4")]
        Filter(FilterOptions),
        #[prost(message, tag = "5")]
        None(Empty),
    }
    /// Ticks have 100 nanoseconds.
    MessageTimeout {
        #[prost(int64, tag = "4")]
        Ticks(i64),
        #[prost(int32, tag = "14")]
        Milliseconds(i32),
    }
    CheckpointAfter {
        #[prost(int64, tag = "6")]
        Ticks(i64),
        #[prost(int32, tag = "15")]
        Milliseconds(i32),
    }
    DeletedSource {
        #[prost(message, tag = "1")]
        Stream(StreamIdentifier),
        #[prost(message, tag = "3")]
        All(Empty),
    }
}

// -------------------------------------------------------------------------------------------------------------- Read

messages! {
    GroupReadReq {
        #[prost(oneof = "GroupReadContent", tags = "1, 2, 3")]
        content: Option<GroupReadContent>,
    }
    GroupReadOptions {
        #[prost(oneof = "ReadSource", tags = "1, 5")]
        source: Option<ReadSource>,
        #[prost(string, tag = "2")]
        group_name: String,
        #[prost(int32, tag = "3")]
        buffer_size: i32,
        #[prost(message, optional, tag = "4")]
        uuid_option: Option<UuidOption>,
    }
    Acknowledged {
        #[prost(message, repeated, tag = "2")]
        ids: Vec<Uuid>,
    }
    Rejected {
        #[prost(message, repeated, tag = "2")]
        ids: Vec<Uuid>,
        #[prost(int32, tag = "3")]
        action: i32,
        #[prost(string, tag = "4")]
        reason: String,
    }
    GroupReadResp {
        #[prost(oneof = "GroupAnswer", tags = "1, 2")]
        content: Option<GroupAnswer>,
    }
    GroupEvent {
        #[prost(message, optional, tag = "1")]
        event: Option<RecordedEvent>,
        #[prost(message, optional, tag = "2")]
        link: Option<RecordedEvent>,
        #[prost(oneof = "EventPosition", tags = "3, 4")]
        position: Option<EventPosition>,
        #[prost(oneof = "RetryCount", tags = "5, 6")]
        retries: Option<RetryCount>,
    }
}

choices! {
    GroupReadContent {
        #[prost(message, tag = "1")]
        Options(GroupReadOptions),
        #[prost(message, tag = "2")]
        Ack(Acknowledged),
        #[prost(message, tag = "3")]
        Nack(Rejected),
    }
    ReadSource {
        #[prost(message, tag = "1")]
        Stream(StreamIdentifier),
        #[prost(message, tag = "5")]
        All(Empty),
    }
    GroupAnswer {
        #[prost(message, tag = "1")]
        Event(GroupEvent),
        #[prost(message, tag = "2")]
        Confirmation(SubscriptionConfirmation),
    }
    RetryCount {
        #[prost(int32, tag = "5")]
        Count(i32),
        #[prost(message, tag = "6")]
        None(Empty),
    }
}

/// The values of `Rejected::action`. Every other value means that the event is sent again.
pub(super) const PARK: i32 = 1;
pub(super) const SKIP: i32 = 3;
pub(super) const STOP: i32 = 4;

// --------------------------------------------------------------------------------------- GetInfo, List, ReplayParked

messages! {
    GroupInfoReq {
        #[prost(message, optional, tag = "1")]
        options: Option<GroupInfoOptions>,
    }
    GroupInfoOptions {
        #[prost(oneof = "InfoSource", tags = "1, 2")]
        source: Option<InfoSource>,
        #[prost(string, tag = "3")]
        group_name: String,
    }
    GroupInfoResp {
        #[prost(message, optional, tag = "1")]
        subscription_info: Option<GroupInfo>,
    }
    /// Statistics per second are left out: this server does not measure them.
    GroupInfo {
        #[prost(string, tag = "1")]
        event_source: String,
        #[prost(string, tag = "2")]
        group_name: String,
        #[prost(string, tag = "3")]
        status: String,
        #[prost(message, repeated, tag = "4")]
        connections: Vec<GroupConnection>,
        #[prost(int64, tag = "6")]
        total_items: i64,
        #[prost(string, tag = "8")]
        last_checkpointed_event_position: String,
        #[prost(string, tag = "9")]
        last_known_event_position: String,
        #[prost(bool, tag = "10")]
        resolve_link_tos: bool,
        #[prost(string, tag = "11")]
        start_from: String,
        #[prost(int32, tag = "12")]
        message_timeout_milliseconds: i32,
        #[prost(bool, tag = "13")]
        extra_statistics: bool,
        #[prost(int32, tag = "14")]
        max_retry_count: i32,
        #[prost(int32, tag = "15")]
        live_buffer_size: i32,
        #[prost(int32, tag = "16")]
        buffer_size: i32,
        #[prost(int32, tag = "17")]
        read_batch_size: i32,
        #[prost(int32, tag = "18")]
        check_point_after_milliseconds: i32,
        #[prost(int32, tag = "19")]
        min_check_point_count: i32,
        #[prost(int32, tag = "20")]
        max_check_point_count: i32,
        #[prost(int32, tag = "21")]
        read_buffer_count: i32,
        #[prost(int32, tag = "24")]
        total_in_flight_messages: i32,
        #[prost(int32, tag = "25")]
        outstanding_messages_count: i32,
        #[prost(string, tag = "26")]
        named_consumer_strategy: String,
        #[prost(int32, tag = "27")]
        max_subscriber_count: i32,
        #[prost(int64, tag = "28")]
        parked_message_count: i64,
    }
    GroupConnection {
        #[prost(string, tag = "2")]
        username: String,
        #[prost(int64, tag = "4")]
        total_items: i64,
        #[prost(int32, tag = "7")]
        available_slots: i32,
        #[prost(int32, tag = "8")]
        in_flight_messages: i32,
    }
    ReplayParkedReq {
        #[prost(message, optional, tag = "1")]
        options: Option<ReplayParkedOptions>,
    }
    ReplayParkedOptions {
        #[prost(string, tag = "1")]
        group_name: String,
        #[prost(oneof = "ReplaySource", tags = "2, 3")]
        source: Option<ReplaySource>,
        #[prost(oneof = "ReplayLimit", tags = "4, 5")]
        end: Option<ReplayLimit>,
    }
    ListGroupsReq {
        #[prost(message, optional, tag = "1")]
        options: Option<ListGroupsOptions>,
    }
    ListGroupsOptions {
        #[prost(oneof = "ListedGroups", tags = "1, 2")]
        listed: Option<ListedGroups>,
    }
    /// The stream or log whose groups are listed.
    ListedSource {
        #[prost(oneof = "InfoSource", tags = "1, 2")]
        source: Option<InfoSource>,
    }
    ListGroupsResp {
        #[prost(message, repeated, tag = "1")]
        subscriptions: Vec<GroupInfo>,
    }
}

choices! {
    InfoSource {
        #[prost(message, tag = "1")]
        Stream(StreamIdentifier),
        #[prost(message, tag = "2")]
        All(Empty),
    }
    ReplaySource {
        #[prost(message, tag = "2")]
        Stream(StreamIdentifier),
        #[prost(message, tag = "3")]
        All(Empty),
    }
    ReplayLimit {
        #[prost(int64, tag = "4")]
        After(i64),
        #[prost(message, tag = "5")]
        NoLimit(Empty),
    }
    ListedGroups {
        #[prost(message, tag = "1")]
        All(Empty),
        #[prost(message, tag = "2")]
        Of(ListedSource),
    }
}
