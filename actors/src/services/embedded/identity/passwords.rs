//! Passwords and their argon2id hashes.
//!
//! Hashing costs tens of milliseconds and megabytes by design, so a bounded number of blocking threads does it. If many
//! users log in at once, their passwords wait in a queue. When the queue is full, further passwords are refused. The
//! service checks an unknown user's password against a dummy hash of the same cost. So the response time does not
//! reveal which users exist.

use std::fmt;
use std::sync::{Arc, OnceLock};

use argon2::password_hash::{self, PasswordHasher, PasswordVerifier, SaltString};
use argon2::{Algorithm, Argon2, Params, Version};
use chronova_events::identity::PasswordHash;
use thiserror::Error;
use tokio::sync::Semaphore;

/// The length of a generated password: 24 characters from an alphabet of 57 have 140 random bits.
const GENERATED_LENGTH: usize = 24;
/// The characters of a generated password. No two of these characters look alike.
const ALPHABET: &[u8] = b"abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789";
/// The memory of a hash, which takes five passes. OWASP's password storage cheat sheet rates five passes over 7 MiB as
/// strong as two passes over 19 MiB.
const MEMORY_KIB: u32 = 7 * 1_024;
const PASSES: u32 = 5;
/// The most passwords in the queue. Each takes tens of milliseconds, so a later password would wait too long anyway.
const MOST_WAITING: usize = 64;
/// The limit on a password's length in bytes. A longer password is refused before it is hashed.
pub const MAX_LENGTH: usize = 4_096;

/// A password in the clear; never shown by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text of the password.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Generates a random password.
    pub fn generate() -> Result<Self, PasswordError> {
        let mut text = String::with_capacity(GENERATED_LENGTH);
        let mut random = [0_u8; 64];
        while text.len() < GENERATED_LENGTH {
            getrandom::fill(&mut random).map_err(|error| PasswordError::Random(error.to_string()))?;
            // Bytes beyond the largest multiple of the alphabet's length would make its first characters more likely.
            let fair = random.iter().filter(|byte| usize::from(**byte) < 256 / ALPHABET.len() * ALPHABET.len());
            let letters = fair.map(|byte| char::from(ALPHABET[usize::from(*byte) % ALPHABET.len()]));
            text.extend(letters.take(GENERATED_LENGTH - text.len()));
        }
        Ok(Self(text))
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(...)")
    }
}

#[derive(Debug, Clone, Error)]
pub enum PasswordError {
    #[error("the password is longer than {MAX_LENGTH} bytes")]
    TooLong,
    #[error("too many passwords are waiting to be hashed")]
    Busy,
    #[error("the operating system gives no random numbers: {0}")]
    Random(String),
    #[error("the password cannot be hashed: {0}")]
    Hash(String),
}

/// Hashes and verifies passwords.
#[derive(Debug, Clone)]
pub struct Passwords {
    params: Params,
    slots: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    dummy: Arc<OnceLock<String>>,
}

impl Passwords {
    /// At most `concurrency` hashes are computed at the same time.
    pub fn new(concurrency: usize) -> Self {
        Self::with_params(Params::new(MEMORY_KIB, PASSES, 1, None).unwrap_or_default(), concurrency)
    }

    /// A hasher for tests, with the weakest parameters of argon2.
    pub fn weak() -> Self {
        Self::with_params(Params::new(Params::MIN_M_COST, 1, 1, None).unwrap_or_default(), 4)
    }

    fn with_params(params: Params, concurrency: usize) -> Self {
        let (slots, waiting) = (Semaphore::new(concurrency.max(1)), Semaphore::new(MOST_WAITING));
        Self { params, slots: Arc::new(slots), waiting: Arc::new(waiting), dummy: Arc::default() }
    }

    pub async fn hash(&self, password: &Password) -> Result<PasswordHash, PasswordError> {
        if password.0.len() > MAX_LENGTH {
            return Err(PasswordError::TooLong);
        }
        let (params, password) = (self.params.clone(), password.clone());
        self.run(move || hash(params, &password)).await?.map(PasswordHash)
    }

