//! The reports of a host's agent: the resources, traits and ratios of the host.
//!
//! A host reports when it connects. It reports again every `[DEFAULT] update_resources_interval` and at SIGHUP. All
//! commands can be repeated without harm.

use std::sync::Arc;

use chronova_events::envelope::Meta;
use chronova_events::host::{KnownHost, Registered};
use chronova_events::ids::{HostId, ProviderId};
use chronova_events::ledger::Ledger;
use chronova_events::store::EventStore;
use chronova_hypervisor::driver::Driver;
use chronova_hypervisor::guest::HostCapabilities;

use super::capacity::{capabilities, resources, settle_traits};
use super::context::HostContext;
use super::fleet::ConnectedHost;
use crate::aggregate::AggregateRoot as _;
use crate::host::{HostCommand, HostRoot};
use crate::ledger::{CELL, LedgerCommand, LedgerRoot, ReportedPci, provider_config};
use crate::pci::cards;
use crate::pci::host::{warn_of_kept, warn_of_old_libvirt};
use crate::reconcile::placement;

/// Reports one host.
pub(super) struct HostReporter<'a> {
    pub(super) context: &'a HostContext,
    pub(super) store: &'a Arc<dyn EventStore>,
    pub(super) driver: &'a Arc<dyn Driver>,
    pub(super) member: Option<&'a ConnectedHost>,
}

