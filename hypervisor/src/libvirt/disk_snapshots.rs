//! The driver's calls on copies of root disks.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chronova_events::ids::{ImageId, InstanceId};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep};

use super::cached_image::format_name;
use super::host::{COPY_LIMIT, LibvirtDriver};
use super::{snapshot, storage};
use crate::capability::DiskSnapshots;
use crate::capability::snapshots::PlacedCopy;
use crate::driver::{ByteStream, DriverError, DriverResult};
use crate::guest::{DiskCopy, ImageFormat, Quiesce};

/// The pause between two checks of a running copy.
const COPY_POLL: Duration = Duration::from_millis(250);
/// The number of chunks of a copy that may wait for its reader.
const COPY_DEPTH: usize = 8;

#[async_trait]
impl DiskSnapshots for LibvirtDriver {
    async fn copy_root(
        &self,
        instance: InstanceId,
        copy: ImageId,
        format: ImageFormat,
        quiesce: Quiesce,
    ) -> DriverResult<DiskCopy> {
        let pass = self.guests.enter(&instance, "disk copy", self.options.call_deadline).await?;
        let mut begun = self
            .call_within("disk copy", COPY_LIMIT, move |connect, options| {
                let _until_begun = pass;
                snapshot::begin(connect, options, (instance, copy), format_name(format), quiesce)
            })
            .await?;
        // Other calls may change the guest meanwhile. If the guest is destroyed, the copy ends.
        let end = Instant::now() + COPY_LIMIT;
        while Instant::now() < end {
            if let snapshot::SnapshotStart::Complete(done) = begun {
                return Ok(done);
            }
            sleep(COPY_POLL).await;
            begun = self
                .ask("disk copy", move |connect, options| snapshot::progress(connect, options, instance, copy))
                .await?;
        }
        Err(DriverError::Timeout { call: "disk copy", seconds: COPY_LIMIT.as_secs() })
    }

    async fn read_copy(&self, instance: InstanceId, copy: ImageId) -> DriverResult<ByteStream> {
        let (link, session) = (Arc::clone(&self.link), self.link.connect().await?);
        let options = Arc::clone(&self.options);
        let (out, chunks) = mpsc::channel(COPY_DEPTH);
        self.readings.serve(Arc::as_ptr(&session).addr());
        let sent = self.readings.start("read copy", move || {
            link.line(&session).and_then(|line| snapshot::send(&line, &options, instance, copy, &out))
        })?;
        Ok(whole_or_error(chunks, sent))
    }

    async fn remove_copy(&self, instance: InstanceId, copy: ImageId) -> DriverResult<()> {
        self.change("copy removal", instance, self.options.call_deadline, move |connect, options| {
            snapshot::remove(connect, options, instance, copy)
        })
        .await
    }

    async fn place_copy(&self, instance: InstanceId, copy: ImageId, quiesce: Quiesce) -> DriverResult<bool> {
        if storage::placing(&self.options).is_none() {
            return Ok(false);
        }
        self.call_within("disk copy", COPY_LIMIT, move |connect, options| {
            snapshot::place(connect, options, (instance, copy), quiesce)
        })
        .await
    }

    async fn placed_copy(&self, instance: InstanceId, copy: ImageId) -> DriverResult<Option<PlacedCopy>> {
        if storage::placing(&self.options).is_none() {
            return Ok(None);
        }
        self.call_within("read copy", COPY_LIMIT, move |connect, options| {
            snapshot::placed(connect, options, instance, copy)
        })
        .await
    }

    async fn remove_placed_copy(&self, instance: InstanceId, copy: ImageId) -> DriverResult<()> {
        if storage::placing(&self.options).is_none() {
            return Ok(());
        }
        self.change("copy removal", instance, self.options.call_deadline, move |connect, options| {
            snapshot::unplace(connect, options, instance, copy)
        })
        .await
    }
}

/// The chunks that a call sends. If the call fails or is never made, the last item is an error. Without the error, the
/// reader would take an incomplete copy as complete. Dropping the stream drops `sent`. A call that has not begun by
/// then is never made.
pub(super) fn whole_or_error(
    chunks: mpsc::Receiver<std::io::Result<bytes::Bytes>>,
    sent: oneshot::Receiver<DriverResult<()>>,
) -> ByteStream {
    Box::pin(futures::stream::unfold((chunks, Some(sent)), |(mut chunks, sent)| async move {
        if let Some(chunk) = chunks.recv().await {
            return Some((chunk, (chunks, sent)));
        }
        end_of_copy(sent?).await.map(|error| (Err(error), (chunks, None)))
    }))
}

/// The error of a call that did not end well.
async fn end_of_copy(sent: oneshot::Receiver<DriverResult<()>>) -> Option<std::io::Error> {
    match sent.await {
        Ok(sent) => sent.err().map(std::io::Error::other),
        Err(_) => Some(std::io::Error::other("the call that sends the copy was never made")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_copy_whose_sender_is_gone_ends_with_an_error() {
        let (reply, sent) = oneshot::channel();
        assert!(reply.send(Ok(())).is_ok());
        assert!(end_of_copy(sent).await.is_none());

        let (reply, sent) = oneshot::channel();
        assert!(reply.send(Err(DriverError::NoAgent)).is_ok());
        assert!(end_of_copy(sent).await.is_some());

        let (reply, sent) = oneshot::channel::<DriverResult<()>>();
        drop(reply);
        assert!(end_of_copy(sent).await.is_some());
    }
}
