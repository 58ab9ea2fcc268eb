//! A key manager in memory, which survives the crashes of a world.

use std::collections::BTreeMap;
use std::sync::Mutex;

use async_trait::async_trait;
use chronova_actors::ports::PortError;
use chronova_actors::ports::keys::{KeyManager, KeyRequester, SecretPayload};
use chronova_events::envelope::Meta;
use chronova_events::ids::ProjectId;
use uuid::Uuid;

#[derive(Default)]
pub struct MemoryKeys {
    kept: Mutex<BTreeMap<Uuid, (ProjectId, SecretPayload)>>,
}

impl MemoryKeys {
    /// The ids of all secrets, sorted.
    pub fn secrets(&self) -> Vec<Uuid> {
        self.kept.lock().unwrap().keys().copied().collect()
    }

    /// Replaces the payloads of all secrets.
    pub fn spoil(&self) {
        for (_, payload) in self.kept.lock().unwrap().values_mut() {
            *payload = SecretPayload::new("another");
        }
    }

    /// Loses all secrets.
    pub fn lose(&self) {
        self.kept.lock().unwrap().clear();
    }
}

fn id_of(reference: &str) -> Result<Uuid, PortError> {
    reference.parse().map_err(|_| PortError::NotFound(format!("no secret {reference}")))
}

#[async_trait]
impl KeyManager for MemoryKeys {
    async fn store(
        &self,
        id: Uuid,
        payload: SecretPayload,
        requester: &KeyRequester,
        _: &Meta,
    ) -> Result<String, PortError> {
        self.kept.lock().unwrap().entry(id).or_insert_with(|| (requester.project.clone(), payload));
        Ok(id.to_string())
    }

    async fn read(&self, reference: &str, requester: &KeyRequester, _: &Meta) -> Result<SecretPayload, PortError> {
        match self.kept.lock().unwrap().get(&id_of(reference)?) {
            None => Err(PortError::NotFound(format!("no secret {reference}"))),
            Some((project, payload)) if *project == requester.project => Ok(payload.clone()),
            Some(_) => Err(PortError::Forbidden("another project's".to_owned())),
        }
    }

    async fn delete(&self, reference: &str, _: &Meta) -> Result<(), PortError> {
        if let Ok(id) = id_of(reference) {
            self.kept.lock().unwrap().remove(&id);
        }
        Ok(())
    }
}