    /// Whether `password` matches the hash `stored`. `stored` is `None` if there is no such user, or if the user has no
    /// password. Then the result is `false` after the same time.
    pub async fn verify(&self, stored: Option<&PasswordHash>, password: &Password) -> Result<bool, PasswordError> {
        if password.0.len() > MAX_LENGTH {
            return Ok(false);
        }
        let (params, password) = (self.params.clone(), password.clone());
        let (stored, dummy) = (stored.cloned(), Arc::clone(&self.dummy));
        self.run(move || {
            if let Some(stored) = stored {
                return Ok(matches(&stored.0, &password));
            }
            let dummy = if let Some(dummy) = dummy.get() {
                dummy
            } else {
                let made = hash(params, &Password::generate()?)?;
                dummy.get_or_init(|| made)
            };
            let _ = std::hint::black_box(matches(dummy, &password));
            Ok(false)
        })
        .await?
    }

    async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, PasswordError> {
        let waits = self.waiting.try_acquire().map_err(|_| PasswordError::Busy)?;
        let slot = Arc::clone(&self.slots).acquire_owned().await.map_err(|e| PasswordError::Hash(e.to_string()))?;
        drop(waits);
        tokio::task::spawn_blocking(move || {
            // The task holds the slot until the hash is done, even if the requester goes away.
            let _slot = slot;
            work()
        })
        .await
        .map_err(|error| PasswordError::Hash(error.to_string()))
    }
}

fn hash(params: Params, password: &Password) -> Result<String, PasswordError> {
    let mut random = [0_u8; 16];
    getrandom::fill(&mut random).map_err(|error| PasswordError::Random(error.to_string()))?;
    let salt = SaltString::encode_b64(&random).map_err(|error| PasswordError::Hash(error.to_string()))?;
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password(password.0.as_bytes(), &salt)
        .map(|hash| hash.to_string())
        .map_err(|error| PasswordError::Hash(error.to_string()))
}

/// Compares with the parameters of the stored hash, in constant time.
fn matches(stored: &str, password: &Password) -> bool {
    password_hash::PasswordHash::new(stored)
        .is_ok_and(|stored| Argon2::default().verify_password(password.0.as_bytes(), &stored).is_ok())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[tokio::test]
    async fn verifies_what_it_hashed_and_nothing_else() {
        let passwords = Passwords::weak();
        let right = Password::new("correct horse");
        let stored = passwords.hash(&right).await.unwrap();
        assert!(stored.0.starts_with("$argon2id$"));
        assert!(passwords.verify(Some(&stored), &right).await.unwrap());
        assert!(!passwords.verify(Some(&stored), &Password::new("Correct horse")).await.unwrap());
        assert!(!passwords.verify(None, &right).await.unwrap());
        let damaged = PasswordHash("$argon2id$nonsense".to_owned());
        assert!(!passwords.verify(Some(&damaged), &right).await.unwrap());
        let long = Password::new("x".repeat(MAX_LENGTH + 1));
        assert!(matches!(passwords.hash(&long).await, Err(PasswordError::TooLong)));
    }

    #[tokio::test]
    async fn the_queue_of_passwords_is_bounded() {
        let passwords = Passwords::weak();
        let all = passwords.slots.available_permits();
        let at_work = passwords.slots.acquire_many(u32::try_from(all).unwrap()).await.unwrap();
        let word = Password::new("a");
        let mut waiting: Vec<_> = (0..MOST_WAITING).map(|_| Box::pin(passwords.verify(None, &word))).collect();
        for one in &mut waiting {
            assert!(futures::poll!(one.as_mut()).is_pending());
        }
        let mut one_more = Box::pin(passwords.verify(None, &word));
        assert!(matches!(futures::poll!(one_more.as_mut()), std::task::Poll::Ready(Err(PasswordError::Busy))));
        // A request that gives up frees its place in the queue.
        drop(waiting.pop());
        let last = passwords.verify(None, &word);
        drop(at_work);
        // The passwords are hashed in the order in which they came.
        let (last, others) = futures::join!(last, futures::future::join_all(waiting));
        assert!(!last.unwrap() && others.into_iter().all(|right| !right.unwrap()));
    }

    #[test]
    fn generated_passwords_differ_and_are_never_logged() {
        let (a, b) = (Password::generate().unwrap(), Password::generate().unwrap());
        assert_ne!(a, b);
        assert_eq!(a.expose().len(), GENERATED_LENGTH);
        assert_eq!(format!("{a:?}"), "Password(...)");
    }
}