impl HostReporter<'_> {
    /// Registers a host that has connected.
    ///
    /// # Errors
    /// The operator's options do not fit the host, or a command failed.
    pub(super) async fn report(&self, found: &HostCapabilities) -> Result<(), String> {
        let known = self.known(found.host);
        // The capacity comes first, because the scheduler may choose a host as soon as it is up.
        let resources = self.resources(known.as_ref(), found).await?;
        self.warn_of_devices(found, &resources[0]);
        self.send_to_ledger(resources).await?;
        self.send_to_host(known, found).await?;
        self.warn_of_absent_providers().await;
        Ok(())
    }

    /// Applies `provider.yaml` again. If `resources` is true, also reports the host's resources again.
    pub(super) async fn renew(&self, host: HostId, resources: bool) {
        if resources && let Err(error) = self.renew_resources(host).await {
            tracing::warn!(%host, error, "reporting a host's resources again failed, retrying");
        }
        self.renew_additions(host).await;
    }

    /// Reports the host again (Nova's `update_available_resource`). Sends nothing if the host and its provider in
    /// Placement are as in the last report.
    async fn renew_resources(&self, host: HostId) -> Result<(), String> {
        let mut found = self.driver.capabilities().await.map_err(|error| error.to_string())?;
        // Another host that answers under the URI is registered when the driver connects to it.
        if found.host != host {
            return Ok(());
        }
        settle_traits(&mut found, &**self.driver, &self.context.options);
        let Some(known) = self.known(host) else { return Ok(()) };
        let provider = ProviderId(host.0);
        let has_provider = self.context.views.placement.read(|view| view.ledger.providers.contains_key(&provider));
        let [report, apply, impose, adjust] = self.resources(Some(&known), &found).await?;
        // An operator may remove the host meanwhile. Then its provider must not come back.
        let report = match has_provider {
            true => LedgerCommand::IfKnown { provider, command: Box::new(report) },
            // A client of Placement has removed the provider.
            false if self.is_registered(host).await? => report,
            false => return Ok(()),
        };
        let resources = [report, apply, impose, adjust];
        // Most reports change nothing. The read model shows that without a command.
        let changes = |command: &LedgerCommand| {
            let decided = self.context.views.placement.read(|view| LedgerRoot::decide(&view.ledger, command.clone()));
            decided.map_or(true, |events| !events.is_empty())
        };
        if resources.iter().any(changes) {
            self.send_to_ledger(resources).await?;
        }
        if known.capabilities != capabilities(&found) || known.hostname != found.hostname {
            self.send_to_host(Some(known), &found).await?;
        }
        let mirrored = placement::plan_of(&self.context.views, host);
        self.send_to_ledger(mirrored.into_iter().map(LedgerCommand::from)).await
    }

    fn known(&self, host: HostId) -> Option<KnownHost> {
        self.context.views.hosts.read(|hosts| hosts.get(host).cloned())
    }

    /// Whether the host is registered, as its own stream says.
    async fn is_registered(&self, host: HostId) -> Result<bool, String> {
        let state = self.context.gateway.look::<HostRoot>(&host).await;
        state.map(|state| state.0.is_some()).map_err(|error| error.to_string())
    }

    /// The commands that bring the ledger up to date with the host. The first one is the report of its resources.
    async fn resources(
        &self,
        known: Option<&KnownHost>,
        found: &HostCapabilities,
    ) -> Result<[LedgerCommand; 4], String> {
        let (options, provider) = (&self.context.options, ProviderId(found.host.0));
        if let Some(member) = self.member {
            member.note_cards(cards::of_host(&found.pci));
        }
        let report = resources(found, options, self.look_at_cache().await)?;
        let configs = Arc::clone(&options.provider_configs);
        let apply = LedgerCommand::ApplyProviderConfig { host: provider, configs };
        let impose = LedgerCommand::ImposeRatios { provider, ratios: options.imposed_ratios.clone() };
        let remove = self.gone(provider, known, found);
        Ok([report, apply, impose, LedgerCommand::AdjustTraits { provider, add: vec![], remove }])
    }

    async fn send_to_ledger(&self, commands: impl IntoIterator<Item = LedgerCommand>) -> Result<(), String> {
        for command in commands {
            let sent = self.context.gateway.send::<LedgerRoot>(&CELL, command, Meta::system("host-watch")).await;
            sent.map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    async fn send_to_host(&self, known: Option<KnownHost>, found: &HostCapabilities) -> Result<(), String> {
        let report = Registered {
            host: found.host,
            number: known.map_or_else(|| self.context.fleet.next_number(), |host| host.number),
            hostname: found.hostname.clone(),
            uri: self.driver.uri().to_owned(),
            capabilities: capabilities(found),
        };
        let up = HostCommand::Report { report, admitted: self.context.options.enable_new_services };
        let sent = self.context.gateway.send::<HostRoot>(&found.host, up, Meta::system("host-watch")).await;
        sent.map(drop).map_err(|error| error.to_string())
    }

    /// Warns of entries of `provider.yaml` whose provider does not exist. The provider's host may still be silent, so
    /// there is no warning until every host has answered or failed.
    async fn warn_of_absent_providers(&self) {
        let configs = &self.context.options.provider_configs;
        self.context.fleet.hear_of(self.driver.uri());
        if configs.entries.is_empty()
            || self.context.fleet.awaits_some()
            || !self.context.views.wait_for(self.store.head(), self.context.options.resync).await
        {
            return;
        }
        self.context.views.placement.read(|view| {
            for entry in configs.absent(&view.ledger) {
                tracing::warn!(
                    source = %entry.source,
                    provider = %entry.identification,
                    "an entry of [compute] provider_config_location names a provider that no host has: the entry has no effect"
                );
            }
        });
    }

    /// Applies `provider.yaml` again if a client of Placement has changed the additions.
    async fn renew_additions(&self, host: HostId) {
        let (host, configs) = (ProviderId(host.0), Arc::clone(&self.context.options.provider_configs));
        let differs = |ledger: &Ledger| {
            ledger.providers.contains_key(&host)
                && provider_config::applied(ledger, host, &configs).is_ok_and(|events| !events.is_empty())
        };
        if !self.context.views.placement.read(|view| differs(&view.ledger)) {
            return;
        }
        let (apply, meta) = (LedgerCommand::ApplyProviderConfig { host, configs }, Meta::system("host-watch"));
        if let Err(error) = self.context.gateway.send::<LedgerRoot>(&CELL, apply, meta).await {
            tracing::warn!(%host, %error, "applying [compute] provider_config_location failed, retrying");
        }
    }

    /// Logs the devices that guests still have although the options no longer offer them. The guests keep these
    /// devices. Also logs devices that the host's libvirt may not give to guests.
    fn warn_of_devices(&self, host: &HostCapabilities, report: &LedgerCommand) {
        let LedgerCommand::Report { pci: ReportedPci { devices: Some(found), .. }, name, .. } = report else { return };
        let provider = ProviderId(host.host.0);
        self.context.views.placement.read(|view| warn_of_kept(&view.ledger, provider, name, found));
        warn_of_old_libvirt(found, name, host.libvirt_version);
    }

    /// The bytes to reserve for the image cache. If the cache cannot be read, this is the last known number.
    async fn look_at_cache(&self) -> u64 {
        let Some(member) = self.member.filter(|_| self.context.image_cache.reserve_disk) else {
            return 0;
        };
        let Some(cache) = self.driver.image_cache() else { return 0 };
        match cache.cached_images().await {
            Ok(found) => {
                member.note_cached(found.iter().map(|image| image.size).sum());
            }
            Err(error) => tracing::debug!(host = %member.hostname, %error, "reading the image cache's size failed"),
        }
        member.cached()
    }

    /// The traits to remove: those that the host reported before but does not offer now, and other `COMPUTE_...` traits
    /// that it does not offer. `COMPUTE_STATUS_DISABLED` stays. All other traits stay, too, because clients of
    /// Placement may have set them.
    fn gone(&self, provider: ProviderId, known: Option<&KnownHost>, found: &HostCapabilities) -> Vec<String> {
        let shown =
            self.context.views.placement.read(|view| {
                view.ledger.providers.get(&provider).map(|known| known.traits.clone()).unwrap_or_default()
            });
        let reported = |name: &String| known.is_some_and(|host| host.capabilities.traits.contains(name));
        let of_driver = |name: &String| name.starts_with("COMPUTE_") && name != placement::DISABLED;
        shown.into_iter().filter(|name| !found.traits.contains(name) && (reported(name) || of_driver(name))).collect()
    }
}
