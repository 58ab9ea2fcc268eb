//! Restores a host's own traits and additions in Placement if a client of Placement has changed them.
//!
//! The rules are those of Nova's periodic update of a provider tree. A trait that the host reports comes back. Another
//! `COMPUTE_...` trait goes, unless it is [`placement::DISABLED`]. All other traits stay, because clients may set them.

use std::sync::Arc;

use chronova_events::envelope::Meta;
use chronova_events::ids::{HostId, ProviderId};
use chronova_events::ledger::Ledger;

use super::context::HostContext;
use crate::ledger::{CELL, LedgerCommand, LedgerRoot, provider_config};
use crate::reconcile::placement;

pub(super) async fn put_right(context: &HostContext, host: HostId) {
    if let Some(command) = traits(context, host) {
        send(context, command, "restoring the traits of a host failed, retrying").await;
    }
    let (provider, configs) = (ProviderId(host.0), Arc::clone(&context.options.provider_configs));
    let differs = |ledger: &Ledger| {
        ledger.providers.contains_key(&provider)
            && provider_config::applied(ledger, provider, &configs).is_ok_and(|events| !events.is_empty())
    };
    if context.views.placement.read(|view| differs(&view.ledger)) {
        let apply = LedgerCommand::ApplyProviderConfig { host: provider, configs };
        send(context, apply, "applying [compute] provider_config_location failed, retrying").await;
    }
}

/// The change that restores the host's traits; `None`: they are as the host reported them.
fn traits(context: &HostContext, host: HostId) -> Option<LedgerCommand> {
    let own = context.views.hosts.read(|hosts| hosts.get(host).map(|known| known.capabilities.traits.clone()))?;
    let provider = ProviderId(host.0);
    let shown =
        context.views.placement.read(|view| view.ledger.providers.get(&provider).map(|known| known.traits.clone()))?;
    let add: Vec<String> = own.iter().filter(|name| !shown.contains(*name)).cloned().collect();
    let is_strange = |name: &String| name.starts_with("COMPUTE_") && name != placement::DISABLED && !own.contains(name);
    let remove: Vec<String> = shown.iter().filter(|name| is_strange(name)).cloned().collect();
    (!add.is_empty() || !remove.is_empty()).then_some(LedgerCommand::AdjustTraits { provider, add, remove })
}

async fn send(context: &HostContext, command: LedgerCommand, failure: &'static str) {
    if let Err(error) = context.gateway.send::<LedgerRoot>(&CELL, command, Meta::system("host-watch")).await {
        tracing::warn!(%error, "{failure}");
    }
}
