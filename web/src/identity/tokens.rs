//! Tokens: their claims, and how they are signed and read.
//!
//! A token is `base64url(version ‖ claims ‖ HMAC-SHA256)`. It is self-contained: issuing a token stores nothing, and
//! reading a token costs one hash. The key is a file of the data directory that only its owner may read. Without the
//! file, the next start makes another key, and all tokens are invalid. Claims are used only after the signature was
//! compared, in constant time.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chronova_events::codec;
use chronova_events::envelope::Timestamp;
use chronova_events::identity::IdentityScope;
use chronova_events::ids::{ApplicationCredentialId, UserId};
use hmac::{Hmac, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use thiserror::Error;

use crate::secret::Secret;

/// The first byte of a token. A version with another encoding of the claims uses another number.
const VERSION: u8 = 2;
/// The first byte of older tokens. Their claims cannot name an application credential.
const VERSION_WITHOUT_CREDENTIAL: u8 = 1;
const TAG: usize = 32;
const KEY: usize = 32;
/// The length in bytes above which a token is refused without being read.
const LONGEST: usize = 2_048;

#[derive(Debug, Error)]
pub enum KeyError {
    #[error("the token key {path} cannot be used: {source}")]
    Io { path: PathBuf, source: io::Error },
    #[error("the token key {path} may be read by others: make it private (chmod 600)")]
    Open { path: PathBuf },
    #[error("the token key {path} has {length} bytes, not {KEY}; remove it to have a new one made")]
    Length { path: PathBuf, length: usize },
    #[error("the operating system gives no random numbers: {0}")]
    Random(String),
}

/// The claims of a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    pub user: UserId,
    /// `None`: unscoped. Only the identity service accepts such a token, for example to exchange it for a scoped token.
    pub scope: Option<IdentityScope>,
    /// The methods of authentication: `password`, `token`, `application_credential`.
    pub methods: Vec<String>,
    /// The token's audit id. A token that was issued in exchange for another token also has the audit id of the chain's
    /// first token.
    pub audit_ids: Vec<String>,
    pub issued_at: Timestamp,
    pub expires_at: Timestamp,
    /// The application credential of the log-in. Its roles and its access rules limit the token.
    pub credential: Option<ApplicationCredentialId>,
}

/// The claims of a token of [`VERSION_WITHOUT_CREDENTIAL`].
#[derive(Deserialize)]
struct ClaimsWithoutCredential {
    user: UserId,
    scope: Option<IdentityScope>,
    methods: Vec<String>,
    audit_ids: Vec<String>,
    issued_at: Timestamp,
    expires_at: Timestamp,
}

impl From<ClaimsWithoutCredential> for Claims {
    fn from(old: ClaimsWithoutCredential) -> Self {
        let ClaimsWithoutCredential { user, scope, methods, audit_ids, issued_at, expires_at } = old;
        Self { user, scope, methods, audit_ids, issued_at, expires_at, credential: None }
    }
}

impl Claims {
    /// The audit id by which the token is revoked.
    pub fn audit_id(&self) -> &str {
        self.audit_ids.first().map_or("", String::as_str)
    }
}

/// A random audit id: 22 characters, as in Keystone.
pub fn audit_id() -> Result<String, KeyError> {
    let mut random = [0_u8; 16];
    getrandom::fill(&mut random).map_err(|error| KeyError::Random(error.to_string()))?;
    Ok(URL_SAFE_NO_PAD.encode(random))
}

/// Signs and reads tokens.
#[derive(Clone)]
pub struct Signer {
    mac: Hmac<Sha256>,
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Signer(...)")
    }
}

impl Signer {
    pub fn new(key: [u8; KEY]) -> Self {
        // HMAC pads a short key with zeros up to the size of a block. This code pads the key itself, so the length is
        // valid and `new` cannot fail.
        let mut block = [0_u8; 64];
        block[..KEY].copy_from_slice(&key);
        Self { mac: <Hmac<Sha256> as Mac>::new(&block.into()) }
    }

    /// The signer of `data_dir`; the first start creates its key.
    pub fn open(data_dir: &Path) -> Result<Self, KeyError> {
        let path = data_dir.join("token.key");
        let failed = |source| KeyError::Io { path: path.clone(), source };
        match fs::metadata(&path) {
            Ok(metadata) if metadata.permissions().mode() & 0o077 != 0 => return Err(KeyError::Open { path }),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => make_key(data_dir, &path)?,
            Err(error) => return Err(failed(error)),
        }
        let bytes = fs::read(&path).map_err(failed)?;
        let length = bytes.len();
        let key = bytes.try_into().map_err(|_| KeyError::Length { path, length })?;
        Ok(Self::new(key))
    }

    /// A value by which members of a cluster compare their keys. It is equal for equal keys, and does not reveal the
    /// key. The signed text begins with a byte with which no token begins. So this value cannot serve as a token's
    /// signature.
    pub fn mark(&self) -> [u8; 32] {
        self.mac.clone().chain_update(b"chronova: the mark of a token key").finalize().into_bytes().into()
    }

