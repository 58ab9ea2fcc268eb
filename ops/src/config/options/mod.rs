//! The one table of options.
//!
//! Each file declares the options of one theme with [`section!`]: name, type, default, bounds, meaning, origin. From a
//! declaration come the typed struct that the program reads, the checks of `chronova config check`, and the reference
//! page. An option that exists in Nova (or in oslo, Keystone, Glance, Neutron) keeps its section, name, default and
//! meaning; where Chronova's default differs, the help says so and why.

/// Declares the options of one section: a struct with one field for each, and their [`super::OptionDef`]s.
macro_rules! section {
    (
        $(#[$doc:meta])*
        $ty:ident = $section:literal from $origin:ident {
            $( $field:ident : $t:ty { $($key:ident : $value:expr),* $(,)? } )*
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
                    ..$crate::config::OptionDef::new(
                        $section,
                        stringify!($field),
                        <$t as $crate::config::option::OptionValue>::KIND,
                        $crate::config::Origin::$origin,
                    )
                } ),*
            ];

            pub(in $crate::config) fn read(
                values: &mut $crate::config::values::Values<'_>,
            ) -> Option<Self> {
                let mut defs = Self::OPTIONS.iter();
                // Every field is read before the first missing one ends it, so that all problems are found.
                $( let $field: Option<$t> = defs.next().and_then(|def| values.take(def)); )*
                Some(Self { $( $field: $field?, )* })
            }
        }
    };
}

pub mod api;
pub mod chronova;
pub mod consoles;
pub mod default;
pub mod eventstoredb;
pub mod libvirt;
pub mod scheduling;
pub mod services;

use super::OptionDef;
use super::values::Values;

/// Puts the sections together: the configuration as the program sees it, and the list of all options.
macro_rules! configuration {
    ($( $(#[$doc:meta])* $field:ident : $ty:ty ),+ $(,)?) => {
        /// The whole configuration, checked. One field per section.
        #[derive(Debug, Clone, PartialEq)]
        pub struct Config {
            $( $(#[$doc])* pub $field: $ty, )+
        }

        impl Config {
            pub(super) fn read(values: &mut Values<'_>) -> Option<Self> {
                $( let $field = <$ty>::read(values); )+
                Some(Self { $( $field: $field?, )+ })
            }
        }

        /// Every option, in the order of the reference page.
        pub static SECTIONS: &[&[OptionDef]] = &[$( <$ty>::OPTIONS, )+];
    };
}

configuration! {
    chronova: chronova::Chronova,
    eventstoredb: eventstoredb::EventStoreDb,
    default: default::Default,
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
    metrics: scheduling::Metrics,
    /// Options of the embedded identity service.
    token: services::Token,
    security_compliance: services::SecurityCompliance,
    glance: services::Glance,
    neutron: services::Neutron,
    cinder: services::Cinder,
    volume: services::Volume,
}

/// The option of that name, whatever the case of its section; `-` and `_` are one, as in oslo.
pub fn find(section: &str, name: &str) -> Option<&'static OptionDef> {
    let name = name.replace('-', "_");
    SECTIONS.iter().copied().flatten().find(|def| def.section.eq_ignore_ascii_case(section) && def.name == name)
}

/// The option that used to have that name.
pub fn find_deprecated(section: &str, name: &str) -> Option<&'static OptionDef> {
    let name = name.replace('-', "_");
    let was = |def: &&OptionDef| def.deprecated.iter().any(|(s, n)| s.eq_ignore_ascii_case(section) && *n == name);
    SECTIONS.iter().copied().flatten().find(was)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_option_is_described_once() {
        let mut seen = BTreeSet::new();
        for def in SECTIONS.iter().copied().flatten() {
            assert!(seen.insert((def.section, def.name)), "{} is declared twice", def.title());
            assert!(def.help.len() > 15 && def.help.ends_with('.'), "{} needs a help sentence", def.title());
        }
    }

    #[test]
    fn old_names_lead_to_one_option_and_are_not_current_names() {
        let mut seen = BTreeSet::new();
        for def in SECTIONS.iter().copied().flatten() {
            for old in def.deprecated {
                assert!(seen.insert(*old), "{old:?} stands for two options");
                assert!(find(old.0, old.1).is_none(), "{old:?} is also a current name");
                assert_eq!(find_deprecated(old.0, old.1).map(|d| d.name), Some(def.name));
            }
        }
    }
}
