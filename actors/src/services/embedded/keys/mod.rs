//! The embedded key manager. It keeps each secret in a file in the folder `secrets` of the data folder.
//!
//! Only the operating-system user that runs Chronova can read the files. All members of a cluster share the data
//! folder, and so the files. No secret is in the log of events, in a checkpoint or in an export. A deleted secret is
//! gone.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use chronova_events::envelope::Meta;
use chronova_events::ids::{ProjectId, UserId};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::ports::PortError;
use crate::ports::keys::{KeyManager, KeyRequester, SecretPayload};

/// The limit on a secret's length in bytes. A longer secret is refused.
const LONGEST: usize = 64 * 1024;

/// The end of the name of a file that is being written: `ID.UUID.tmp`.
const TEMPORARY: &str = "tmp";

/// The content of a file.
#[derive(Serialize, Deserialize)]
struct KeptSecret {
    project: ProjectId,
    user: UserId,
    payload: String,
}

#[derive(Debug)]
pub struct EmbeddedKeyManager {
    folder: PathBuf,
}

impl EmbeddedKeyManager {
    /// Opens the folder of the secrets, and creates it at the first start.
    ///
    /// # Errors
    /// The folder cannot be created or read.
    pub fn open(data_dir: &Path) -> io::Result<Arc<Self>> {
        let folder = data_dir.join("secrets");
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        sweep(&folder)?;
        Ok(Arc::new(Self { folder }))
    }

    /// The file of a secret. The reference must be an id, so it cannot lead to a file outside the folder.
    fn path(&self, reference: &str) -> Result<PathBuf, PortError> {
        let id: Uuid = reference.parse().map_err(|_| missing(reference))?;
        Ok(self.folder.join(id.to_string()))
    }

    async fn blocking<T: Send + 'static>(
        &self,
        reference: &str,
        work: impl FnOnce(&Path) -> Result<T, PortError> + Send + 'static,
    ) -> Result<T, PortError> {
        let path = self.path(reference)?;
        let done = tokio::task::spawn_blocking(move || work(&path)).await;
        done.unwrap_or_else(|error| Err(PortError::Unavailable(error.to_string())))
    }
}

fn missing(reference: &str) -> PortError {
    PortError::NotFound(format!("The key manager has no secret {reference}."))
}

fn failed(error: &io::Error) -> PortError {
    PortError::Unavailable(format!("The key manager cannot use its folder: {error}"))
}

fn look(path: &Path) -> Result<Option<KeptSecret>, PortError> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(&error)),
    };
    serde_json::from_slice(&bytes).map(Some).map_err(|_| {
        PortError::Invalid(format!("The secret in {} is damaged: restore the file from a backup.", path.display()))
    })
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Removes the temporary files of writers that a crash interrupted. If another member is writing at this moment, its
/// request fails and is repeated.
fn sweep(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == TEMPORARY) {
            remove(&path)?;
        }
    }
    Ok(())
}

/// Writes the file atomically: a crash leaves the whole file or none. If another writer has already created the file,
/// that file stays.
fn write(path: &Path, kept: &KeptSecret) -> io::Result<()> {
    let folder = path.parent().unwrap_or(path);
    let temporary = path.with_extension(format!("{}.{TEMPORARY}", chronova_events::entropy::uuid()));
    // Unlike a rename, a hard link does not replace an existing file.
    let linked = fill(&temporary, kept).and_then(|()| fs::hard_link(&temporary, path));
    remove(&temporary)?;
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => File::open(folder)?.sync_all(),
    }
}

fn fill(path: &Path, kept: &KeptSecret) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(&serde_json::to_vec(kept)?)?;
    file.sync_all()
}

