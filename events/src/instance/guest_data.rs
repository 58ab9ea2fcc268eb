//! Data that a guest and its owner exchange: injected files, and passwords. The guest may generate the administrator
//! password, or the owner chooses one. No event stores a chosen password. Only the guest's agent gets such a password.

use serde::{Deserialize, Serialize};

use super::payloads::FaultInfo;
use super::state::Alive;
use crate::ids::ProcessId;

/// The injected files of a create or rebuild request (Nova's personality, until 2.56).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FilesGiven {
    /// Path and content (base64 without blanks), in the order of the request.
    pub files: Vec<(String, String)>,
}

/// A guest generated a password for its administrator. It posted the password to the metadata service, encrypted with
/// the owner's public key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GuestPasswordPosted {
    /// The encrypted password as the guest sent it.
    pub password: String,
}

/// The posted password was cleared; the guest's own password does not change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GuestPasswordCleared {}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PasswordChangeRequested {
    pub process: ProcessId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PasswordChanged {
    pub process: ProcessId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PasswordChangeFailed {
    pub process: ProcessId,
    pub fault: FaultInfo,
}

impl Alive {
    /// Erases the personal fields. The result equals a fold of the erased events.
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

/// One example of each event.
pub(super) fn samples() -> Vec<super::InstanceEvent> {
    let process = ProcessId(uuid::Uuid::from_u128(2));
    let fault = FaultInfo { code: 409, message: "QEMU guest agent is not enabled".into(), details: String::new() };
    vec![
        PasswordChangeRequested { process }.into(),
        PasswordChanged { process }.into(),
        PasswordChangeFailed { process, fault }.into(),
        FilesGiven { files: vec![("/etc/motd".into(), "aGVsbG8=".into())] }.into(),
        GuestPasswordPosted { password: "c2VjcmV0".into() }.into(),
        GuestPasswordCleared {}.into(),
    ]
}
