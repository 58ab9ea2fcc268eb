//! The task that keeps the connection.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_rustls::rustls::ClientConfig;

use super::frames::OvsdbFrames;
use super::remote::{OvsdbRemote, OvsdbStream, connect};
use super::values::OvsdbTables;
use super::{OvsdbCall, OvsdbConnection, OvsdbCopy, OvsdbFailure, OvsdbOptions};
use crate::services::external::http::jittered;

/// The most transactions that wait for their turn, or for their answer.
pub(super) const MOST_WAITING: usize = 16;
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// The room for the next read, in bytes.
const READ: usize = 64 * 1024;
/// The id of the first request, which asks for the tables.
const MONITOR: u64 = 0;

/// Shows the state to the client.
pub(super) struct ShownCopy {
    pub(super) publish: watch::Sender<OvsdbCopy>,
    pub(super) count: watch::Sender<u64>,
}

impl ShownCopy {
    fn change(&self, change: impl FnOnce(&mut OvsdbCopy)) {
        self.publish.send_modify(change);
        self.count.send_modify(|count| *count += 1);
    }

    /// Takes over updates. The tables are copied only if a reader still holds the present ones.
    fn update(&self, updates: &Value) -> Result<(), String> {
        let mut outcome = Ok(());
        self.change(|copy| outcome = Arc::make_mut(&mut copy.tables).apply(updates));
        outcome.map_err(|error| error.to_string())
    }
}

