//! Records of access to the APIs: refused requests, log-ins, tokens, console sessions, reads of secrets.
//!
//! Each user has a stream, and one more stream has the records without a known user. No fold and no read model reads
//! them: only auditors do. Each sort of record has a maximum rate. [`RecordsLeftOut`] counts the records beyond the
//! rates. The envelope of a failed log-in has the user that the client named, as in Keystone.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::envelope::{RequestSource, StreamId, Timestamp};
use crate::identity::IdentityScope;
use crate::ids::{ApplicationCredentialId, InstanceId, ProjectId, UserId};
use crate::registry::NounEvent as _;

noun! {
    /// Records of access to the APIs.
    AccessEvent = "access" {
        /// A request was refused, because of the policy, a resource of another project, a conflict or a full quota.
        RequestRefused = "request_refused" @ 1,
        /// A user logged in with a password, and got a token.
        LoggedIn = "logged_in" @ 1,
        /// A log-in failed.
        LoginFailed = "login_failed" @ 1,
        /// A user got a token for another token.
        TokenIssued = "token_issued" @ 1,
        /// A client was connected to the console of a server.
        ConsoleOpened = "console_opened" @ 1,
        /// A console was disconnected.
        ConsoleClosed = "console_closed" @ 1,
        /// A request read a secret.
        SecretRead = "secret_read" @ 1,
        /// Records beyond the rates were left out. The event has only their numbers.
        RecordsLeftOut = "records_left_out" @ 1,
        /// A program logged in with an application credential, and got a token.
        LoggedInWithCredential = "logged_in_with_credential" @ 1,
        /// A log-in with an application credential failed.
        CredentialLoginFailed = "credential_login_failed" @ 1,
    }
}

/// The client of a record. The fields are sealed if the record has a user.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AccessClient {
    /// The client's IP address. Behind a trusted proxy it is the address that the proxy names.
    pub address: Option<String>,
    /// The client program, as it names itself in the header `User-Agent`.
    pub agent: Option<String>,
}

