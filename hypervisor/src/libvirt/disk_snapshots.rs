//! The driver's calls on copies of root disks.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chronova_events::ids::{ImageId, InstanceId};
use tokio::time::{Instant, sleep};

use super::cached_image::format_name;
use super::host::{COPY_LIMIT, LibvirtDriver};
use super::snapshot;
use crate::capability::DiskSnapshots;
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
        let (out, chunks) = tokio::sync::mpsc::channel(COPY_DEPTH);
        // Nobody waits for the closure's result. If sending fails, the reader gets the error as its last item.
        let sent = self.threads.start("read copy", move || {
            let sent = link.line(&session).and_then(|line| snapshot::send(&line, &options, instance, copy, &out));
            if let Err(error) = sent {
                let _ = out.blocking_send(Err(std::io::Error::other(error)));
            }
            Ok(())
        })?;
        let state = (chunks, sent);
        Ok(Box::pin(futures::stream::unfold(state, |(mut chunks, sent)| async move {
            chunks.recv().await.map(|chunk| (chunk, (chunks, sent)))
        })))
    }

    async fn remove_copy(&self, instance: InstanceId, copy: ImageId) -> DriverResult<()> {
        self.change("copy removal", instance, self.options.call_deadline, move |connect, options| {
            snapshot::remove(connect, options, instance, copy)
        })
        .await
    }
}
