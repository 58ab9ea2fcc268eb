//! The mark on a host that names the event log that drives the host, by its installation and its generation
//! ([`crate::capability::owner_mark`]). The mark is a libvirt secret without a value, which libvirtd keeps on its disk.
//!
//! libvirt has no place for notes about a host, but every libvirtd stores secrets, and one call replaces a secret. The
//! secret's id derives from the installation's id, and its description has the generation.

use async_trait::async_trait;
use chronova_events::envelope::Timestamp;
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
/// The words before the time of the takeover. The time is in microseconds since 1970.
const TAKEN: &str = "taken-over-at=";

/// The id of the secret. Each installation has its own.
fn secret_of(installation: Uuid) -> Uuid {
    Uuid::new_v5(&installation, b"chronova-owner")
}

fn read(connect: &Connect, installation: Uuid) -> DriverResult<Option<HostOwner>> {
    let Some(secret) = found(CALL, connect.lookup_secret_by_uuid(secret_of(installation)))? else { return Ok(None) };
    let xml = secret.xml_desc(0).during(CALL)?;
    let unreadable = || DriverError::Failed { call: CALL, message: format!("the mark cannot be read: {xml}") };
    owner_in(&xml, installation).map(Some).ok_or_else(unreadable)
}

fn owner_in(xml: &str, installation: Uuid) -> Option<HostOwner> {
    let document = roxmltree::Document::parse(xml).ok()?;
    let description = document.descendants().find(|node| node.has_tag_name("description"))?.text()?;
    let words = description.trim().strip_prefix(WORDS)?;
    let generation = words.split_whitespace().next()?.parse().ok()?;
    let taken_at = words.split_whitespace().find_map(|word| word.strip_prefix(TAKEN));
    Some(HostOwner { installation, generation, taken_at: taken_at.map(str::parse).transpose().ok()?.map(Timestamp) })
}

fn mark(owner: HostOwner) -> Element {
    let taken_at = owner.taken_at.map_or_else(String::new, |at| format!(" {TAKEN}{}", at.0));
    let description = format!("{WORDS}{} of the installation {}{taken_at}", owner.generation, owner.installation);
    Element::new("secret")
        .attr("ephemeral", "no")
        .attr("private", "yes")
        .child(Element::leaf("uuid", secret_of(owner.installation)))
        .child(Element::leaf("description", description))
}

#[async_trait]
impl OwnerMark for LibvirtDriver {
    async fn owner_of(&self, installation: Uuid) -> DriverResult<Option<HostOwner>> {
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
    fn a_mark_tells_its_owner() {
        let [installation, generation] = [1, 2].map(Uuid::from_u128);
        for taken_at in [None, Some(Timestamp(1_700_000_000_000_007))] {
            let owner = HostOwner { installation, generation, taken_at };
            assert_eq!(owner_in(&mark(owner).render(), installation), Some(owner));
        }
        let other = "<secret><uuid>x</uuid><description>a secret of somebody else</description></secret>";
        assert_eq!(owner_in(other, installation), None);
    }
}
