//! Data exchanged between a guest and its owner: injected files, and the administrator password that the guest
//! generated.

use serde::{Deserialize, Serialize};

use super::payloads::SortedPairs;
use super::state::Alive;

/// The injected files of a create or rebuild request (Nova's personality, until 2.56).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FilesGiven {
    /// Path and content, base64 without blanks; in the order given.
    pub files: SortedPairs,
}

/// A guest made a password for its administrator and posted it to the metadata service, encrypted with the public key of its
/// owner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GuestPasswordPosted {
    /// As the guest wrote it.
    pub password: String,
}

/// The posted password was cleared; the guest's own password does not change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GuestPasswordCleared {}

impl Alive {
    /// Equals the result of reading the erased events again.
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
