//! The mark of the log that drives the host: a libvirt secret without a value, which libvirtd keeps on its disk.
//!
//! libvirt has no place for notes about a host, but every libvirtd stores secrets, and one call replaces a secret. The
//! secret's id derives from the installation's id, and its description has the generation.

use async_trait::async_trait;
use uuid::Uuid;
use virt::connect::Connect;

use super::error::{Context as _, found};
use super::host::LibvirtDriver;
use crate::capability::OwnerMark;
use crate::capability::owner_mark::HostOwner;
use crate::driver::{DriverError, DriverResult};
use crate::xml::Element;

const CALL: &str = "owner mark";
const WORDS: &str = "Chronova: this host is driven by generation ";

/// The id of the secret. Each installation has its own.
fn secret_of(installation: Uuid) -> Uuid {
    Uuid::new_v5(&installation, b"chronova-owner")
}

fn read(connect: &Connect, installation: Uuid) -> DriverResult<Option<Uuid>> {
    let Some(secret) = found(CALL, connect.lookup_secret_by_uuid(secret_of(installation)))? else { return Ok(None) };
    let xml = secret.xml_desc(0).during(CALL)?;
    let unreadable = || DriverError::Failed { call: CALL, message: format!("the mark cannot be read: {xml}") };
    generation_in(&xml).map(Some).ok_or_else(unreadable)
}

fn generation_in(xml: &str) -> Option<Uuid> {
    let document = roxmltree::Document::parse(xml).ok()?;
    let description = document.descendants().find(|node| node.has_tag_name("description"))?.text()?;
    description.trim().strip_prefix(WORDS)?.split_whitespace().next()?.parse().ok()
}

fn mark(owner: HostOwner) -> Element {
    let description = format!("{WORDS}{} of the installation {}", owner.generation, owner.installation);
    Element::new("secret")
        .attr("ephemeral", "no")
        .attr("private", "yes")
        .child(Element::leaf("uuid", secret_of(owner.installation)))
        .child(Element::leaf("description", description))
}

#[async_trait]
impl OwnerMark for LibvirtDriver {
    async fn generation_of(&self, installation: Uuid) -> DriverResult<Option<Uuid>> {
        self.ask(CALL, move |connect, _| read(connect, installation)).await
    }

    async fn remember(&self, owner: HostOwner) -> DriverResult<()> {
        self.ask(CALL, move |connect, _| connect.define_secret_xml(&mark(owner).render(), 0).during(CALL).map(drop))
            .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_tells_its_generation() {
        let owner = HostOwner { installation: Uuid::from_u128(1), generation: Uuid::from_u128(2) };
        assert_eq!(generation_in(&mark(owner).render()), Some(owner.generation));
        let other = "<secret><uuid>x</uuid><description>a secret of somebody else</description></secret>";
        assert_eq!(generation_in(other), None);
    }
}
