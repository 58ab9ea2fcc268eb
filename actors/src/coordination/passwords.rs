//! Passwords on their way from a request to a guest: the process that uses one must run where its request was taken.
//!
//! They are kept in memory and wiped afterwards: when the request is answered, or when the guest's config drive has
//! them. No event and no log holds them: a crash loses them, and a guest that is built after it has none.

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
    /// The requester that waits until the guest has it; `None` if the guest reads it when it starts.
    answer: Option<oneshot::Sender<PasswordChangeResult>>,
}

/// A password that is overwritten when nobody needs it any more.
struct HeldPassword(String);

impl Drop for HeldPassword {
    fn drop(&mut self) {
        let length = self.0.len();
        self.0.clear();
        // The same memory, written over; the length is no secret.
        self.0.extend(std::iter::repeat_n('\0', length));
        std::hint::black_box(&self.0);
    }
}

/// A password lent to the one who tells it to a guest.
pub struct LentPassword(Arc<HeldPassword>);

impl fmt::Debug for LentPassword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lent")
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

    /// Keeps a password for a process that is about to be asked for; the receiver learns how it ended.
    pub fn lend(&self, process: ProcessId, password: String) -> oneshot::Receiver<PasswordChangeResult> {
        let (answer, told) = oneshot::channel();
        self.with(|all| {
            all.insert(process, PasswordChange { password: Arc::new(HeldPassword(password)), answer: Some(answer) })
        });
        told
    }

    /// Keeps a password for the config drive that a process is about to make.
    pub fn keep(&self, process: ProcessId, password: String) {
        self.with(|all| {
            all.insert(process, PasswordChange { password: Arc::new(HeldPassword(password)), answer: None })
        });
    }

    /// The password that a process is to tell.
    pub fn of(&self, process: ProcessId) -> Option<LentPassword> {
        self.with(|all| all.get(&process).map(|errand| LentPassword(Arc::clone(&errand.password))))
    }

    /// Forgets it, and tells the waiting requester.
    pub fn settle(&self, process: ProcessId, told: PasswordChangeResult) {
        if let Some(errand) = self.with(|all| all.remove(&process)) {
            // The requester may have gone.
            if let Some(answer) = errand.answer {
                let _ = answer.send(told);
            }
        }
    }

    /// Forgets it: the process was not asked for after all, or has made its config drive.
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
    fn a_password_is_there_until_its_request_is_answered() {
        let (passwords, process) = (OneTimePasswords::default(), ProcessId::random());
        let mut told = passwords.lend(process, "s3cret".to_owned());
        assert_eq!(&*passwords.of(process).unwrap(), "s3cret");
        assert!(!format!("{passwords:?}").contains("s3cret"));
        passwords.settle(process, Ok(()));
        assert_eq!(told.try_recv().unwrap(), Ok(()));
        assert!(passwords.of(process).is_none());
        let mut gone = passwords.lend(process, "x".to_owned());
        passwords.forget(process);
        assert!(gone.try_recv().is_err());
    }
}
