//! The targets of option values: the options of every crate, in one struct.
//!
//! A declaration in [`options`](super::options) names the field of [`Targets`] that takes its value. The default of
//! such an option is the field's value in the `Default` of the field's struct, so that it is written only once. A
//! declaration names a default only where no field can hold it. There are three cases: no field takes the value, the
//! default depends on the machine, or the field stores only a part of the option's value.

use std::sync::LazyLock;

use chronova_actors::runtime::RuntimeOptions;
use chronova_events::store::sqlite::SqliteOptions;
use chronova_hypervisor::backend::DriverOptions;
use chronova_projections::checkpoint::{CheckpointOptions, KeeperOptions};
use chronova_projections::history::HistoryOptions;
use chronova_web::compute::ComputeConfig;
use chronova_web::config::WebConfig;
use chronova_web::identity::IdentityOptions;
use chronova_web::identity::catalogue::ServiceCatalogue;
use chronova_web::server::HttpOptions;

use crate::telemetry::LogSettings;

/// The options of every crate. `Config::targets` fills them.
#[derive(Debug, Clone)]
pub struct Targets {
    /// How the program logs.
    pub log: LogSettings,
    /// How the event log is kept.
    pub store: SqliteOptions,
    /// Which checkpoints of the read models are kept.
    pub checkpoints: CheckpointOptions,
    /// When checkpoints are written.
    pub keeper: KeeperOptions,
    /// The limits of questions about the past.
    pub history: HistoryOptions,
    /// Actors, processes, reconcilers, the scheduler.
    pub runtime: RuntimeOptions,
    /// The drivers of compute hosts.
    pub drivers: DriverOptions,
    /// The embedded identity service. Its catalogue is empty here, because `serve` fills it from the listeners.
    pub identity: IdentityOptions,
    /// The Compute API.
    pub compute: ComputeConfig,
    /// Options that all APIs share.
    pub web: WebConfig,
    /// The listeners' workers, timeouts and TLS.
    pub serving: HttpOptions,
}

impl Default for Targets {
    fn default() -> Self {
        Self {
            log: LogSettings::default(),
            store: SqliteOptions::default(),
            checkpoints: CheckpointOptions::default(),
            keeper: KeeperOptions::default(),
            history: HistoryOptions::default(),
            runtime: RuntimeOptions::default(),
            drivers: DriverOptions::default(),
            identity: IdentityOptions::new(ServiceCatalogue { region: String::new(), services: Vec::new() }),
            compute: ComputeConfig::default(),
            web: WebConfig::default(),
            serving: HttpOptions::default(),
        }
    }
}

/// The owners' defaults.
pub(super) fn owners() -> &'static Targets {
    static OWNERS: LazyLock<Targets> = LazyLock::new(Targets::default);
    &OWNERS
}

/// One use of an option's value.
#[derive(Debug, Clone, Copy)]
pub enum OptionUse {
    /// A field of [`Targets`] takes it. The function returns the field's value as text for a file, or `None` if the
    /// option is unset.
    Field(fn(&Targets) -> Option<String>),
    /// This crate reads the value: `derived.rs` combines several options into one value, or the program reads it
    /// itself.
    Here,
}

#[cfg(test)]
mod tests;
