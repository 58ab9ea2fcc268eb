//! The connection to the server, reopened when it is lost.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use eventstore::{Client, ClientSettings, Error};
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::store::StoreError;

pub(super) struct RemoteConnection {
    settings: ClientSettings,
    runtime: Handle,
    /// How long a call is retried before it fails.
    pub(super) patience: Duration,
    /// The present client, and how many clients came before it.
    current: Mutex<(Client, u64)>,
}

impl RemoteConnection {
    /// The pause between two attempts.
    pub(super) const PAUSE: Duration = Duration::from_millis(100);

    pub(super) fn new(url: &str, patience: Duration) -> Result<Self, StoreError> {
        let settings: ClientSettings = url.parse().map_err(|error: eventstore::ClientSettingsParseError| {
            // If the URL cannot be parsed, the crate's message is the URL itself, with the password.
            StoreError::Io(format!("the address of the log is not valid: {}", scrubbed(error.message(), url)))
        })?;
        let runtime = Handle::current();
        let client = open(&runtime, &settings)?;
        Ok(Self { settings, runtime, patience, current: Mutex::new((client, 0)) })
    }

    /// The present client, and how many clients came before it.
    pub(super) fn client(&self) -> (Client, u64) {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Opens a new client in place of client `number`, unless another task has already replaced that one.
    pub(super) fn renew(&self, number: u64) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.1 != number {
            return;
        }
        match open(&self.runtime, &self.settings) {
            Ok(client) => *current = (client, number + 1),
            Err(error) => tracing::warn!(%error, "cannot open a new connection to the log"),
        }
    }

    /// Performs a call. Retries it while the server is unreachable or reports a passing fault, up to the time limit.
    pub(super) async fn retry<T, Attempt>(&self, call: impl Fn(Client) -> Attempt) -> Result<T, Error>
    where
        Attempt: Future<Output = Result<T, Error>>,
    {
        let until = Instant::now() + self.patience;
        loop {
            let (client, number) = self.client();
            let error = match call(client).await {
                Err(error) if is_passing(&error) => error,
                done => return done,
            };
            if Instant::now() >= until {
                return Err(error);
            }
            tracing::debug!(%error, "the log cannot be read or written now; trying again");
            tokio::time::sleep(Self::PAUSE).await;
            self.renew(number);
        }
    }
}

fn open(runtime: &Handle, settings: &ClientSettings) -> Result<Client, StoreError> {
    Client::with_runtime_handle(runtime.clone(), settings.clone()).map_err(|error| StoreError::Io(error.to_string()))
}

fn scrubbed<'a>(message: &'a str, url: &str) -> &'a str {
    if message.contains(url) { "it cannot be parsed" } else { message }
}

/// Whether another attempt may succeed: the server was unreachable, did not lead, or had a fault of its own.
fn is_passing(error: &Error) -> bool {
    matches!(
        error,
        Error::ServerError(_)
            | Error::ConnectionClosed
            | Error::GrpcConnectionError(_)
            | Error::NotLeaderException(_)
            | Error::DeadlineExceeded
    )
}
