//! Relays between a WebSocket and a console, until one of them ends.
//!
//! Buffers are small. While a client reads nothing, the relay reads nothing from the console. After [`SLOW`] it
//! disconnects that client. Every client gets a ping every [`ASK`].

use std::time::Duration;

use actix_web::web;
use bytes::Bytes;
use chronova_hypervisor::capability::consoles::SerialLine;
use futures::stream::LocalBoxStream;
use futures::{StreamExt as _, stream};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};

use super::HeldConsole;
use super::connection::DEPTH;
use super::frames::{self, CloseReason, PendingFrames, WebSocketFrame};
use super::recording::ConsoleRecording;

/// A piece of a stream, in either direction.
type RelayChunk = std::io::Result<Bytes>;

const SLOW: Duration = Duration::from_mins(1);
const ASK: Duration = Duration::from_secs(30);

/// Starts the relay and returns the stream of frames for the client.
pub(super) fn start(
    payload: web::Payload,
    line: SerialLine,
    held: HeldConsole,
    mut recording: ConsoleRecording,
    closing: watch::Receiver<bool>,
) -> LocalBoxStream<'static, RelayChunk> {
    let (client, sent) = mpsc::channel(DEPTH);
    actix_web::rt::spawn(async move {
        let _held = held;
        let client = RelayClient(client);
        let ended = carry(payload, line, &client, &mut recording, closing).await;
        recording.end().await;
        // A client that has disconnected gets no close frame.
        if let Some(why) = ended {
            client.send(frames::close(why)).await;
        }
    });
    let frames = stream::unfold(sent, |mut sent| async move { sent.recv().await.map(|frame| (Ok(frame), sent)) });
    frames.boxed_local()
}

/// The sender of frames to the client.
struct RelayClient(mpsc::Sender<Bytes>);

impl RelayClient {
    /// Sends a frame; false if the client is gone or too slow.
    async fn send(&self, frame: Bytes) -> bool {
        matches!(timeout(SLOW, self.0.send(frame)).await, Ok(Ok(())))
    }
}

/// Relays until one side ends. Returns the reason, or `None` when the client disconnected without a close frame, or is
/// too slow.
async fn carry(
    mut payload: web::Payload,
    mut line: SerialLine,
    client: &RelayClient,
    recording: &mut ConsoleRecording,
    mut closing: watch::Receiver<bool>,
) -> Option<CloseReason> {
    let mut frames = PendingFrames::default();
    let mut ask = interval_at(Instant::now() + ASK, ASK);
    ask.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = closing.wait_for(|closing| *closing) => return Some(CloseReason::GoingAway),
            () = client.0.closed() => return None,
            _ = ask.tick() => client.send(frames::ping()).await.then_some(())?,
            said = line.output.next() => match said {
                Some(Ok(piece)) => {
                    if let Some(why) = unrecorded(recording.sent(&piece).await) {
                        return Some(why);
                    }
                    client.send(frames::data(&piece)).await.then_some(())?;
                }
                Some(Err(_)) | None => return Some(CloseReason::Done),
            },
            heard = payload.next() => {
                frames.feed(&heard?.ok()?);
                if let Some(why) = hear(&mut frames, &line, client, recording).await? {
                    return Some(why);
                }
            }
        }
    }
}

/// Handles the client's frames. `Some(Some(reason))`: the relay must end with this reason. `Some(None)`: the relay goes
/// on. `None`: the client is gone or too slow.
async fn hear(
    frames: &mut PendingFrames,
    line: &SerialLine,
    client: &RelayClient,
    recording: &mut ConsoleRecording,
) -> Option<Option<CloseReason>> {
    loop {
        match frames.next() {
            Ok(None) => return Some(None),
            Ok(Some(WebSocketFrame::Data(piece))) => {
                if let Some(why) = unrecorded(recording.received(&piece).await) {
                    return Some(Some(why));
                }
                match timeout(SLOW, line.input.send(piece)).await {
                    Ok(Ok(())) => {}
                    Ok(Err(_)) | Err(_) => return Some(Some(CloseReason::Done)),
                }
            }
            Ok(Some(WebSocketFrame::Ping(payload))) => client.send(frames::pong(&payload)).await.then_some(())?,
            Ok(Some(WebSocketFrame::Pong)) => {}
            Ok(Some(WebSocketFrame::Close)) => return Some(Some(CloseReason::Done)),
            Err(error) => {
                tracing::debug!(%error, "a console's client broke the protocol");
                return Some(Some(CloseReason::Protocol));
            }
        }
    }
}

/// The reason to end a console whose recording cannot be written.
fn unrecorded(written: std::io::Result<()>) -> Option<CloseReason> {
    let error = written.err()?;
    tracing::error!(%error, "a console ends because its recording cannot be written");
    Some(CloseReason::GoingAway)
}
