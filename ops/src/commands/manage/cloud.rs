//! The running server that a sub-command asks.

use std::cell::OnceCell;

use serde_json::Value;

use super::CommandFailure;
use crate::commands::host::CloudAccess;
use crate::commands::operator_client::{self, OperatorClient};
use crate::config::Config;

/// The server and the client that calls it. The client reads the credentials at the first call, so a sub-command that
/// needs no server needs no credentials.
pub(in crate::commands) struct RunningCloud<'a> {
    pub(in crate::commands) config: &'a Config,
    access: CloudAccess,
    client: OnceCell<OperatorClient>,
}

/// An answer with a status outside 2xx.
#[derive(Debug)]
pub(in crate::commands) struct RefusedRequest {
    pub status: u16,
    /// The name of the fault in the body: `itemNotFound`.
    pub key: String,
    pub message: String,
}

impl<'a> RunningCloud<'a> {
    pub(in crate::commands) fn new(config: &'a Config, access: CloudAccess) -> Self {
        Self { config, access, client: OnceCell::new() }
    }

    fn client(&self) -> Result<&OperatorClient, CommandFailure> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let opened = OperatorClient::open(self.config, &self.access).map_err(|failure| unreachable(&failure))?;
        Ok(self.client.get_or_init(|| opened))
    }

    /// Asks any API of the server. A refusal is a value; a server that does not answer is an error.
    pub(in crate::commands) fn call(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Result<Value, RefusedRequest>, CommandFailure> {
        self.call_at(method, path, body, operator_client::LATEST)
    }

    /// Like [`RunningCloud::call`], at other microversions.
    pub(in crate::commands) fn call_at(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
        versions: &str,
    ) -> Result<Result<Value, RefusedRequest>, CommandFailure> {
        let answered = self.client()?.call_at(method, path, body, versions);
        let (status, answer) = answered.map_err(|failure| unreachable(&failure))?;
        if (200..300).contains(&status) {
            return Ok(Ok(answer));
        }
        let fault = answer.as_object().and_then(|body| body.iter().next());
        let (key, message) = match fault {
            Some((key, fault)) => (key.clone(), fault["message"].as_str().unwrap_or_default().to_owned()),
            None => (String::new(), format!("{method} {path}: {status}")),
        };
        Ok(Err(RefusedRequest { status, key, message }))
    }

    /// Like [`RunningCloud::call`]; a refusal is an error, too.
    pub(in crate::commands) fn get(&self, path: &str) -> Result<Value, CommandFailure> {
        let (status, answer) = self.client()?.call("GET", path, None).map_err(|failure| unreachable(&failure))?;
        match status {
            200..=299 => Ok(answer),
            _ => Err(operator_client::refused("GET", path, status, &answer)),
        }
    }

    /// The record of a server, deleted or not; `None` if the cloud never had it.
    pub(super) fn server(&self, id: &str) -> Result<Option<Value>, CommandFailure> {
        match self.call("GET", &format!("/chronova/v1/servers/{}", plain(id)), None)? {
            Ok(mut answer) => Ok(Some(answer["server"].take())),
            Err(refused) if refused.status == 404 => Ok(None),
            Err(refused) => Err(CommandFailure::Usage(refused.message)),
        }
    }

    /// Like [`RunningCloud::server`], without deleted servers.
    pub(in crate::commands) fn live_server(&self, id: &str) -> Result<Option<Value>, CommandFailure> {
        Ok(self.server(id)?.filter(|server| server["deleted"] != true))
    }
}

/// The id as a path segment, without the characters that a path would have to escape. No real id has such a character.
pub(super) fn plain(id: &str) -> String {
    let plain: String = id.chars().filter(|sign| sign.is_ascii_alphanumeric() || "-._".contains(*sign)).collect();
    if plain.is_empty() { "-".to_owned() } else { plain }
}

fn unreachable(failure: &CommandFailure) -> CommandFailure {
    CommandFailure::Usage(format!(
        "{failure}. This sub-command asks the running server: start it with `chronova serve`."
    ))
}
