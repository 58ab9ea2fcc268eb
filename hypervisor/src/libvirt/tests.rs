//! Tests of a connection that ends during a query, of a host's interfaces, and of the mode of a config drive.

#![allow(clippy::unwrap_used)]
use super::host::{LibvirtDriver, QUESTIONERS};
use super::pool;
use crate::capability::live_migration::LiveMigration as _;
use crate::driver::{Driver as _, DriverError};
use crate::options::LibvirtOptions;
use std::sync::{Arc, Mutex, mpsc};
use virt::connect::Connect;

#[tokio::test(flavor = "multi_thread")]
async fn a_hung_query_ends_with_the_connection_and_frees_its_thread() {
    let driver = Arc::new(LibvirtDriver::new("test:///default", &LibvirtOptions::default()));
    let (release, gate) = mpsc::sync_channel::<()>(0);
    let (begun, mut hung) = tokio::sync::mpsc::channel(QUESTIONERS);
    let gate = Arc::new(Mutex::new(gate));
    let asked: Vec<_> = (0..QUESTIONERS)
        .map(|_| {
            let (driver, gate, begun) = (Arc::clone(&driver), Arc::clone(&gate), begun.clone());
            let ask = async move {
                driver
                    .ask("hang", move |_, _| {
                        begun.blocking_send(()).unwrap();
                        let _ = gate.lock().unwrap().recv();
                        Ok(())
                    })
                    .await
            };
            tokio::spawn(ask)
        })
        .collect();
    for _ in 0..QUESTIONERS {
        hung.recv().await.unwrap();
    }
    let session = driver.link.connect().await.unwrap();
    driver.link.down("cut off".to_owned());
    for asked in asked {
        let answer = asked.await.unwrap();
        assert!(matches!(&answer, Err(DriverError::Unreachable(why)) if why == "cut off"), "{answer:?}");
    }
    assert!(matches!(driver.link.line(&session), Err(DriverError::Unreachable(_))));
    driver.link.up(&Arc::new(Connect::open(Some("test:///default")).unwrap()));
    assert_eq!(driver.usage().await.unwrap().running_guests, 0);
    drop(release);
}

/// libvirt's mock host has an interface eth1 with an address.
#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_interface_has_no_address() {
    let driver = LibvirtDriver::new("test:///default", &LibvirtOptions::default());
    assert_eq!(driver.interface_address("eth1").await.unwrap().as_deref(), Some("192.168.0.5"));
    assert_eq!(driver.interface_address("moves0").await.unwrap(), None);
}

/// libvirt's mock host creates volumes but accepts no uploads.
#[test]
fn a_config_drive_is_stored_with_mode_0600() {
    let connect = Connect::open(Some("test:///default")).unwrap();
    let pool = connect.lookup_storage_pool_by_name("default-pool").unwrap();
    let name = crate::volumes::config_drive(chronova_events::ids::InstanceId(uuid::Uuid::nil()));
    let _ = pool::put(&connect, &pool, &name, b"user data");
    let volume = pool::lookup(&pool, &name).unwrap().unwrap();
    let xml = volume.xml_desc(0).unwrap();
    assert!(xml.contains("<mode>0600</mode>"), "{xml}");
}
