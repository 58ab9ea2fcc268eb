//! Wrong passwords in a row, by user. If two members counted separately, each would grant a user the full number of
//! tries. The options are Keystone's `[security_compliance] lockout_failure_attempts` and `lockout_duration`.
//!
//! The counts are in memory only. A restart lets every user try again, but each try still takes the time of a password
//! hash. Only existing users are counted, so that an attacker cannot fill the memory with names. A new password starts
//! the count at zero.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chronova_events::envelope::Timestamp;
use chronova_events::identity::PasswordHash;
use chronova_events::ids::UserId;

/// After how many wrong passwords a user is locked out, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct LockoutRule {
    /// Wrong passwords in a row; at least 1.
    pub attempts: u32,
    pub duration: Duration,
}

/// The wrong passwords of each user, and the rule that locks users out. Without a rule, nothing is counted.
#[derive(Debug)]
pub struct Lockout {
    rule: Option<LockoutRule>,
    wrong: Mutex<BTreeMap<UserId, WrongPasswords>>,
}

/// Wrong passwords in a row.
#[derive(Debug)]
struct WrongPasswords {
    /// The password hash that the wrong passwords were compared with.
    against: Option<PasswordHash>,
    count: u32,
    last: Timestamp,
}

impl Lockout {
    pub fn new(rule: Option<LockoutRule>) -> Self {
        Self { rule, wrong: Mutex::default() }
    }

    /// Notes the result of a comparison, and returns whether the user may log in. Call it only after the comparison, so
    /// that neither the response time nor parallel tries reveal that a user is locked out.
    pub fn admits(&self, user: &UserId, against: Option<&PasswordHash>, right: bool, now: Timestamp) -> bool {
        let Some(rule) = self.rule else { return right };
        let mut wrong = self.lock();
        let over = |known: &WrongPasswords| {
            let passed = u64::try_from(now.0.saturating_sub(known.last.0)).unwrap_or(0);
            known.count >= rule.attempts && u128::from(passed) >= rule.duration.as_micros()
        };
        if wrong.get(user).is_some_and(|known| known.against.as_ref() != against || over(known)) {
            wrong.remove(user);
        }
        let locked = wrong.get(user).is_some_and(|known| known.count >= rule.attempts);
        match (locked, right) {
            // A try of a locked-out user does not extend the lockout.
            (true, _) => return false,
            (false, true) => drop(wrong.remove(user)),
            (false, false) => {
                let begin = || WrongPasswords { against: against.cloned(), count: 0, last: now };
                let known = wrong.entry(user.clone()).or_insert_with(begin);
                (known.count, known.last) = (known.count + 1, now);
                if known.count == rule.attempts {
                    tracing::warn!(%user, attempts = rule.attempts, "locked out a user after wrong passwords");
                }
            }
        }
        right
    }

    /// Locks the counts. A panic elsewhere cannot leave them inconsistent, because every change is a single operation.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<UserId, WrongPasswords>> {
        self.wrong.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;

    fn at(seconds: i64) -> Timestamp {
        Timestamp(seconds * SECOND)
    }

    #[test]
    fn without_a_rule_only_the_password_counts() {
        let lockout = Lockout::new(None);
        for second in 0..100 {
            assert!(!lockout.admits(&UserId::new("a"), None, false, at(second)));
        }
        assert!(lockout.admits(&UserId::new("a"), None, true, at(100)));
        assert!(lockout.lock().is_empty());
    }

    #[test]
    fn after_too_many_wrong_passwords_the_right_one_is_refused_for_a_while() {
        let rule = LockoutRule { attempts: 3, duration: Duration::from_mins(1) };
        let lockout = Lockout::new(Some(rule));
        let (user, other) = (UserId::new("a"), UserId::new("b"));
        let hash = PasswordHash("old".to_owned());
        let comes = |right, second| lockout.admits(&user, Some(&hash), right, at(second));
        assert!(!comes(false, 0) && !comes(false, 1) && comes(true, 2), "two wrong passwords lock nobody out");
        assert!(!comes(false, 3) && !comes(false, 4) && !comes(false, 5));
        assert!(!comes(true, 6) && !comes(false, 60), "the user is locked out");
        assert!(lockout.admits(&other, Some(&hash), true, at(7)), "another user is not locked out");
        assert!(!comes(true, 64), "the lockout lasts a minute");
        assert!(comes(true, 65));
        assert!(!comes(false, 66) && !comes(false, 67) && comes(true, 68), "the count starts at zero");
    }

    #[test]
    fn a_new_password_resets_the_count() {
        let rule = LockoutRule { attempts: 1, duration: Duration::from_hours(1) };
        let lockout = Lockout::new(Some(rule));
        let user = UserId::new("a");
        let (old, new) = (PasswordHash("old".to_owned()), PasswordHash("new".to_owned()));
        assert!(!lockout.admits(&user, Some(&old), false, at(0)));
        assert!(!lockout.admits(&user, Some(&old), true, at(1)));
        assert!(lockout.admits(&user, Some(&new), true, at(2)));
    }
}
