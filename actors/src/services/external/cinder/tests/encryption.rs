//! Volumes of encrypted types.

use std::sync::Mutex;

use async_trait::async_trait;
use chronova_hypervisor::guest::NetworkDisk;

use super::*;
use crate::ports::keys::SecretPayload;

const KEY: &str = "00000000-0000-4000-8000-000000000005";

/// A key manager with one key. It keeps which key was asked for, and for which request.
#[derive(Debug, Default)]
struct OneKey(Mutex<Vec<(String, Option<RequestId>)>>);

#[async_trait]
impl VolumeKeyKeeper for OneKey {
    async fn passphrase(&self, id: &str, work: &Meta) -> Result<SecretPayload, PortError> {
        self.0.lock().unwrap().push((id.to_owned(), work.request_id.clone()));
        match id {
            KEY => Ok(SecretPayload::new("00ff")),
            "silent" => Err(PortError::Unavailable("no answer".to_owned())),
            _ => Err(PortError::Forbidden("not yours".to_owned())),
        }
    }
}

/// A Cinder with an encrypted volume of this description.
async fn encrypted(encryption: Value) -> StubService {
    stub(move |call| {
        if call.line.ends_with("/encryption") {
            return says(200, &encryption);
        }
        if call.line.contains("/volumes/") {
            return says(200, &json!({"volume": shown(&json!({"encrypted": true}))}));
        }
        let mut one = attached("attached");
        one["connection_info"] = json!({"driver_volume_type": "rbd", "encrypted": true, "name": "volumes/v",
            "hosts": ["h"], "ports": ["6789"]});
        says(200, &json!({"attachment": one}))
    })
    .await
}

fn luks(key: &str) -> Value {
    json!({"encryption_key_id": key, "provider": "luks", "control_location": "front-end", "cipher": "aes-xts-plain64",
        "key_size": 256})
}

async fn disk(cinder: &CinderVolumes) -> Result<NetworkDisk, PortError> {
    cinder.network_disk(volume(), attachment(), "node-1", work()).await.map(Option::unwrap)
}

#[tokio::test]
async fn an_encrypted_volume_gets_the_passphrase_of_its_key_in_the_name_of_the_user() {
    let stub = encrypted(luks(KEY)).await;
    let keys = Arc::new(OneKey::default());
    let cinder = cinder_with(&stub, LONG, Some(Arc::clone(&keys) as _));
    let way = cinder.connect(volume(), attachment(), "node-1", None, work()).await.unwrap();
    assert_eq!((way.pool.as_str(), way.volume.as_str()), ("volumes", "v"));
    let found = disk(&cinder).await.unwrap();
    let (plain, passphrase) = found.opened();
    assert!(matches!(plain, NetworkDisk::Rbd { name, .. } if name == "volumes/v"), "{plain:?}");
    assert_eq!(passphrase.unwrap().expose(), "00ff");
    assert!(!format!("{way:?}{found:?}").contains("00ff"), "a passphrase is shown");
    let asked = keys.0.lock().unwrap().clone();
    assert!(!asked.is_empty());
    assert!(asked.iter().all(|(key, request)| key == KEY && *request == Some(RequestId::new("req-1"))), "{asked:?}");
    assert_eq!(stub.count(&format!("GET /v3/service/volumes/{}/encryption", volume())), 2);
}

#[tokio::test]
async fn a_volume_that_its_back_end_decrypts_needs_no_key() {
    let mut encryption = luks(KEY);
    encryption["control_location"] = json!("back-end");
    let stub = encrypted(encryption).await;
    let found = disk(&cinder(&stub, LONG)).await.unwrap();
    assert!(found.opened().1.is_none(), "{found:?}");
}

#[tokio::test]
async fn an_encrypted_volume_that_no_guest_could_read_is_refused_before_it_is_attached() {
    let provider = |name: &str| {
        let mut encryption = luks(KEY);
        encryption["provider"] = json!(name);
        encryption
    };
    for (encryption, has_keys, words) in [
        (luks(KEY), false, "has no key manager"),
        (luks("another"), true, "cannot be read: not yours"),
        (provider("plain"), true, "encrypted by plain"),
        (provider("luks2"), true, "encrypted by luks2"),
        (json!({"encryption_key_id": KEY}), true, "encrypted by no named provider"),
        (json!({"encryption_key_id": null, "provider": "luks"}), true, "names no key"),
    ] {
        let stub = encrypted(encryption).await;
        let keys = has_keys.then(|| Arc::new(OneKey::default()) as Arc<dyn VolumeKeyKeeper>);
        let refused = cinder_with(&stub, LONG, keys).connect(volume(), attachment(), "node-1", None, work()).await;
        assert!(matches!(&refused, Err(PortError::Invalid(told)) if told.contains(words)), "{words}: {refused:?}");
    }
    for (encryption, fits) in [
        (provider("nova.volume.encryptors.luks.LuksEncryptor"), true),
        (provider("LuksEncryptor"), true),
        (luks("silent"), false),
    ] {
        let stub = encrypted(encryption).await;
        let found = disk(&cinder_with(&stub, LONG, Some(Arc::new(OneKey::default())))).await;
        assert_eq!(found.is_ok(), fits, "{found:?}");
        assert!(fits || matches!(found, Err(PortError::Unavailable(_))), "{found:?}");
    }
}
