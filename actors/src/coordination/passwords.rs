//! Passwords on their way from a request to a guest. The process that uses a password must run in the member that took
//! the request.
//!
//! The passwords are in memory, and are overwritten when the request is answered or when the guest's config drive has
//! them. No event and no log line contains them. A crash loses them, and a guest that is built after the crash has no
//! password.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use chronova_events::ids::ProcessId;
use chronova_events::instance::FaultInfo;
use tokio::sync::oneshot;

/// How a change of a password ended.
pub type PasswordChangeResult = Result<(), FaultInfo>;

struct PasswordChange {
    password: Arc<HeldPassword>,
    /// The requester who waits until the guest has the password; `None` if the guest reads it from its config drive.
    answer: Option<oneshot::Sender<PasswordChangeResult>>,
}

/// A password. Dropping it overwrites its memory.
struct HeldPassword(String);

impl Drop for HeldPassword {
    fn drop(&mut self) {
        let length = self.0.len();
        self.0.clear();
        // This overwrites the same memory. The length is no secret.
        self.0.extend(std::iter::repeat_n('\0', length));
        std::hint::black_box(&self.0);
    }
}

/// A password for the step that passes it to a guest.
pub struct LentPassword(Arc<HeldPassword>);

impl fmt::Debug for LentPassword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LentPassword")
    }
}

impl std::ops::Deref for LentPassword {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0.0
    }
}

/// The passwords of this member's requests.
#[derive(Default)]
pub struct OneTimePasswords(Mutex<BTreeMap<ProcessId, PasswordChange>>);

impl fmt::Debug for OneTimePasswords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OneTimePasswords")
    }
}

impl OneTimePasswords {
    fn with<R>(&self, with: impl FnOnce(&mut BTreeMap<ProcessId, PasswordChange>) -> R) -> R {
        with(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Keeps a password for a process that will be requested next. The receiver gets the result of the change.
    pub fn lend(&self, process: ProcessId, password: String) -> oneshot::Receiver<PasswordChangeResult> {
        let (answer, result) = oneshot::channel();
        self.with(|all| {
            all.insert(process, PasswordChange { password: Arc::new(HeldPassword(password)), answer: Some(answer) })
        });
        result
    }

    /// Keeps a password for the config drive that a process will create.
    pub fn keep(&self, process: ProcessId, password: String) {
        self.with(|all| {
            all.insert(process, PasswordChange { password: Arc::new(HeldPassword(password)), answer: None })
        });
    }

    /// The password that a process passes to its guest.
    pub fn of(&self, process: ProcessId) -> Option<LentPassword> {
        self.with(|all| all.get(&process).map(|errand| LentPassword(Arc::clone(&errand.password))))
    }

    /// Removes the password, and answers the waiting requester.
    pub fn settle(&self, process: ProcessId, result: PasswordChangeResult) {
        if let Some(errand) = self.with(|all| all.remove(&process)) {
            // The requester may have gone.
            if let Some(answer) = errand.answer {
                let _ = answer.send(result);
            }
        }
    }

    /// Removes the password of a process. The process was not requested after all, or it has created its config drive.
    pub fn forget(&self, process: ProcessId) {
        self.with(|all| all.remove(&process));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use chronova_events::ids::ProcessId;

    #[test]
    fn a_password_is_kept_until_its_request_is_answered() {
        let (passwords, process) = (OneTimePasswords::default(), ProcessId::random());
        let mut result = passwords.lend(process, "s3cret".to_owned());
        assert_eq!(&*passwords.of(process).unwrap(), "s3cret");
        assert!(!format!("{passwords:?}").contains("s3cret"));
        passwords.settle(process, Ok(()));
        assert_eq!(result.try_recv().unwrap(), Ok(()));
        assert!(passwords.of(process).is_none());
        let mut gone = passwords.lend(process, "x".to_owned());
        passwords.forget(process);
        assert!(gone.try_recv().is_err());
    }
}
