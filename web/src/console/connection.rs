//! A connection to a guest's host as a console.

use bytes::Bytes;
use chronova_hypervisor::capability::consoles::SerialLine;
use futures::stream;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadHalf, split};
use tokio::sync::mpsc;

/// The most frames that wait for a client, and the most chunks that wait for a console.
pub(super) const DEPTH: usize = 16;
/// Bytes that are read from a console at once.
const CHUNK: usize = 32 << 10;

/// Wraps a connection as a console.
pub(super) fn over<S>(socket: S) -> SerialLine
where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    let (read, mut write) = split(socket);
    let (input, mut typed) = mpsc::channel::<Bytes>(DEPTH);
    // This task ends when the sender is dropped or the connection breaks. At its end it closes the writing half, so
    // that the other direction ends, too.
    actix_web::rt::spawn(async move {
        while let Some(piece) = typed.recv().await {
            // TLS keeps bytes until the flush.
            if write.write_all(&piece).await.is_err() || write.flush().await.is_err() {
                break;
            }
        }
        let _ = write.shutdown().await;
    });
    let pieces = stream::unfold(read, |mut read: ReadHalf<S>| async move {
        let mut piece = Vec::with_capacity(CHUNK);
        match read.read_buf(&mut piece).await {
            Ok(0) => None,
            Ok(_) => Some((Ok(Bytes::from(piece)), read)),
            Err(error) => Some((Err(error), read)),
        }
    });
    SerialLine { input, output: Box::pin(pieces) }
}
