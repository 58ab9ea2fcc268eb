//! The conformance suite on a real libvirtd and QEMU.
//!
//! `CHRONOVA_TEST_LIBVIRT_URI` names the host, `CHRONOVA_TEST_IMAGE` a bootable qcow2 whose guest writes `GUEST-READY` to
//! its first serial port and reacts to the ACPI power button. Without them the tests say so and pass.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chronova_events::ids::{ImageId, NetworkId};
use chronova_hypervisor::conformance::{self, Fixture};
use chronova_hypervisor::connect::{self, DriverOptions};
use chronova_hypervisor::guest::{ImageFormat, ImageRef, NetworkSpec, SubnetSpec};
use chronova_hypervisor::options::LibvirtOptions;
use sha2::{Digest, Sha512};

fn image(content: &Bytes) -> ImageRef {
    let checksum = Sha512::digest(content).iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
    // A qcow2 header holds the virtual size, big-endian, at byte 24.
    let virtual_size = u64::from_be_bytes(content[24..32].try_into().unwrap());
    ImageRef { id: ImageId::random(), checksum, format: ImageFormat::Qcow2, size: content.len() as u64, virtual_size }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_host_conforms() {
    let (Ok(uri), Ok(path)) = (std::env::var("CHRONOVA_TEST_LIBVIRT_URI"), std::env::var("CHRONOVA_TEST_IMAGE")) else {
        println!("SKIP: CHRONOVA_TEST_LIBVIRT_URI and CHRONOVA_TEST_IMAGE are not set");
        return;
    };
    let content = Bytes::from(std::fs::read(path).unwrap());
    let subnet = SubnetSpec {
        cidr: "10.199.77.0/24".to_owned(),
        gateway: Some("10.199.77.1".to_owned()),
        dhcp: true,
        dns: Vec::new(),
    };
    let fixture = Fixture {
        image: image(&content),
        content,
        network: NetworkSpec {
            network: NetworkId::random(),
            mtu: 1450,
            subnets: vec![subnet],
            reservations: Vec::new(),
        },
        address: "10.199.77.7".to_owned(),
        ready: "GUEST-READY".to_owned(),
        memory_mib: 128,
        patience: Duration::from_mins(2),
        filters: true,
    };
    let libvirt = LibvirtOptions {
        pool_name: "chronova-test".to_owned(),
        pool_path: "/var/lib/libvirt/chronova-test".to_owned(),
        ..LibvirtOptions::default()
    };
    let driver = connect::open(&uri, &DriverOptions { libvirt, ..DriverOptions::default() }).unwrap().remove(0);
    let driver: Arc<_> = driver;
    if let Err(violation) = conformance::run(driver, fixture).await {
        panic!("{violation}");
    }
}
