//! Limits attempts with wrong passwords, by source address and by user.
//!
//! Each address and each user has a token bucket. An attempt takes one token from the bucket of its address and one
//! from the bucket of its user. A successful log-in returns both tokens. So successful log-ins do not throttle later
//! ones. Parallel attempts count like sequential attempts. A throttled attempt costs no hashing. A bucket refills
//! steadily, so nobody is locked out for long. A longer lockout is the task of
//! [`Lockout`](chronova_actors::coordination::lockouts::Lockout).

use std::net::IpAddr;
use std::time::Instant;

use crate::address;
use crate::rate::RateLimits;

#[derive(Debug)]
pub(super) struct FailedLogins(Option<RateLimits>);

/// An attempt without a known result.
#[derive(Debug)]
pub(super) struct LoginAttempt<'a> {
    limits: Option<&'a RateLimits>,
    keys: Vec<String>,
}

impl FailedLogins {
    /// Allows `per_minute` attempts per minute. All of them may come at once. 0 means no limit.
    pub(super) fn new(per_minute: u32) -> Self {
        Self(RateLimits::new(f64::from(per_minute) / 60.0, per_minute))
    }

    /// Starts an attempt. `Err`: the seconds until the next attempt is allowed.
    pub(super) fn begin(&self, from: Option<IpAddr>, user: &str) -> Result<LoginAttempt<'_>, u64> {
        let mut attempt = LoginAttempt { limits: self.0.as_ref(), keys: Vec::new() };
        let Some(limits) = &self.0 else { return Ok(attempt) };
        let now = Instant::now();
        for key in from.map(bucket).into_iter().chain([user_bucket(user)]) {
            if let Err(seconds) = limits.take(&key, now) {
                // This bucket refused the attempt. If the other bucket has already given a token, the token goes back.
                attempt.give_back();
                return Err(seconds);
            }
            attempt.keys.push(key);
        }
        Ok(attempt)
    }
}

impl LoginAttempt<'_> {
    /// Returns the tokens of an attempt that does not count, because the password was right or was not checked.
    pub(super) fn give_back(self) {
        for key in &self.keys {
            if let Some(limits) = self.limits {
                limits.give_back(key);
            }
        }
    }
}

/// A bucket's key has at most this many bytes of a user's name. Names of existing users have at most 255 characters.
/// But an unknown name in a request can be as long as the body allows.
const LONGEST_USER: usize = 1_024;

/// Unknown users with equal first bytes share a bucket. Known users are named by their ids, which are short.
fn user_bucket(user: &str) -> String {
    format!("user {}", &user[..user.floor_char_boundary(LONGEST_USER)])
}

/// All addresses of a customer's IPv6 network share a bucket.
fn bucket(address: IpAddr) -> String {
    format!("address {}", address::network(address))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn right_passwords_do_not_count() {
        let logins = FailedLogins::new(3);
        for _ in 0..100 {
            logins.begin(Some("192.0.2.1".parse().unwrap()), "a").unwrap().give_back();
        }
        for _ in 0..3 {
            drop(logins.begin(Some("192.0.2.1".parse().unwrap()), "a").unwrap());
        }
        assert!(logins.begin(Some("192.0.2.1".parse().unwrap()), "b").is_err(), "the address has no limit");
        assert!(logins.begin(Some("192.0.2.2".parse().unwrap()), "a").is_err(), "the user has no limit");
        logins.begin(Some("192.0.2.2".parse().unwrap()), "b").unwrap().give_back();
        assert!(FailedLogins::new(0).begin(None, "a").is_ok());
    }

    #[test]
    fn a_bucket_keeps_a_short_name_only() {
        let logins = FailedLogins::new(3);
        let attempt = logins.begin(None, &"ä".repeat(50_000)).unwrap();
        assert!(attempt.keys[0].len() < 1_100, "{} bytes", attempt.keys[0].len());
        assert_eq!(user_bucket("alice"), "user alice");
    }

    #[test]
    fn an_ipv6_network_shares_a_bucket() {
        let of = |text: &str| bucket(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    }
}
