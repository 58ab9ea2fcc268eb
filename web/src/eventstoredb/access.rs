//! The users of the log, and their rights.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use thiserror::Error;

use crate::secret::{Secret, SecretHash};

/// The right of a credential. Each right includes the rights before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogRight {
    /// Reads the whole log; payloads of Chronova's events come as JSON.
    Read,
    /// Also appends own events, to streams outside Chronova's categories.
    Write,
    /// Another Chronova process: reads payloads in Chronova's codec, and appends to Chronova's streams.
    Peer,
}

impl LogRight {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "read" => Some(Self::Read),
            "write" => Some(Self::Write),
            "peer" => Some(Self::Peer),
            _ => None,
        }
    }
}

/// The error in a line of the list of users. The error text does not repeat the password.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum LogUserError {
    #[error("user {0}: must be NAME:RIGHT:PASSWORD, where RIGHT is read, write or peer")]
    Form(usize),
    #[error("user {0}: the password is shorter than {MIN_PASSWORD} characters")]
    Short(usize),
    #[error("user {0}: the name {1} occurs twice")]
    Twice(usize, String),
    #[error("no user is configured: name one in [eventstoredb] users")]
    Nobody,
}

const MIN_PASSWORD: usize = 8;

#[derive(Debug, Clone)]
pub(super) struct LogUser {
    pub(super) name: String,
    pub(super) right: LogRight,
    password: SecretHash,
}

/// The users of the log.
#[derive(Debug, Clone)]
pub struct LogUsers(Vec<LogUser>);

impl LogUsers {
    /// Reads lines `NAME:RIGHT:PASSWORD`.
    pub fn parse(lines: &[String]) -> Result<Self, LogUserError> {
        let mut users: Vec<LogUser> = Vec::with_capacity(lines.len());
        for (index, line) in lines.iter().enumerate() {
            let number = index + 1;
            let mut parts = line.splitn(3, ':');
            let (Some(name), Some(right), Some(password)) = (parts.next(), parts.next(), parts.next()) else {
                return Err(LogUserError::Form(number));
            };
            let right = LogRight::parse(right.trim()).ok_or(LogUserError::Form(number))?;
            if name.is_empty() {
                return Err(LogUserError::Form(number));
            }
            if password.chars().count() < MIN_PASSWORD {
                return Err(LogUserError::Short(number));
            }
            if users.iter().any(|user| user.name == name) {
                return Err(LogUserError::Twice(number, name.to_owned()));
            }
            users.push(LogUser { name: name.to_owned(), right, password: Secret::new(password).hash() });
        }
        if users.is_empty() { Err(LogUserError::Nobody) } else { Ok(Self(users)) }
    }

    /// The user whose credential this `Authorization` header carries: `Basic` with name and password, or `Bearer` with
    /// the password alone. The credential is compared with every user, so that the time does not reveal which users
    /// exist.
    pub(super) fn admit(&self, header: &str) -> Option<&LogUser> {
        let (scheme, credential) = header.split_once(' ')?;
        let decoded;
        let (name, password) = if scheme.eq_ignore_ascii_case("basic") {
            decoded = String::from_utf8(STANDARD.decode(credential.trim()).ok()?).ok()?;
            let (name, password) = decoded.split_once(':')?;
            (Some(name), password)
        } else if scheme.eq_ignore_ascii_case("bearer") {
            (None, credential.trim())
        } else {
            return None;
        };
        let given = Secret::new(password).hash();
        let mut found = None;
        for user in &self.0 {
            let right_password = user.password == given;
            let right_name = name.is_none_or(|name| name == user.name);
            if right_password && right_name {
                found = Some(user);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn users(lines: &[&str]) -> Result<LogUsers, LogUserError> {
        LogUsers::parse(&lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn a_credential_is_name_and_password_or_the_password_alone() {
        let users = users(&["auditor:read:long enough", "shop:write:pass:with:colons"]).unwrap();
        let basic = |text: &str| format!("Basic {}", STANDARD.encode(text));
        let admitted = |header: &str| users.admit(header).map(|user| (user.name.as_str(), user.right));
        assert_eq!(admitted(&basic("auditor:long enough")), Some(("auditor", LogRight::Read)));
        assert_eq!(admitted(&basic("shop:pass:with:colons")), Some(("shop", LogRight::Write)));
        assert_eq!(admitted("bearer pass:with:colons"), Some(("shop", LogRight::Write)));
        for wrong in ["auditor:wrong", "nobody:long enough", "auditor:", "auditor", "shop:long enough"] {
            assert_eq!(admitted(&basic(wrong)), None, "{wrong}");
        }
        for wrong in ["", "Basic", "Basic ???", "Bearer ", "Bearer auditor", "Digest x"] {
            assert_eq!(admitted(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_list_with_mistakes_is_refused_without_repeating_passwords() {
        assert_eq!(users(&["a:read"]).unwrap_err(), LogUserError::Form(1));
        assert_eq!(users(&["a:read:12345678", "b:admin:12345678"]).unwrap_err(), LogUserError::Form(2));
        assert_eq!(users(&["a:read:short"]).unwrap_err(), LogUserError::Short(1));
        assert_eq!(users(&["a:read:12345678", "a:peer:87654321"]).unwrap_err(), LogUserError::Twice(2, "a".to_owned()));
        assert_eq!(users(&[]).unwrap_err(), LogUserError::Nobody);
    }
}
