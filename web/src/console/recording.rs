//! Recordings of consoles, for `[DEFAULT] record`, in the format of websockify. noVNC plays recordings of screens.
//!
//! A recording is a script with an array of texts, one for each frame with data. A text begins with `{MS{` for a frame
//! to the viewer, and with `}MS}` for a frame from the viewer. MS is the time since the beginning in milliseconds. The
//! bytes follow, escaped as in a script. The last text is `EOF`, so that a recording that was cut off can be recognized.
//!
//! Only the user of the process can read a recording, because it has all that the viewer typed. A console whose
//! recording cannot be written ends.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::fs::{File, OpenOptions};
use tokio::io::AsyncWriteExt as _;
use tokio::time::Instant;

/// The recording of one console, if consoles are recorded.
#[derive(Debug)]
pub(super) struct ConsoleRecording {
    file: Option<File>,
    begun: Instant,
}

impl ConsoleRecording {
    /// Begins the file `RECORD.N`. N is the first number from `last` on without a file.
    pub(super) async fn begin(record: Option<&Path>, last: &AtomicU64) -> io::Result<Self> {
        let mut recording = Self { file: None, begun: Instant::now() };
        let Some(record) = record else { return Ok(recording) };
        loop {
            let mut name = record.as_os_str().to_owned();
            name.push(format!(".{}", last.fetch_add(1, Ordering::Relaxed) + 1));
            match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&name).await {
                Ok(file) => recording.file = Some(file),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error),
            }
            recording.write("var VNC_frame_encoding = 'binary';\nvar VNC_frame_data = [\n").await?;
            return Ok(recording);
        }
    }

    /// Records data that was sent to the viewer.
    pub(super) async fn sent(&mut self, payload: &[u8]) -> io::Result<()> {
        self.frame('{', payload).await
    }

    /// Records data that the viewer sent.
    pub(super) async fn received(&mut self, payload: &[u8]) -> io::Result<()> {
        self.frame('}', payload).await
    }

    /// Ends the recording.
    pub(super) async fn end(mut self) {
        if let Err(error) = self.write("'EOF'];\n").await {
            tracing::warn!(%error, "the end of a console's recording cannot be written");
        }
    }

    async fn frame(&mut self, mark: char, payload: &[u8]) -> io::Result<()> {
        if self.file.is_none() {
            return Ok(());
        }
        let line = format!("'{mark}{}{mark}{}',\n", self.begun.elapsed().as_millis(), escaped(payload));
        self.write(&line).await
    }

    async fn write(&mut self, text: &str) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        file.write_all(text.as_bytes()).await?;
        file.flush().await
    }
}

/// The bytes as the inside of a script's text.
fn escaped(payload: &[u8]) -> String {
    let mut text = String::with_capacity(payload.len());
    for byte in payload {
        match byte {
            b'\\' => text.push_str("\\\\"),
            b'\'' => text.push_str("\\'"),
            0x20..=0x7e => text.push(char::from(*byte)),
            _ => text.push_str(&format!("\\x{byte:02x}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[actix_web::test]
    async fn a_recording_has_the_form_of_websockify_and_replaces_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let record = folder.path().join("console");
        std::fs::write(folder.path().join("console.1"), "of an earlier process").unwrap();
        let last = AtomicU64::new(0);
        let mut recording = ConsoleRecording::begin(Some(&record), &last).await.unwrap();
        recording.sent(b"login: ").await.unwrap();
        recording.received(b"it's\\\r\xff").await.unwrap();
        recording.end().await;
        let path = folder.path().join("console.2");
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 5, "{text}");
        assert_eq!(lines[..2], ["var VNC_frame_encoding = 'binary';", "var VNC_frame_data = ["]);
        assert!(lines[2].starts_with("'{") && lines[2].ends_with("{login: ',"), "{text}");
        assert!(lines[3].starts_with("'}") && lines[3].ends_with("}it\\'s\\\\\\x0d\\xff',"), "{text}");
        assert_eq!(lines[4], "'EOF'];");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_to_string(folder.path().join("console.1")).unwrap(), "of an earlier process");
        drop(ConsoleRecording::begin(Some(&record), &last).await.unwrap());
        assert!(folder.path().join("console.3").is_file());
    }

    #[actix_web::test]
    async fn without_the_option_nothing_is_recorded() {
        let mut recording = ConsoleRecording::begin(None, &AtomicU64::new(0)).await.unwrap();
        recording.sent(b"x").await.unwrap();
        recording.received(b"x").await.unwrap();
        recording.end().await;
        let missing = Path::new("/nonexistent/console");
        assert!(ConsoleRecording::begin(Some(missing), &AtomicU64::new(0)).await.is_err());
    }
}