    pub fn sign(&self, claims: &Claims) -> Result<Secret, codec::CodecError> {
        let mut bytes = vec![VERSION];
        bytes.extend(codec::encode(claims)?);
        let tag = self.mac.clone().chain_update(&bytes).finalize().into_bytes();
        bytes.extend_from_slice(&tag);
        Ok(Secret::new(URL_SAFE_NO_PAD.encode(bytes)))
    }

    /// The claims of a token that this key signed; does not check expiry or revocation.
    pub fn read(&self, token: &Secret) -> Option<Claims> {
        if token.expose().len() > LONGEST {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(token.expose()).ok()?;
        let (signed, tag) = bytes.split_at_checked(bytes.len().checked_sub(TAG)?)?;
        self.mac.clone().chain_update(signed).verify_slice(tag).ok()?;
        let (version, claims) = signed.split_first()?;
        match *version {
            VERSION => codec::decode(codec::BINCODE_2, claims).ok(),
            VERSION_WITHOUT_CREDENTIAL => {
                codec::decode::<ClaimsWithoutCredential>(codec::BINCODE_2, claims).ok().map(Claims::from)
            }
            _ => None,
        }
    }
}

/// Writes a new key atomically: a crash leaves no key or the whole key. Processes that create the key in the same
/// directory at the same time get the same key.
fn make_key(data_dir: &Path, path: &Path) -> Result<(), KeyError> {
    let failed = |source| KeyError::Io { path: path.to_owned(), source };
    let mut key = [0_u8; KEY];
    getrandom::fill(&mut key).map_err(|error| KeyError::Random(error.to_string()))?;
    let temporary = path.with_extension(format!("{}.tmp", chronova_events::entropy::uuid()));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary).map_err(failed)?;
    file.write_all(&key).and_then(|()| file.sync_all()).map_err(failed)?;
    // A hard link fails if the file exists. A rename would replace the file.
    let linked = fs::hard_link(&temporary, path);
    fs::remove_file(&temporary).map_err(failed)?;
    if let Err(error) = linked
        && error.kind() != io::ErrorKind::AlreadyExists
    {
        return Err(failed(error));
    }
    fs::File::open(data_dir).and_then(|folder| folder.sync_all()).map_err(failed)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn claims() -> Claims {
        Claims {
            user: UserId::new("2b7c"),
            scope: Some(IdentityScope::Project("9f".into())),
            methods: vec!["password".into()],
            audit_ids: vec![audit_id().unwrap()],
            issued_at: Timestamp(1),
            expires_at: Timestamp(2),
            credential: None,
        }
    }

    #[test]
    fn reads_the_tokens_from_before_application_credentials() {
        let signer = Signer::new([7; KEY]);
        let claims = claims();
        let Claims { user, scope, methods, audit_ids, issued_at, expires_at, .. } = claims.clone();
        let mut bytes = vec![VERSION_WITHOUT_CREDENTIAL];
        bytes.extend(codec::encode(&(user, scope, methods, audit_ids, issued_at, expires_at)).unwrap());
        let tag = signer.mac.clone().chain_update(&bytes).finalize().into_bytes();
        bytes.extend_from_slice(&tag);
        assert_eq!(signer.read(&Secret::new(URL_SAFE_NO_PAD.encode(&bytes))), Some(claims));
    }

    #[test]
    fn reads_what_it_signed() {
        let signer = Signer::new([7; KEY]);
        let claims = claims();
        let token = signer.sign(&claims).unwrap();
        assert!(token.expose().len() < 255, "{}", token.expose().len());
        assert_eq!(signer.read(&token), Some(claims));
    }

    #[test]
    fn forged_tokens_are_refused() {
        let signer = Signer::new([7; KEY]);
        let token = signer.sign(&claims()).unwrap();
        assert_eq!(Signer::new([8; KEY]).read(&token), None, "a token of another key is valid");
        let bytes = URL_SAFE_NO_PAD.decode(token.expose()).unwrap();
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert_eq!(signer.read(&Secret::new(URL_SAFE_NO_PAD.encode(changed))), None, "byte {at}");
            assert_eq!(signer.read(&Secret::new(URL_SAFE_NO_PAD.encode(&bytes[..at]))), None, "cut at {at}");
        }
        for nonsense in ["", "a", "admin", "====", &"A".repeat(5_000)] {
            assert_eq!(signer.read(&Secret::new(nonsense)), None);
        }
    }

    #[test]
    fn the_key_is_private_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let token = Signer::open(folder.path()).unwrap().sign(&claims()).unwrap();
        assert!(Signer::open(folder.path()).unwrap().read(&token).is_some());
        let path = folder.path().join("token.key");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(Signer::open(folder.path()), Err(KeyError::Open { .. })));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, b"short").unwrap();
        assert!(matches!(Signer::open(folder.path()), Err(KeyError::Length { length: 5, .. })));
    }
}
