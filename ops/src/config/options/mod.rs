//! The one table of options.
//!
//! Each file declares the options of one theme with [`section!`]: name, type, default, bounds, meaning, origin. The
//! typed struct that the program reads, the checks of `chronova config check`, and the reference page come from these
//! declarations. An option that exists in Nova (or in oslo, Keystone, Glance, Neutron, Cinder) keeps its section, name,
//! default and meaning. Where Chronova's section or default differs, the help says so.
//!
//! After the type, a declaration names the uses of the value, at least one:
//!
//! * `=> web.max_limit by Whole`: the field `web.max_limit` of [`Targets`] takes the value; `Whole` of `conversions.rs`
//!   converts it. Without `by` the field has the option's own type. The field's default is the option's default, so the
//!   declaration names none.
//! * `=> compute.quota["cores"]`: an entry of a map takes the value.
//! * `=> here`: this crate reads the value, in `derived.rs` or under `serve`.
//!
//! A declaration without `=>` does not compile.

/// One [`OptionUse`](super::targets::OptionUse) of an option.
macro_rules! use_of {
    ($t:ty; here) => { $crate::config::targets::OptionUse::Here };
    ($t:ty; $($to:ident).+) => { use_of!($t; $($to).+ by Same) };
    ($t:ty; $($to:ident).+ by $form:ident) => {
        $crate::config::targets::OptionUse::Field(|targets| {
            $crate::config::conversions::text::<$crate::config::conversions::$form, $t, _>(&targets.$($to).+)
        })
    };
    ($t:ty; $($to:ident).+ [$entry:literal]) => {
        $crate::config::targets::OptionUse::Field(|targets| {
            targets.$($to).+.get($entry).and_then(<$t as $crate::config::OptionValue>::text)
        })
    };
}

/// Gives an option's value to the field that takes it.
macro_rules! hand_over {
    ($t:ty, $value:expr, $targets:ident; here) => {};
    ($t:ty, $value:expr, $targets:ident; $($to:ident).+) => {
        hand_over!($t, $value, $targets; $($to).+ by Same)
    };
    ($t:ty, $value:expr, $targets:ident; $($to:ident).+ by $form:ident) => {
        $targets.$($to).+ =
            <$crate::config::conversions::$form as $crate::config::conversions::Conversion<$t, _>>::give(&$value)
    };
    ($t:ty, $value:expr, $targets:ident; $($to:ident).+ [$entry:literal]) => {
        $targets.$($to).+.insert($entry, $value)
    };
}

/// Declares the options of one section: a struct with one field per option, and their [`super::OptionDef`]s.
macro_rules! section {
    (
        $(#[$doc:meta])*
        $ty:ident = $section:literal from $origin:ident {
            $(
                $field:ident : $t:ty $( => $($to:ident).+ $([$entry:literal])? $(by $form:ident)? )+ {
                    $($key:ident : $value:expr),* $(,)?
                }
            )*
        }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $ty {
            $( pub $field: $t, )*
        }

        impl $ty {
            pub const OPTIONS: &'static [$crate::config::OptionDef] = &[
                $( $crate::config::OptionDef {
                    $($key: $value,)*
                    uses: &[$( use_of!($t; $($to).+ $([$entry])? $(by $form)?) ),+],
                    ..$crate::config::OptionDef::new(
                        $section,
                        stringify!($field),
                        <$t as $crate::config::option::OptionValue>::KIND,
                        $crate::config::OptionOrigin::$origin,
                    )
                } ),*
            ];

            pub(in $crate::config) fn read(
                values: &mut $crate::config::values::Values<'_>,
            ) -> Option<Self> {
                let mut defs = Self::OPTIONS.iter();
                // All fields are read before a missing one ends the function, so that all problems are found.
                $( let $field: Option<$t> = defs.next().and_then(|def| values.take(def)); )*
                Some(Self { $( $field: $field?, )* })
            }

            /// Adds each value as text for a file.
            pub(in $crate::config) fn show(&self, into: &mut $crate::config::options::ShownValues) {
                $( into.insert(
                    ($section, stringify!($field)),
                    $crate::config::OptionValue::text(&self.$field),
                ); )*
            }

            /// Gives each value to the fields that take it.
            #[allow(unused_variables, reason = "this crate reads every option of some sections")]
            pub(in $crate::config) fn hand_over(&self, targets: &mut $crate::config::targets::Targets) {
                $( $( hand_over!($t, self.$field, targets; $($to).+ $([$entry])? $(by $form)?); )+ )*
            }
        }
    };
}

pub mod api;
pub mod chronova;
pub mod cluster;
pub mod consoles;
pub mod default;
pub mod devices;
pub mod eventstoredb;
pub mod key_manager;
pub mod keystone;
pub mod libvirt;
pub mod networks;
pub mod neutron;
pub mod notifications;
pub mod pci;
pub mod physnets;
pub mod scheduling;
pub mod services;

use std::collections::BTreeMap;

use super::targets::Targets;
use super::values::Values;
use super::{OptionDef, derived};

/// Values by section and name.
pub type ShownValues = BTreeMap<(&'static str, &'static str), Option<String>>;

