//! Attaches interfaces to guests and detaches them.

use std::time::Duration;

use async_trait::async_trait;
use chronova_events::ids::InstanceId;
use tokio::time::{Instant, sleep};

use super::error::Context as _;
use super::host::LibvirtDriver;
use super::{domain, nics};
use crate::capability::InterfaceAttachment;
use crate::domain_xml;
use crate::driver::{DriverError, DriverResult};
use crate::guest::Nic;

/// The pause between two checks of a guest that must release an interface.
const DETACH_POLL: Duration = Duration::from_millis(250);

#[async_trait]
impl InterfaceAttachment for LibvirtDriver {
    async fn attach_nic(&self, instance: InstanceId, nic: &Nic, hardware: &[(String, String)]) -> DriverResult<()> {
        const CALL: &str = "interface attachment";
        let known = self.known().await?;
        let unsupported = |error: domain_xml::HardwareError| DriverError::Unsupported(error.to_string());
        // An interface that cannot be rendered is refused before any call about the guest.
        domain_xml::render_interface(nic, hardware, 1, &known.facts).map_err(unsupported)?;
        let (nic, hardware) = (nic.clone(), hardware.to_vec());
        self.change(CALL, instance, self.options.call_deadline, move |connect, _| {
            let domain = domain::require(connect, instance)?;
            let vcpus = domain.info().during(CALL)?.nr_virt_cpu;
            let xml = domain_xml::render_interface(&nic, &hardware, vcpus, &known.facts).map_err(unsupported)?;
            nics::attach(&domain, &nic.mac, &xml)
        })
        .await
    }

    /// As in Nova, the driver asks the guest, gives it time, and asks it again.
    async fn detach_nic(&self, instance: InstanceId, mac: &str) -> DriverResult<()> {
        for _ in 0..self.options.device_detach_attempts.max(1) {
            let wanted = mac.to_owned();
            self.change("interface detachment", instance, self.options.call_deadline, move |connect, _| {
                nics::ask_to_let_go(&domain::require(connect, instance)?, &wanted)
            })
            .await?;
            let end = Instant::now() + self.options.device_detach_timeout;
            loop {
                let wanted = mac.to_owned();
                let gone = self.call("interface detachment", move |connect, _| {
                    nics::forget_if_gone(&domain::require(connect, instance)?, &wanted)
                });
                if gone.await? {
                    return Ok(());
                }
                if Instant::now() >= end {
                    break;
                }
                sleep(DETACH_POLL).await;
            }
        }
        let message = "the guest did not release the device".to_owned();
        Err(DriverError::Failed { call: "interface detachment", message })
    }

    async fn nics(&self, instance: InstanceId) -> DriverResult<Vec<String>> {
        self.ask("interfaces", move |connect, _| nics::macs(&domain::require(connect, instance)?)).await
    }
}