#[async_trait]
impl KeyManager for EmbeddedKeyManager {
    async fn store(
        &self,
        id: Uuid,
        payload: SecretPayload,
        requester: &KeyRequester,
        _: &Meta,
    ) -> Result<String, PortError> {
        if payload.expose().len() > LONGEST {
            return Err(PortError::Invalid(format!("A secret has at most {LONGEST} bytes.")));
        }
        let (reference, requester) = (id.to_string(), requester.clone());
        let kept = KeptSecret {
            project: requester.project.clone(),
            user: requester.user.clone(),
            payload: payload.expose().to_owned(),
        };
        self.blocking(&reference, move |path| {
            write(path, &kept).map_err(|error| failed(&error))?;
            let found = look(path)?.is_some_and(|found| found.project == requester.project);
            found.then_some(()).ok_or_else(|| PortError::Conflict("Another project has this secret.".to_owned()))
        })
        .await?;
        Ok(reference)
    }

    async fn read(&self, reference: &str, requester: &KeyRequester, _: &Meta) -> Result<SecretPayload, PortError> {
        let (named, project) = (reference.to_owned(), requester.project.clone());
        self.blocking(reference, move |path| match look(path)? {
            None => Err(missing(&named)),
            Some(kept) if kept.project == project => Ok(SecretPayload::new(kept.payload)),
            Some(_) => Err(PortError::Forbidden(format!("Secret {named} belongs to another project."))),
        })
        .await
    }

    async fn delete(&self, reference: &str, _: &Meta) -> Result<(), PortError> {
        self.blocking(reference, |path| remove(path).map_err(|error| failed(&error))).await
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn work() -> Arc<Meta> {
        Meta::system("test")
    }

    fn of(project: &str) -> KeyRequester {
        KeyRequester { user: UserId::new("u"), project: ProjectId::new(project) }
    }

    #[tokio::test]
    async fn an_interrupted_writer_leaves_no_secret() {
        let data = tempfile::tempdir().unwrap();
        let keys = EmbeddedKeyManager::open(data.path()).unwrap();
        let reference = keys.store(Uuid::from_u128(7), SecretPayload::new("s3cret"), &of("p"), &work()).await.unwrap();
        let folder = data.path().join("secrets");
        let names = || {
            let entries = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
            entries.collect::<Vec<_>>()
        };
        assert_eq!(names(), std::slice::from_ref(&reference));
        fs::write(folder.join(format!("{}.{}.tmp", Uuid::from_u128(8), Uuid::from_u128(9))), "s3cret").unwrap();
        let reopened = EmbeddedKeyManager::open(data.path()).unwrap();
        assert_eq!(names(), std::slice::from_ref(&reference), "the file of an interrupted writer is gone");
        assert_eq!(reopened.read(&reference, &of("p"), &work()).await.unwrap().expose(), "s3cret");
    }

    #[tokio::test]
    async fn a_secret_is_for_its_project_alone_and_a_deleted_one_is_gone() {
        let data = tempfile::tempdir().unwrap();
        let keys = EmbeddedKeyManager::open(data.path()).unwrap();
        let id = Uuid::from_u128(7);
        let reference = keys.store(id, SecretPayload::new("s3cret"), &of("p"), &work()).await.unwrap();
        assert_eq!(keys.read(&reference, &of("p"), &work()).await.unwrap().expose(), "s3cret");
        assert!(matches!(keys.read(&reference, &of("q"), &work()).await, Err(PortError::Forbidden(_))));
        let again = keys.store(id, SecretPayload::new("other"), &of("p"), &work()).await.unwrap();
        assert_eq!(
            keys.read(&again, &of("p"), &work()).await.unwrap().expose(),
            "s3cret",
            "a repeated store changes nothing"
        );
        assert!(keys.store(id, SecretPayload::new("mine"), &of("q"), &work()).await.is_err());
        let file = data.path().join("secrets").join(id.to_string());
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let reopened = EmbeddedKeyManager::open(data.path()).unwrap();
        assert_eq!(reopened.read(&reference, &of("p"), &work()).await.unwrap().expose(), "s3cret");
        reopened.delete(&reference, &work()).await.unwrap();
        reopened.delete(&reference, &work()).await.unwrap();
        assert!(matches!(keys.read(&reference, &of("p"), &work()).await, Err(PortError::NotFound(_))));
        assert!(matches!(keys.read("../token.key", &of("p"), &work()).await, Err(PortError::NotFound(_))));
        assert!(!format!("{:?}", SecretPayload::new("s3cret")).contains("s3cret"));
    }
}