/// Combines the sections into the configuration that the program reads and the list of all options.
macro_rules! configuration {
    ($( $(#[$doc:meta])* $field:ident : $ty:ty ),+ $(,)?) => {
        /// The whole configuration, checked. One field per section.
        #[derive(Debug, Clone, PartialEq)]
        pub struct Config {
            $( $(#[$doc])* pub $field: $ty, )+
        }

        impl Config {
            pub(in crate::config) fn read(values: &mut Values<'_>) -> Option<Self> {
                $( let $field = <$ty>::read(values); )+
                Some(Self { $( $field: $field?, )+ })
            }

            /// The value of each option as text for a file; `None` if it is unset. Secrets are among them.
            pub fn shown(&self) -> ShownValues {
                let mut shown = ShownValues::new();
                $( self.$field.show(&mut shown); )+
                shown
            }

            /// The options of every crate, with the values of this configuration.
            pub fn targets(&self) -> Targets {
                let mut targets = Targets::default();
                $( self.$field.hand_over(&mut targets); )+
                derived::settle(self, &mut targets);
                targets
            }
        }

        /// Every option, in the order of the reference page.
        pub static SECTIONS: &[&[OptionDef]] = &[$( <$ty>::OPTIONS, )+];
    };
}

configuration! {
    chronova: chronova::Chronova,
    cluster: cluster::Cluster,
    eventstoredb: eventstoredb::EventStoreDb,
    default: default::Default,
    oslo_reports: default::OsloReports,
    api: api::Api,
    oslo_policy: api::OsloPolicy,
    cors: api::Cors,
    oslo_middleware: api::OsloMiddleware,
    wsgi: api::Wsgi,
    quota: api::Quota,
    vnc: consoles::Vnc,
    spice: consoles::Spice,
    serial_console: consoles::SerialConsole,
    console: consoles::Console,
    consoleauth: consoles::ConsoleAuth,
    libvirt: libvirt::Libvirt,
    compute: libvirt::Compute,
    image_cache: libvirt::ImageCache,
    workarounds: libvirt::Workarounds,
    scheduler: scheduling::Scheduler,
    filter_scheduler: scheduling::FilterScheduler,
    scheduler_hook: scheduling::SchedulerHook,
    metrics: scheduling::Metrics,
    pci: pci::Pci,
    devices: devices::Devices,
    mdev_groups: devices::MdevGroups,
    keystone_authtoken: keystone::KeystoneAuthtoken,
    service_user: keystone::ServiceUser,
    vendordata_dynamic_auth: keystone::VendorDataAuth,
    /// Options of the embedded identity service.
    token: services::Token,
    security_compliance: services::SecurityCompliance,
    glance: services::Glance,
    key_manager: key_manager::KeyManager,
    barbican: key_manager::Barbican,
    vault: key_manager::Vault,
    neutron: neutron::Neutron,
    neutron_tunnel: physnets::NeutronTunnel,
    physnet_groups: physnets::PhysnetGroups,
    network: networks::NetworkSection,
    ovn: networks::OvnSection,
    notifications: notifications::Notifications,
    oslo_messaging_notifications: notifications::OsloMessagingNotifications,
    oslo_messaging_rabbit: notifications::OsloMessagingRabbit,
    cinder: services::Cinder,
    volume: services::Volume,
}

/// The option of this name. As in oslo, the case of the section does not matter, and `-` equals `_`.
pub fn find(section: &str, name: &str) -> Option<&'static OptionDef> {
    let name = name.replace('-', "_");
    SECTIONS.iter().copied().flatten().find(|def| def.section.eq_ignore_ascii_case(section) && def.name == name)
}

/// The option that used to have this name.
pub fn find_deprecated(section: &str, name: &str) -> Option<&'static OptionDef> {
    let name = name.replace('-', "_");
    let was = |def: &&OptionDef| def.deprecated.iter().any(|(s, n)| s.eq_ignore_ascii_case(section) && *n == name);
    SECTIONS.iter().copied().flatten().find(was)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::option::Default;
    use super::super::targets::{OptionUse, owners};
    use super::*;

    #[test]
    fn every_option_is_described_once() {
        let mut seen = BTreeSet::new();
        for def in SECTIONS.iter().copied().flatten() {
            assert!(seen.insert((def.section, def.name)), "{} is declared twice", def.title());
            assert!(def.help.len() > 15 && def.help.ends_with('.'), "{} needs a help sentence", def.title());
        }
    }

    /// The default of an option is either in its declaration or in the `Default` of the struct that takes it.
    #[test]
    fn no_default_is_declared_twice() {
        for def in SECTIONS.iter().copied().flatten() {
            assert!(!def.uses.is_empty(), "nothing uses {}", def.title());
            let owners: Vec<Option<String>> = def
                .uses
                .iter()
                .filter_map(|one| if let OptionUse::Field(text) = one { Some(text(owners())) } else { None })
                .collect();
            assert!(
                owners.windows(2).all(|pair| pair[0] == pair[1]),
                "{}: its fields disagree: {owners:?}",
                def.title()
            );
            let twice = def.default != Default::Owner && owners.iter().flatten().next().is_some();
            assert!(!twice, "the field that takes {} has a default: take it out of the declaration", def.title());
        }
    }

    #[test]
    fn old_names_lead_to_one_option_and_are_not_current_names() {
        let mut seen = BTreeSet::new();
        for def in SECTIONS.iter().copied().flatten() {
            for old in def.deprecated {
                assert!(seen.insert(*old), "{old:?} is the old name of two options");
                assert!(find(old.0, old.1).is_none(), "{old:?} is also a current name");
                assert_eq!(find_deprecated(old.0, old.1).map(|d| d.name), Some(def.name));
            }
        }
    }
}
