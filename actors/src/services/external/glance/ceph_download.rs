//! Reads the data of images from Ceph itself: `[glance] enable_rbd_download`.
//!
//! Ceph's program `rbd` runs beside Chronova. The bytes are inspected and compared with the image's checksum like bytes from Glance's API. If Ceph does not send
//! them, Glance does.

use std::io::{self, Read as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use chronova_hypervisor::ceph_place::CephPlace;
use chronova_hypervisor::driver::ByteStream;
use futures::stream;
use tokio::sync::mpsc;

/// The largest piece of a download, in bytes.
const PIECE: usize = 256 * 1024;
/// The number of pieces that may wait for their reader.
const DEPTH: usize = 4;

/// Nova's `[glance] rbd_*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CephDownload {
    /// `rbd_user`.
    pub user: Option<String>,
    /// `rbd_pool`: images of another pool come from Glance. `None`: any pool.
    pub pool: Option<String>,
    /// `rbd_ceph_conf`, a file of this machine.
    pub conf: Option<PathBuf>,
    /// `rbd_connect_timeout`.
    pub connect_timeout: Duration,
}

impl CephDownload {
    /// Opens the data at the first of these places that is in Ceph. `None` if there is no such place.
    pub(super) fn open(&self, places: &[String]) -> Option<io::Result<ByteStream>> {
        let mut known = places.iter().filter_map(|url| CephPlace::of_url(url));
        let place = known.find(|place| self.pool.as_ref().is_none_or(|pool| *pool == place.pool))?;
        Some(self.export(&place))
    }

    fn export(&self, place: &CephPlace) -> io::Result<ByteStream> {
        let mut command = Command::new("rbd");
        if let Some(conf) = &self.conf {
            command.arg("--conf").arg(conf);
        }
        if let Some(user) = &self.user {
            command.arg("--id").arg(user);
        }
        command.arg("--client-mount-timeout").arg(self.connect_timeout.as_secs().to_string());
        command.args(["export", "--no-progress", &place.name(), "-"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let running = command.spawn()?;
        let (pieces, incoming) = mpsc::channel(DEPTH);
        // The stream gets the result as its last item.
        drop(tokio::task::spawn_blocking(move || pass_on(running, &pieces)));
        Ok(Box::pin(stream::unfold(incoming, |mut incoming| async move {
            incoming.recv().await.map(|piece| (piece, incoming))
        })))
    }
}

/// Passes on what the program writes, until the reader stops.
fn pass_on(mut running: Child, pieces: &mpsc::Sender<io::Result<Bytes>>) {
    let Some(mut out) = running.stdout.take() else { return };
    let mut buffer = vec![0_u8; PIECE];
    let ended = loop {
        match out.read(&mut buffer) {
            Ok(0) => break end(running),
            Ok(length) => {
                if pieces.blocking_send(Ok(Bytes::copy_from_slice(&buffer[..length]))).is_err() {
                    let _ = running.kill();
                    let _ = running.wait();
                    return;
                }
            }
            Err(error) => break Err(error),
        }
    };
    if let Err(error) = ended {
        let _ = pieces.blocking_send(Err(error));
    }
}

/// Fails if the program failed, because the reader would take a part of the data as all of it.
fn end(running: Child) -> io::Result<()> {
    let output = running.wait_with_output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
    Err(io::Error::other(format!("rbd export failed: {last} ({})", output.status)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_images_of_the_configured_pool_are_read_from_ceph() {
        let download = |pool: Option<&str>| CephDownload {
            user: None,
            pool: pool.map(str::to_owned),
            conf: None,
            connect_timeout: Duration::from_secs(5),
        };
        let url = |text: &str| [text.to_owned()];
        assert!(download(None).open(&url("file:///images/1")).is_none());
        assert!(download(None).open(&[]).is_none());
        assert!(download(Some("images")).open(&url("rbd://fsid/other/1/snap")).is_none());
    }
}
