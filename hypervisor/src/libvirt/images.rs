//! The host's image cache. Content is identified by checksum, uploaded once, and shared by any number of copy-on-write
//! disks.
//!
//! libvirt can neither rename a volume nor upload atomically. So the content goes to `base-<checksum>`. The content is
//! used only if the empty volume `base-<checksum>.complete` exists. That volume is created after the last byte is
//! uploaded and the checksum is verified. An interrupted upload has no such mark and is repeated.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;
use virt::connect::Connect;

use super::call_threads::CallThreads;
use super::connection::Link;
use super::gates::{GatePermit, Gates};
use super::pool;
use crate::checksum::RunningDigest;
use crate::driver::{DriverError, DriverResult, ImageSource};
use crate::guest::ImageRef;
use crate::options::LibvirtOptions;
use crate::volumes;

const CALL: &str = "image upload";
/// The largest number of concurrent uploads per host. An upload holds a thread until its end.
const TRANSFERS: usize = 2;
/// How long a caller waits for another caller's upload of the same image.
const UPLOAD_LIMIT: Duration = Duration::from_hours(1);

pub(super) struct ImageFetcher {
    /// The second caller for a checksum waits for the first caller's upload.
    gates: Gates<String>,
    transfers: Arc<Semaphore>,
}

impl ImageFetcher {
    /// `threads` is the number of the host's threads. Uploads leave one of them to other calls.
    pub(super) fn new(threads: usize) -> Self {
        let transfers = threads.saturating_sub(1).clamp(1, TRANSFERS);
        Self { gates: Gates::new(), transfers: Arc::new(Semaphore::new(transfers)) }
    }

    /// Prevents uploads of this content until the permit is dropped.
    pub(super) async fn alone_with(&self, checksum: &str, deadline: Duration) -> DriverResult<GatePermit> {
        self.gates.enter(&checksum.to_owned(), CALL, deadline).await
    }

    pub(super) async fn ensure(
        &self,
        link: &Arc<Link>,
        threads: &CallThreads,
        options: &LibvirtOptions,
        image: &ImageRef,
        source: Arc<dyn ImageSource>,
    ) -> DriverResult<()> {
        check_name(image)?;
        let pass = self.gates.enter(&image.checksum, CALL, UPLOAD_LIMIT).await?;
        let session = link.connect().await?;
        let (l, s, o, i) = (Arc::clone(link), Arc::clone(&session), options.clone(), image.clone());
        if threads.run(CALL, options.call_deadline, move || is_cached(&*l.line(&s)?, &o, &i)).await? {
            return Ok(());
        }
        let slot = Arc::clone(&self.transfers).acquire_owned().await;
        let (chunks, incoming) = mpsc::channel(4);
        let (l, o, i) = (Arc::clone(link), options.clone(), image.clone());
        let stored = threads.start(CALL, move || {
            let _until_done = (pass, slot);
            store(&*l.line(&session)?, &o, &i, incoming)
        })?;
        let fed = feed(image, source, chunks, options.transfer_stall).await;
        // The host's own error, for example a full disk, says more than the error that the host took no more data.
        let stored = timeout(options.transfer_stall, stored).await;
        match (fed, stored) {
            (Ok(()) | Err(UploadFailure::HostStopped), Ok(Ok(result))) => result,
            (Err(UploadFailure::Bad(error)), _) => Err(error),
            _ => Err(DriverError::Timeout { call: CALL, seconds: options.transfer_stall.as_secs() }),
        }
    }
}

/// Checks the checksum, because it becomes part of a file name on the host.
fn check_name(image: &ImageRef) -> DriverResult<()> {
    let hex = image.checksum.bytes().all(|b| b.is_ascii_hexdigit() && !b.is_ascii_uppercase());
    if hex && matches!(image.checksum.len(), 32 | 64 | 128) {
        return Ok(());
    }
    Err(bad(image, "its checksum is not a lower-case hexadecimal MD5, SHA-256 or SHA-512"))
}

fn bad(image: &ImageRef, reason: &str) -> DriverError {
    DriverError::BadImage { image: image.id.to_string(), reason: reason.to_owned() }
}

fn unread(image: &ImageRef, reason: String) -> DriverError {
    DriverError::ImageUnread { image: image.id.to_string(), reason }
}

