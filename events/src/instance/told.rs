//! What a guest and those who asked for it tell each other: files for the guest to find, and the password that the guest made.

use serde::{Deserialize, Serialize};

use super::payloads::Pairs;
use super::state::Alive;

/// The files that a server was asked for with, or is made anew with (Nova's personality, until 2.56).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FilesGiven {
    /// Path and content, base64 without blanks; in the order given.
    pub files: Pairs,
}

/// A guest made a password for its administrator and posted it to the metadata service, encrypted with the public key of its
/// owner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GuestPasswordPosted {
    /// As the guest wrote it.
    pub password: String,
}

/// The posted password is no longer kept for anybody to ask for; the guest's own is what it was.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GuestPasswordCleared {}

impl Alive {
    /// What reading the erased events again would give.
    pub(super) fn forget(&mut self) {
        crate::sealed::erase_request(&mut self.request);
        if let Some(lock) = &mut self.lock {
            lock.reason = None;
        }
        self.files.clear();
        if let Some(password) = &mut self.guest_password {
            crate::sealed::ERASED.clone_into(password);
        }
    }
}

/// One example of each.
pub(super) fn samples() -> Vec<super::InstanceEvent> {
    vec![
        FilesGiven { files: vec![("/etc/motd".into(), "aGVsbG8=".into())] }.into(),
        GuestPasswordPosted { password: "c2VjcmV0".into() }.into(),
        GuestPasswordCleared {}.into(),
    ]
}
