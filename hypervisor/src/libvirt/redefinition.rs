//! Gives an existing guest another definition, for a rebuild, a rescue, an unrescue, a start or a hard reboot.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;

use super::definition;
use super::host::LibvirtDriver;
use crate::capability::Redefinition;
use crate::domain_xml::HostFacts;
use crate::driver::DriverResult;
use crate::guest::{GuestSpec, Renew};

#[async_trait]
impl Redefinition for LibvirtDriver {
    async fn redefine(&self, guest: &GuestSpec, renew: Renew) -> DriverResult<()> {
        let known = self.known().await?;
        let (spec, link) = (guest.clone(), Arc::clone(&self.link));
        let direct_io = Arc::clone(&self.direct_io);
        // Without new disks, no content is copied, so a host that hangs is noticed soon.
        let deadline = match renew {
            Renew::Definition | Renew::AtStart => self.options.call_deadline * 3,
            Renew::Nothing | Renew::Root | Renew::All => self.making(),
        };
        let secrets = self.hold_secrets(&guest.volumes, "redefine", deadline).await?;
        self.change("redefine", guest.instance, deadline, move |connect, options| {
            let _until_done = secrets;
            let facts = HostFacts { direct_io: direct_io.load(Ordering::Relaxed), ..known.facts.clone() };
            if definition::redefine(connect, options, &facts, &spec, renew)? == definition::HostFinding::NoDirectIo {
                direct_io.store(false, Ordering::Relaxed);
            }
            link.guests_known().ours.insert(spec.instance);
            Ok(())
        })
        .await
    }
}
