//! Reads how the guests and the virtual networks of a host are defined.

use std::collections::BTreeSet;

use async_trait::async_trait;
use virt::connect::Connect;

use super::error::Context as _;
use super::host::LibvirtDriver;
use super::{domain, network};
use crate::capability::GuestDefinitions;
use crate::domain_xml;
use crate::driver::{DriverError, DriverResult};
use crate::found::FoundGuest;
use crate::guest::NetworkSpec;

const CALL: &str = "guest definitions";

fn guests(connect: &Connect) -> DriverResult<Vec<FoundGuest>> {
    let mut guests = Vec::new();
    for status in domain::list(connect, &BTreeSet::new())? {
        // The guest may have been undefined meanwhile.
        let Some(domain) = domain::lookup(connect, status.instance)? else { continue };
        let xml = domain.xml_desc(virt_sys::VIR_DOMAIN_XML_INACTIVE).during(CALL)?;
        let saved = domain.has_managed_save(0).during(CALL)?;
        let unreadable = |error| {
            let message = format!("the definition of {} cannot be read: {error}", status.domain_name);
            DriverError::Failed { call: CALL, message }
        };
        guests.push(domain_xml::found(&xml, &status, saved).map_err(unreadable)?);
    }
    Ok(guests)
}

#[async_trait]
impl GuestDefinitions for LibvirtDriver {
    async fn found_guests(&self) -> DriverResult<Vec<FoundGuest>> {
        self.ask(CALL, |connect, _| guests(connect)).await
    }

    async fn found_networks(&self) -> DriverResult<Vec<NetworkSpec>> {
        self.ask(CALL, |connect, _| network::found_all(connect)).await
    }
}