impl AccessClient {
    pub fn of(source: Option<&RequestSource>) -> Self {
        let part = |choose: fn(&RequestSource) -> &Option<String>| source.and_then(|source| choose(source).clone());
        Self { address: part(|source| &source.address), agent: part(|source| &source.agent) }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestRefused {
    pub user: UserId,
    pub client: AccessClient,
    /// The API: `compute`, `network`, ...
    pub service: String,
    pub method: String,
    /// The operation: `servers.delete`. `none`: the request was refused before its operation was known.
    pub operation: String,
    /// The ids in the path, at most [`RequestRefused::MOST_IDS`].
    pub ids: Vec<Uuid>,
    /// The HTTP status.
    pub status: u16,
    /// The beginning of the message that the client got. It may repeat words of the request, so it is sealed.
    pub reason: String,
}

impl RequestRefused {
    pub const MOST_IDS: usize = 4;
    /// The most bytes of the reason.
    pub const LONGEST_REASON: usize = 200;
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoggedIn {
    pub client: AccessClient,
    pub token: TokenTerms,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TokenIssued {
    pub client: AccessClient,
    pub token: TokenTerms,
}

/// The terms of a token. The token itself is never recorded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TokenTerms {
    pub user: UserId,
    /// `None`: unscoped.
    pub scope: Option<IdentityScope>,
    /// The token's audit id. If the token was issued for another token, the audit id of the chain's first token
    /// follows.
    pub audit_ids: Vec<String>,
    pub expires_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoginFailed {
    /// The user that the log-in named. `None`: no user has this name. The name is not recorded, because people type
    /// passwords into this field.
    pub user: Option<UserId>,
    pub client: AccessClient,
    /// The HTTP status: 401 or 403. Older logs also have 429, after too many wrong passwords.
    pub status: u16,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoggedInWithCredential {
    pub client: AccessClient,
    pub token: TokenTerms,
    pub credential: ApplicationCredentialId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CredentialLoginFailed {
    /// The credential's user. `None`: there is no such credential.
    pub user: Option<UserId>,
    pub client: AccessClient,
    /// The HTTP status: 401 or 403.
    pub status: u16,
    /// The credential that the log-in named. `None`: there is no such credential. The text is not recorded then, because
    /// people type secrets into this field.
    pub credential: Option<ApplicationCredentialId>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConsoleOpened {
    /// The user who got the console's token. Another person who has the token can use it, too.
    pub user: Option<UserId>,
    pub client: AccessClient,
    pub server: InstanceId,
    /// `novnc`, `spice-html5`, `serial`.
    pub console: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConsoleClosed {
    pub server: InstanceId,
    pub console: String,
    /// How long the console was open.
    pub seconds: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SecretRead {
    pub user: UserId,
    pub client: AccessClient,
    pub service: String,
    /// The operation: `server_password.index`.
    pub operation: String,
    /// The ids in the path.
    pub ids: Vec<Uuid>,
}

/// A sort of records. Each sort has its own rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum AccessSort {
    Refusal,
    Login,
    FailedLogin,
    Console,
    SecretRead,
}

/// The source of records that were left out.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum LeftOutOf {
    Project(ProjectId),
    User(UserId),
    /// An IPv4 address, or the network of an IPv6 address. Its clients have no known user.
    Network(String),
    /// All other sources together.
    Others,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LeftOutCount {
    pub sort: AccessSort,
    pub of: LeftOutOf,
    pub number: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordsLeftOut {
    /// All records that were left out came at this time or later.
    pub since: Timestamp,
    pub total: u64,
    /// The largest numbers first, at most [`RecordsLeftOut::MOST_COUNTS`]; `Others` has the rest.
    pub counts: Vec<LeftOutCount>,
}

impl RecordsLeftOut {
    pub const MOST_COUNTS: usize = 32;
}

impl AccessEvent {
    /// The client, if the event has one.
    pub fn client(&self) -> Option<&AccessClient> {
        match self {
            Self::RequestRefused(refused) => Some(&refused.client),
            Self::LoggedIn(login) => Some(&login.client),
            Self::LoginFailed(failed) => Some(&failed.client),
            Self::TokenIssued(issued) => Some(&issued.client),
            Self::ConsoleOpened(opened) => Some(&opened.client),
            Self::SecretRead(read) => Some(&read.client),
            Self::LoggedInWithCredential(login) => Some(&login.client),
            Self::CredentialLoginFailed(failed) => Some(&failed.client),
            Self::ConsoleClosed(_) | Self::RecordsLeftOut(_) => None,
        }
    }

    /// The client of a record with a user. The user's key seals it.
    pub(crate) fn sealed_client(&mut self) -> Option<&mut AccessClient> {
        self.user()?;
        Some(match self {
            Self::RequestRefused(refused) => &mut refused.client,
            Self::LoggedIn(login) => &mut login.client,
            Self::LoginFailed(failed) => &mut failed.client,
            Self::TokenIssued(issued) => &mut issued.client,
            Self::ConsoleOpened(opened) => &mut opened.client,
            Self::SecretRead(read) => &mut read.client,
            Self::LoggedInWithCredential(login) => &mut login.client,
            Self::CredentialLoginFailed(failed) => &mut failed.client,
            Self::ConsoleClosed(_) | Self::RecordsLeftOut(_) => return None,
        })
    }

    /// The user whose personal data the event has.
    pub fn user(&self) -> Option<&UserId> {
        match self {
            Self::RequestRefused(refused) => Some(&refused.user),
            Self::LoggedIn(login) => Some(&login.token.user),
            Self::LoginFailed(failed) => failed.user.as_ref(),
            Self::TokenIssued(issued) => Some(&issued.token.user),
            Self::ConsoleOpened(opened) => opened.user.as_ref(),
            Self::SecretRead(read) => Some(&read.user),
            Self::LoggedInWithCredential(login) => Some(&login.token.user),
            Self::CredentialLoginFailed(failed) => failed.user.as_ref(),
            Self::ConsoleClosed(_) | Self::RecordsLeftOut(_) => None,
        }
    }
}

/// The stream of a user's records. `None`: the stream of the records without a known user.
pub fn stream(user: Option<&UserId>) -> StreamId {
    match user {
        Some(user) => StreamId::new(AccessEvent::NOUN, format!("user-{user}")),
        None => StreamId::new(AccessEvent::NOUN, "unknown"),
    }
}

/// The stream of the numbers of records that were left out.
pub fn left_out_stream() -> StreamId {
    StreamId::new(AccessEvent::NOUN, "left-out")
}

/// One example of each event.
pub fn samples() -> Vec<AccessEvent> {
    let client = || AccessClient { address: Some("192.0.2.1".into()), agent: Some("openstacksdk/4.1".into()) };
    let user = || UserId::new("alice");
    let token = |audit_ids: &[&str]| TokenTerms {
        user: user(),
        scope: Some(IdentityScope::Project(ProjectId::new("web"))),
        audit_ids: audit_ids.iter().map(|id| (*id).to_owned()).collect(),
        expires_at: Timestamp(3_600_000_000),
    };
    vec![
        RequestRefused {
            user: user(),
            client: client(),
            service: "compute".into(),
            method: "DELETE".into(),
            operation: "servers.delete".into(),
            ids: vec![Uuid::from_u128(1)],
            status: 403,
            reason: "Policy doesn't allow os_compute_api:servers:delete to be performed.".into(),
        }
        .into(),
        LoggedIn { client: client(), token: token(&["first"]) }.into(),
        LoginFailed { user: Some(user()), client: client(), status: 401 }.into(),
        TokenIssued { client: client(), token: token(&["second", "first"]) }.into(),
        ConsoleOpened {
            user: Some(user()),
            client: client(),
            server: InstanceId(Uuid::from_u128(1)),
            console: "novnc".into(),
        }
        .into(),
        ConsoleClosed { server: InstanceId(Uuid::from_u128(1)), console: "novnc".into(), seconds: 60 }.into(),
        SecretRead {
            user: user(),
            client: client(),
            service: "compute".into(),
            operation: "server_password.index".into(),
            ids: vec![Uuid::from_u128(1)],
        }
        .into(),
        RecordsLeftOut {
            since: Timestamp(1_000_000),
            total: 3,
            counts: vec![
                LeftOutCount { sort: AccessSort::Refusal, of: LeftOutOf::Project(ProjectId::new("web")), number: 2 },
                LeftOutCount { sort: AccessSort::FailedLogin, of: LeftOutOf::Network("192.0.2.1".into()), number: 1 },
            ],
        }
        .into(),
        LoggedInWithCredential { client: client(), token: token(&["third"]), credential: "backup".into() }.into(),
        CredentialLoginFailed { user: Some(user()), client: client(), status: 401, credential: Some("backup".into()) }
            .into(),
    ]
}