/// Connects again and again until the client is dropped.
pub(super) async fn keep(
    options: OvsdbOptions,
    tls: Arc<ClientConfig>,
    mut calls: mpsc::Receiver<OvsdbCall>,
    shown: ShownCopy,
) {
    let mut pause = FIRST_PAUSE;
    for remote in options.remotes.iter().cycle() {
        let begun = Instant::now();
        let opening = timeout(options.connect_timeout, OvsdbSession::open(&options, remote, &tls));
        let Some(opened) = opened_meanwhile(opening, &mut calls).await else { return };
        let ended = match opened {
            Ok(Ok((session, tables))) => {
                tracing::info!(%remote, "the database of the networks is connected");
                let connection = OvsdbConnection::Connected(remote.clone());
                shown.change(|copy| *copy = OvsdbCopy { connection, tables: Arc::new(tables) });
                session.serve(&options, &mut calls, &shown).await
            }
            Ok(Err(reason)) => Err(reason),
            Err(_) => Err("the connection takes too long".to_owned()),
        };
        let Err(reason) = ended else { return };
        tracing::warn!(%remote, reason, "the database of the networks is not connected, retrying");
        let told = format!("{remote}: {reason}");
        shown.change(|copy| copy.connection = OvsdbConnection::Lost(told.clone()));
        if begun.elapsed() > LONGEST_PAUSE {
            pause = FIRST_PAUSE;
        }
        if refuse(&mut calls, &told, Instant::now() + jittered(pause)).await.is_none() {
            return;
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Waits for a connection, and refuses transactions meanwhile. `None`: the client is dropped.
async fn opened_meanwhile<T>(opening: impl Future<Output = T>, calls: &mut mpsc::Receiver<OvsdbCall>) -> Option<T> {
    let mut opening = std::pin::pin!(opening);
    loop {
        tokio::select! {
            opened = &mut opening => return Some(opened),
            call = calls.recv() => {
                let reason = "the connection is being made".to_owned();
                let _ = call?.answer.send(Err(OvsdbFailure::Unavailable(reason)));
            }
        }
    }
}

/// Refuses transactions until the end of a pause. `None`: the client is dropped.
async fn refuse(calls: &mut mpsc::Receiver<OvsdbCall>, reason: &str, until: Instant) -> Option<()> {
    loop {
        tokio::select! {
            () = sleep_until(until) => return Some(()),
            call = calls.recv() => {
                let _ = call?.answer.send(Err(OvsdbFailure::Unavailable(reason.to_owned())));
            }
        }
    }
}

/// A transaction that waits for its answer.
struct PendingTransaction {
    answer: oneshot::Sender<Result<(), OvsdbFailure>>,
    due: Instant,
}

/// One connection.
struct OvsdbSession {
    reader: ReadHalf<Box<dyn OvsdbStream>>,
    writer: WriteHalf<Box<dyn OvsdbStream>>,
    frames: OvsdbFrames,
    outgoing: BytesMut,
    /// Whether bytes wait in `outgoing`, or in the buffer of the connection.
    unsent: bool,
    pending: BTreeMap<u64, PendingTransaction>,
    last_id: u64,
    heard: Instant,
    /// When the server was asked whether it still runs, if it has not answered since.
    probed: Option<Instant>,
}

impl OvsdbSession {
    /// Connects, and copies the tables.
    async fn open(
        options: &OvsdbOptions,
        remote: &OvsdbRemote,
        tls: &Arc<ClientConfig>,
    ) -> Result<(Self, OvsdbTables), String> {
        let stream = connect(remote, tls).await.map_err(|error| error.to_string())?;
        let (reader, writer) = tokio::io::split(stream);
        let mut session = Self {
            reader,
            writer,
            frames: OvsdbFrames::new(options.longest_message),
            outgoing: BytesMut::new(),
            unsent: false,
            pending: BTreeMap::new(),
            last_id: MONITOR,
            heard: Instant::now(),
            probed: None,
        };
        let wanted: Map<String, Value> = options
            .monitored
            .iter()
            .map(|(table, columns)| ((*table).to_owned(), json!({"columns": columns})))
            .collect();
        session.queue(&request("monitor", &json!([options.database, null, wanted]), &json!(MONITOR)));
        loop {
            send(&mut session.writer, &mut session.outgoing).await.map_err(|error| error.to_string())?;
            session.unsent = false;
            let message = session.read().await?;
            if session.answer_echo(&message) || message["id"] != json!(MONITOR) {
                continue;
            }
            if !message["error"].is_null() {
                return Err(format!("it refused to show its tables: {}", message["error"]));
            }
            let mut tables = OvsdbTables::default();
            tables.apply(&message["result"]).map_err(|error| error.to_string())?;
            return Ok((session, tables));
        }
    }

    /// Serves until the connection fails, or until the client is dropped (`Ok`).
    async fn serve(
        mut self,
        options: &OvsdbOptions,
        calls: &mut mpsc::Receiver<OvsdbCall>,
        shown: &ShownCopy,
    ) -> Result<(), String> {
        let ended = self.serve_until_failure(options, calls, shown).await;
        let reason = ended.as_ref().err().map_or("the client has ended", String::as_str).to_owned();
        for (_, waiting) in std::mem::take(&mut self.pending) {
            let _ = waiting.answer.send(Err(OvsdbFailure::Unavailable(reason.clone())));
        }
        ended
    }

    async fn serve_until_failure(
        &mut self,
        options: &OvsdbOptions,
        calls: &mut mpsc::Receiver<OvsdbCall>,
        shown: &ShownCopy,
    ) -> Result<(), String> {
        loop {
            while let Some(message) = self.next()? {
                self.take(&message, shown)?;
            }
            if self.outgoing.len() > options.longest_message {
                return Err("it takes no more bytes".to_owned());
            }
            self.frames.bytes.reserve(READ);
            // One transaction at a time waits to be sent.
            let (due, has_room) = (self.due(options), self.pending.len() < MOST_WAITING && !self.unsent);
            tokio::select! {
                count = self.reader.read_buf(&mut self.frames.bytes) => self.hear(count)?,
                // The server reads nothing before its own messages are read. So both directions go on together.
                sent = send(&mut self.writer, &mut self.outgoing), if self.unsent => {
                    sent.map_err(|error| error.to_string())?;
                    self.unsent = false;
                }
                call = calls.recv(), if has_room => match call {
                    Some(call) => self.begin(call, options),
                    None => return Ok(()),
                },
                () = sleep_until(due) => self.look_at_clock(options)?,
            }
        }
    }

    fn take(&mut self, message: &Value, shown: &ShownCopy) -> Result<(), String> {
        if self.answer_echo(message) {
            return Ok(());
        }
        match message["method"].as_str() {
            Some("update") => shown.update(&message["params"][1]),
            Some(_) => Ok(()),
            None => {
                let waiting = message["id"].as_u64().and_then(|id| self.pending.remove(&id));
                if let Some(waiting) = waiting {
                    let _ = waiting.answer.send(outcome(message));
                }
                Ok(())
            }
        }
    }

    fn begin(&mut self, call: OvsdbCall, options: &OvsdbOptions) {
        // The caller may have lost the leadership while the transaction waited for its turn.
        if call.answer.is_closed() {
            return;
        }
        self.last_id += 1;
        let waiting = PendingTransaction { answer: call.answer, due: Instant::now() + options.answer_timeout };
        self.pending.insert(self.last_id, waiting);
        let mut params = vec![json!(options.database)];
        params.extend(call.operations);
        self.queue(&request("transact", &Value::Array(params), &json!(self.last_id)));
    }

    /// When [`look_at_clock`](Self::look_at_clock) has something to do.
    fn due(&self, options: &OvsdbOptions) -> Instant {
        let silence = self.probed.unwrap_or(self.heard) + options.probe_interval;
        self.pending.values().map(|waiting| waiting.due).chain([silence]).min().unwrap_or(silence)
    }

    fn look_at_clock(&mut self, options: &OvsdbOptions) -> Result<(), String> {
        let now = Instant::now();
        if self.pending.values().any(|waiting| waiting.due <= now) {
            return Err("it does not answer a transaction".to_owned());
        }
        match self.probed {
            Some(asked) if asked + options.probe_interval <= now => Err("it is silent".to_owned()),
            None if self.heard + options.probe_interval <= now => {
                self.probed = Some(now);
                self.queue(&request("echo", &json!([]), &json!("probe")));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Answers the server's question whether the client still runs. Returns false for any other message.
    fn answer_echo(&mut self, message: &Value) -> bool {
        let is_echo = message["method"].as_str() == Some("echo");
        if is_echo {
            self.queue(&json!({"result": message["params"], "error": null, "id": message["id"]}));
        }
        is_echo
    }

    /// The next message that is already here.
    fn next(&mut self) -> Result<Option<Value>, String> {
        self.frames.next().map_err(|error| error.to_string())
    }

    /// The next message.
    async fn read(&mut self) -> Result<Value, String> {
        loop {
            if let Some(message) = self.next()? {
                return Ok(message);
            }
            self.frames.bytes.reserve(READ);
            let count = self.reader.read_buf(&mut self.frames.bytes).await;
            self.hear(count)?;
        }
    }

    /// Notes that bytes have come.
    fn hear(&mut self, count: std::io::Result<usize>) -> Result<(), String> {
        if count.map_err(|error| error.to_string())? == 0 {
            return Err("it closed the connection".to_owned());
        }
        (self.heard, self.probed) = (Instant::now(), None);
        Ok(())
    }

    fn queue(&mut self, message: &Value) {
        self.outgoing.extend_from_slice(message.to_string().as_bytes());
        self.unsent = true;
    }
}

/// Sends the waiting bytes. May be cancelled: the bytes that are not sent stay.
async fn send(writer: &mut WriteHalf<Box<dyn OvsdbStream>>, outgoing: &mut BytesMut) -> std::io::Result<()> {
    while !outgoing.is_empty() {
        if writer.write_buf(outgoing).await? == 0 {
            return Err(std::io::ErrorKind::WriteZero.into());
        }
    }
    writer.flush().await
}

fn request(method: &str, params: &Value, id: &Value) -> Value {
    json!({"method": method, "params": params, "id": id})
}

/// The outcome of a transaction. One operation that fails ends the whole transaction; the failure may also come after
/// the last operation (RFC 7047, section 4.1.3).
fn outcome(message: &Value) -> Result<(), OvsdbFailure> {
    if !message["error"].is_null() {
        return Err(OvsdbFailure::Refused(message["error"].to_string()));
    }
    let failed = message["result"].as_array().into_iter().flatten().find(|result| result["error"].is_string());
    match failed {
        None => Ok(()),
        Some(failed) => {
            let text = |key: &str| failed[key].as_str().unwrap_or_default().to_owned();
            Err(OvsdbFailure::Refused(format!("{}: {}", text("error"), text("details"))))
        }
    }
}
