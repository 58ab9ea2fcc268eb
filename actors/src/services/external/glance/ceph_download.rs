//! Reads the data of images from Ceph itself: `[glance] enable_rbd_download`.
//!
//! Ceph's program `rbd` runs beside Chronova. The bytes are inspected and compared with the image's checksum like bytes
//! from Glance's API. If Ceph does not send them, Glance does.

use std::io::{self, Read as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use chronova_events::ids::ImageId;
use chronova_hypervisor::ceph_place::CephPlace;
use chronova_hypervisor::driver::ByteStream;
use chronova_hypervisor::program_messages::ProgramMessages;
use futures::stream;
use tokio::sync::mpsc;

/// The largest piece of a download, in bytes.
const PIECE: usize = 256 * 1024;
/// The number of pieces that may wait for their reader.
const DEPTH: usize = 4;
/// How long a part of the cluster may take for one operation, in seconds. Ceph itself would wait for ever.
const PATIENCE: &str = "60";

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
    /// Opens the image's data at the first of these places that is in Ceph. `None` if there is no such place.
    pub(super) fn open(&self, image: ImageId, places: &[String]) -> Option<io::Result<ByteStream>> {
        Some(self.export(&self.place(image, places)?))
    }

    fn place(&self, image: ImageId, places: &[String]) -> Option<CephPlace> {
        let mut known = CephPlace::of_image(image, places).into_iter();
        known.find(|place| self.pool.as_ref().is_none_or(|pool| *pool == place.pool))
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
        command.args(["--rados-osd-op-timeout", PATIENCE, "--rados-mon-op-timeout", PATIENCE]);
        command.args(["export", "--no-progress", &place.name(), "-"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = command.spawn()?;
        let messages = ProgramMessages::of(&mut running)?;
        let (pieces, incoming) = mpsc::channel(DEPTH);
        // The stream gets the result as its last item.
        drop(tokio::task::spawn_blocking(move || pass_on(running, messages, &pieces)));
        Ok(Box::pin(stream::unfold(incoming, |mut incoming| async move {
            incoming.recv().await.map(|piece| (piece, incoming))
        })))
    }
}

/// Passes on what the program writes, until the reader stops.
fn pass_on(mut running: Child, messages: ProgramMessages, pieces: &mpsc::Sender<io::Result<Bytes>>) {
    let Some(mut out) = running.stdout.take() else { return };
    let mut buffer = vec![0_u8; PIECE];
    let broken = loop {
        match out.read(&mut buffer) {
            Ok(0) => {
                if let Err(error) = end(running, messages) {
                    let _ = pieces.blocking_send(Err(error));
                }
                return;
            }
            Ok(length) => {
                if pieces.blocking_send(Ok(Bytes::copy_from_slice(&buffer[..length]))).is_err() {
                    break None;
                }
            }
            Err(error) => break Some(error),
        }
    };
    // Without the wait, the ended program would stay in the process table.
    let _ = running.kill();
    let _ = running.wait();
    if let Some(error) = broken {
        let _ = pieces.blocking_send(Err(error));
    }
}

/// Fails if the program failed. Otherwise the reader would take a part of the data as all of it.
fn end(running: Child, messages: ProgramMessages) -> io::Result<()> {
    let output = messages.end(running)?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
    Err(io::Error::other(format!("rbd export failed: {last} ({})", output.status)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// The program says more than a pipe holds before it writes any data.
    #[test]
    fn many_messages_do_not_stop_a_download() {
        let mut command = Command::new("sh");
        command.args(["-c", "head -c 200000 /dev/zero >&2; printf data; echo 'no more' >&2; exit 3"]);
        let mut running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let messages = ProgramMessages::of(&mut running).unwrap();
        let (pieces, mut incoming) = mpsc::channel(DEPTH);
        pass_on(running, messages, &pieces);
        assert_eq!(incoming.blocking_recv().unwrap().unwrap(), "data");
        let failure = incoming.blocking_recv().unwrap().unwrap_err().to_string();
        assert!(failure.contains("no more (exit status: 3)"), "{failure}");
    }

    #[test]
    fn only_images_of_the_configured_pool_are_read_from_ceph() {
        let download = |pool: Option<&str>| CephDownload {
            user: None,
            pool: pool.map(str::to_owned),
            conf: None,
            connect_timeout: Duration::from_secs(5),
        };
        let image = ImageId::random();
        let places = [format!("file:///images/{image}"), format!("rbd://fsid/images/{image}/snap")];
        let found = |pool: Option<&str>| download(pool).place(image, &places).map(|place| place.pool);
        assert_eq!(found(None).as_deref(), Some("images"));
        assert_eq!(found(Some("images")).as_deref(), Some("images"));
        assert_eq!(found(Some("other")), None);
        assert!(download(None).open(image, &places[..1]).is_none());
        assert!(download(None).open(ImageId::random(), &places).is_none());
    }
}