fn is_cached(connect: &Connect, options: &LibvirtOptions, image: &ImageRef) -> DriverResult<bool> {
    let pool = pool::open(connect, options)?;
    let mark = volumes::base_complete(image);
    if pool::lookup(&pool, &mark)?.is_none() {
        // On shared storage, another host may have uploaded the image.
        pool::refresh(&pool);
        if pool::lookup(&pool, &mark)?.is_none() {
            return Ok(false);
        }
    }
    let base = pool::lookup(&pool, &volumes::base(image))?;
    // The size is checked, too, because after a power failure a file may be shorter than the uploaded content.
    if base.is_none_or(|volume| pool::physical_size(&volume).ok() != Some(image.size)) {
        return Ok(false);
    }
    if let Some(idle) = pool::lookup(&pool, &volumes::base_idle(&image.checksum))? {
        pool::delete(&idle)?;
    }
    Ok(true)
}

enum Chunk {
    Data(Bytes),
    /// All bytes were sent, and the checksum is correct.
    Commit,
}

/// The host's side of an upload, on one of the host's threads.
fn store(
    connect: &Connect,
    options: &LibvirtOptions,
    image: &ImageRef,
    mut incoming: mpsc::Receiver<Chunk>,
) -> DriverResult<()> {
    let pool = pool::open(connect, options)?;
    for leftover in [volumes::base_idle(&image.checksum), volumes::base_complete(image), volumes::base(image)] {
        if let Some(volume) = pool::lookup(&pool, &leftover)? {
            pool::delete(&volume)?;
        }
    }
    let volume = pool::create_raw(&pool, &volumes::base(image), image.size, "0644")?;
    let mut upload = pool::Upload::start(connect, &volume, image.size)?;
    let mut committed = false;
    let mut sent = Ok(());
    while let Some(chunk) = incoming.blocking_recv() {
        match chunk {
            Chunk::Data(data) => sent = upload.send(&data),
            Chunk::Commit => committed = true,
        }
        if committed || sent.is_err() {
            break;
        }
    }
    let finished = match sent {
        Ok(()) if committed => upload.finish(),
        Ok(()) => Err(DriverError::Failed { call: CALL, message: "its caller gave up".to_owned() }),
        Err(error) => Err(error),
    };
    if let Err(error) = finished {
        let _ = pool::delete(&volume);
        return Err(error);
    }
    pool::create_raw(&pool, &volumes::base_complete(image), 0, "0644").map(drop)
}

enum UploadFailure {
    Bad(DriverError),
    /// The receiving thread has ended; its result has the reason.
    HostStopped,
    Stalled,
}

/// The source's side of an upload. Reads the content from the source, counts and hashes it, and passes it on to the
/// host's side.
async fn feed(
    image: &ImageRef,
    source: Arc<dyn ImageSource>,
    chunks: mpsc::Sender<Chunk>,
    stall: Duration,
) -> Result<(), UploadFailure> {
    let mut content = source.open(image).await.map_err(UploadFailure::Bad)?;
    let mut check = RunningDigest::new(&image.checksum);
    let mut size = 0_u64;
    loop {
        let next = timeout(stall, content.next()).await;
        let data = match next {
            Ok(Some(Ok(data))) => data,
            Ok(None) => break,
            Ok(Some(Err(error))) => {
                return Err(UploadFailure::Bad(unread(image, error.to_string())));
            }
            Err(_) => return Err(UploadFailure::Bad(unread(image, "its source stalled".to_owned()))),
        };
        size += data.len() as u64;
        if size > image.size {
            return Err(UploadFailure::Bad(bad(image, "it is longer than announced")));
        }
        check.update(&data);
        pass_on(&chunks, Chunk::Data(data), stall).await?;
    }
    if size != image.size {
        return Err(UploadFailure::Bad(bad(image, &format!("{size} bytes arrived instead of {}", image.size))));
    }
    if check.finish() != image.checksum {
        return Err(UploadFailure::Bad(bad(image, "its content does not match its checksum")));
    }
    pass_on(&chunks, Chunk::Commit, stall).await
}

async fn pass_on(chunks: &mpsc::Sender<Chunk>, chunk: Chunk, stall: Duration) -> Result<(), UploadFailure> {
    match timeout(stall, chunks.send(chunk)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(UploadFailure::HostStopped),
        Err(_) => Err(UploadFailure::Stalled),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uploads_leave_a_thread_to_other_calls() {
        for (threads, uploads) in [(2, 1), (3, 2), (8, 2)] {
            assert_eq!(ImageFetcher::new(threads).transfers.available_permits(), uploads, "{threads} threads");
        }
    }
}
