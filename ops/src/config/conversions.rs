//! Conversions between an option's value and the value of its field.
//!
//! A declaration names one of these after `by`; without `by` the field has the option's own type. The reverse
//! conversion makes the text of an option's default from the default of its field.

#![allow(clippy::option_option, reason = "an option that may be left out, and a field from which no value follows")]

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use chronova_actors::hosts::options::DeletedGuests;
use chronova_actors::scheduler::{SchedulerOptions, names as scheduler, weighers};
use chronova_actors::server_options::NameScope;
use chronova_hypervisor::options::{
    CacheMode, CacheModes, CpuFlag, CpuMode, MachineTypes, Serial, VirtType, VolumeClear,
};
use chronova_web::console::VncScheme;
use ipnet::IpNet;

use super::option::Multi;

/// A conversion from an option of type `V` to a field of type `T`.
pub(super) trait Conversion<V, T> {
    fn give(value: &V) -> T;

    /// The option's value that gives this field; `None` if no value does.
    fn back(field: &T) -> Option<V>;
}

/// The option's own type.
pub(super) struct Same;

impl<T: Clone> Conversion<T, T> for Same {
    fn give(value: &T) -> T {
        value.clone()
    }

    fn back(field: &T) -> Option<T> {
        Some(field.clone())
    }
}

/// Another integer type. A value beyond the maximum of that type becomes the maximum.
pub(super) struct Whole;

macro_rules! whole {
    ($($from:ty => $to:ty, $give:expr, $back:expr;)+) => {$(
        impl Conversion<$from, $to> for Whole {
            fn give(value: &$from) -> $to {
                $give(*value)
            }

            fn back(field: &$to) -> Option<$from> {
                $back(*field)
            }
        }
    )+};
}
whole! {
    u32 => u64, u64::from, |field| u32::try_from(field).ok();
    u64 => u32, |value| u32::try_from(value).unwrap_or(u32::MAX), |field| Some(u64::from(field));
    u32 => usize, |value| usize::try_from(value).unwrap_or(usize::MAX), |field| u32::try_from(field).ok();
    u64 => usize, |value| usize::try_from(value).unwrap_or(usize::MAX), |field| u64::try_from(field).ok();
}

/// Seconds.
pub(super) struct Seconds;

impl Conversion<u32, Duration> for Seconds {
    fn give(value: &u32) -> Duration {
        Duration::from_secs((*value).into())
    }

    fn back(field: &Duration) -> Option<u32> {
        u32::try_from(field.as_secs()).ok()
    }
}

/// Seconds; a number below zero is "never".
pub(super) struct SecondsOrNever;

impl Conversion<i32, Option<Duration>> for SecondsOrNever {
    fn give(value: &i32) -> Option<Duration> {
        u64::try_from(*value).ok().map(Duration::from_secs)
    }

    fn back(field: &Option<Duration>) -> Option<i32> {
        field.map_or(Some(-1), |time| i32::try_from(time.as_secs()).ok())
    }
}

/// Seconds; zero is "never".
pub(super) struct SecondsOrZero;

impl Conversion<u32, Option<Duration>> for SecondsOrZero {
    fn give(value: &u32) -> Option<Duration> {
        (*value > 0).then(|| Duration::from_secs((*value).into()))
    }

    fn back(field: &Option<Duration>) -> Option<u32> {
        field.map_or(Some(0), |time| u32::try_from(time.as_secs()).ok())
    }
}

/// `[quota] driver`: whether quotas are enforced. `agreement/unmade.rs` refuses Nova's third driver,
/// `UnifiedLimitsDriver`.
pub(super) struct QuotaDriverWords;

impl QuotaDriverWords {
    const ENFORCED: &str = "nova.quota.DbQuotaDriver";
    const NOOP: &str = "nova.quota.NoopQuotaDriver";
}

impl Conversion<String, bool> for QuotaDriverWords {
    fn give(value: &String) -> bool {
        value != Self::NOOP
    }

    fn back(field: &bool) -> Option<String> {
        Some(if *field { Self::ENFORCED } else { Self::NOOP }.to_owned())
    }
}

/// The address of a host's consoles. Loopback, which is Nova's default, becomes `None`: the host's own address.
pub(super) struct ProxyAddress;

impl Conversion<String, Option<String>> for ProxyAddress {
    fn give(value: &String) -> Option<String> {
        Some(value.clone()).filter(|address| !address.is_empty() && address != "127.0.0.1")
    }

    fn back(field: &Option<String>) -> Option<String> {
        Some(field.clone().unwrap_or_else(|| "127.0.0.1".to_owned()))
    }
}

/// The format of images of servers. `agreement/unmade.rs` refuses the formats that no host makes.
pub(super) struct SnapshotFormat;

impl Conversion<Option<String>, String> for SnapshotFormat {
    fn give(value: &Option<String>) -> String {
        value.clone().unwrap_or_else(|| "qcow2".to_owned())
    }

    fn back(field: &String) -> Option<Option<String>> {
        Some(Some(field.clone()).filter(|format| format != "qcow2"))
    }
}

/// The scope of unique host names, in Nova's words.
pub(super) struct NameScopeWords;

impl NameScopeWords {
    const ALL: [(&str, NameScope); 3] =
        [("", NameScope::Unbound), ("project", NameScope::Project), ("global", NameScope::Global)];
}

impl Conversion<String, NameScope> for NameScopeWords {
    fn give(value: &String) -> NameScope {
        Self::ALL.into_iter().find(|(word, _)| word == value).map(|(_, scope)| scope).unwrap_or_default()
    }

    fn back(field: &NameScope) -> Option<String> {
        Self::ALL.into_iter().find(|(_, scope)| scope == field).map(|(word, _)| word.to_owned())
    }
}

/// The period of a task in seconds. Zero is oslo.service's own period of a minute; a number below zero is "never".
pub(super) struct TaskPeriod;

impl Conversion<i32, Option<Duration>> for TaskPeriod {
    fn give(value: &i32) -> Option<Duration> {
        SecondsOrNever::give(value).map(|period| if period.is_zero() { Duration::from_mins(1) } else { period })
    }

    fn back(field: &Option<Duration>) -> Option<i32> {
        SecondsOrNever::back(field)
    }
}

/// MiB, for a field in bytes.
pub(super) struct Mebibytes;

impl Conversion<u64, u64> for Mebibytes {
    fn give(value: &u64) -> u64 {
        value.saturating_mul(1 << 20)
    }

    fn back(field: &u64) -> Option<u64> {
        Some(field >> 20)
    }
}

/// A limit; a number below zero means no limit.
pub(super) struct Unlimited;

impl Conversion<i32, Option<usize>> for Unlimited {
    fn give(value: &i32) -> Option<usize> {
        usize::try_from(*value).ok()
    }

    fn back(field: &Option<usize>) -> Option<i32> {
        field.map_or(Some(-1), |bound| i32::try_from(bound).ok())
    }
}

/// A number; 0 means `None`.
pub(super) struct SomeWhole;

impl Conversion<u32, Option<u64>> for SomeWhole {
    fn give(value: &u32) -> Option<u64> {
        (*value > 0).then_some(u64::from(*value))
    }

    fn back(field: &Option<u64>) -> Option<u32> {
        u32::try_from(field.unwrap_or(0)).ok()
    }
}

/// Whether a number is above zero. There is no reverse conversion, so the declaration names its default.
pub(super) struct AboveZero;

impl Conversion<u32, bool> for AboveZero {
    fn give(value: &u32) -> bool {
        *value != 0
    }

    fn back(_: &bool) -> Option<u32> {
        None
    }
}

/// The opposite of a boolean.
pub(super) struct Negated;

impl Conversion<bool, bool> for Negated {
    fn give(value: &bool) -> bool {
        !value
    }

    fn back(field: &bool) -> Option<bool> {
        Some(!field)
    }
}

/// An optional field that gets a value.
pub(super) struct Present;

impl<T: Clone> Conversion<T, Option<T>> for Present {
    fn give(value: &T) -> Option<T> {
        Some(value.clone())
    }

    fn back(field: &Option<T>) -> Option<T> {
        field.clone()
    }
}

/// A text; an empty text means `None`.
pub(super) struct NotEmpty;

impl Conversion<String, Option<String>> for NotEmpty {
    fn give(value: &String) -> Option<String> {
        (!value.is_empty()).then(|| value.clone())
    }

    fn back(field: &Option<String>) -> Option<String> {
        Some(field.clone().unwrap_or_default())
    }
}

/// A value behind an `Arc`.
pub(super) struct SharedValue;

impl<T: Clone> Conversion<T, Arc<T>> for SharedValue {
    fn give(value: &T) -> Arc<T> {
        Arc::new(value.clone())
    }

    fn back(field: &Arc<T>) -> Option<T> {
        Some((**field).clone())
    }
}

/// A path on a compute host. The control plane does not open it, so the field is text.
pub(super) struct PathOnHost;

impl Conversion<PathBuf, String> for PathOnHost {
    fn give(value: &PathBuf) -> String {
        value.to_string_lossy().into_owned()
    }

    fn back(field: &String) -> Option<PathBuf> {
        Some(field.into())
    }
}

/// One path a line.
pub(super) struct Paths;

impl Conversion<Multi, Vec<PathBuf>> for Paths {
    fn give(value: &Multi) -> Vec<PathBuf> {
        value.0.iter().map(PathBuf::from).collect()
    }

    fn back(field: &Vec<PathBuf>) -> Option<Multi> {
        Some(Multi(field.iter().map(|path| path.to_string_lossy().into_owned()).collect()))
    }
}

/// Words in one text, separated by blanks.
pub(super) struct Blanks;

impl Conversion<String, Vec<String>> for Blanks {
    fn give(value: &String) -> Vec<String> {
        value.split_whitespace().map(str::to_owned).collect()
    }

    fn back(field: &Vec<String>) -> Option<String> {
        Some(field.join(" "))
    }
}

/// A number that the file gives as one of a list of words.
pub(super) struct ChosenNumber;

impl Conversion<Option<String>, Option<u32>> for ChosenNumber {
    fn give(value: &Option<String>) -> Option<u32> {
        value.as_deref().and_then(|word| word.parse().ok())
    }

    fn back(field: &Option<u32>) -> Option<Option<String>> {
        Some(field.map(|number| number.to_string()))
    }
}

/// IP addresses and networks. Any other word is ignored.
pub(super) struct AddressRanges;

impl Conversion<Vec<String>, Vec<IpNet>> for AddressRanges {
    fn give(value: &Vec<String>) -> Vec<IpNet> {
        let range = |word: &String| word.parse().ok().or_else(|| word.parse::<IpAddr>().ok().map(IpNet::from));
        value.iter().filter_map(range).collect()
    }

    fn back(field: &Vec<IpNet>) -> Option<Vec<String>> {
        Some(field.iter().map(ToString::to_string).collect())
    }
}

/// `name=weight` pairs.
pub(super) struct WeightSettings;

impl Conversion<Vec<String>, BTreeMap<String, f64>> for WeightSettings {
    fn give(value: &Vec<String>) -> BTreeMap<String, f64> {
        scheduler::weight_settings(value)
    }

    fn back(field: &BTreeMap<String, f64>) -> Option<Vec<String>> {
        Some(field.iter().map(|(name, weight)| format!("{name}={weight}")).collect())
    }
}

/// Filters of the scheduler by their names. `load` has already checked the names.
pub(super) struct FilterNames;

impl Conversion<Vec<String>, Vec<&'static str>> for FilterNames {
    fn give(value: &Vec<String>) -> Vec<&'static str> {
        scheduler::enabled_filters(value).unwrap_or_else(|_| SchedulerOptions::default().enabled_filters)
    }

    fn back(field: &Vec<&'static str>) -> Option<Vec<String>> {
        Some(field.iter().map(|name| (*name).to_owned()).collect())
    }
}

/// Weighers of the scheduler by Nova's names of their classes. `load` has already checked the names.
pub(super) struct WeigherClasses;

impl Conversion<Vec<String>, Vec<&'static str>> for WeigherClasses {
    fn give(value: &Vec<String>) -> Vec<&'static str> {
        scheduler::weighers_of(value).unwrap_or_else(|_| SchedulerOptions::default().weighers)
    }

    fn back(field: &Vec<&'static str>) -> Option<Vec<String>> {
        let class = |name: &&str| weighers::CLASSES.iter().find(|class| class.ends_with(&format!(".{name}")));
        let all = Self::give(&vec![weighers::CLASSES[0].to_owned()]) == *field;
        let classes: Vec<&str> =
            if all { vec![weighers::CLASSES[0]] } else { field.iter().filter_map(class).copied().collect() };
        Some(classes.into_iter().map(str::to_owned).collect())
    }
}

/// CPU features: `name`, `+name` or `-name`.
pub(super) struct CpuFlags;

impl Conversion<Vec<String>, Vec<CpuFlag>> for CpuFlags {
    fn give(value: &Vec<String>) -> Vec<CpuFlag> {
        value.iter().map(|word| CpuFlag::parse(word)).collect()
    }

    fn back(field: &Vec<CpuFlag>) -> Option<Vec<String>> {
        let word = |flag: &CpuFlag| format!("{}{}", if flag.wanted { "" } else { "-" }, flag.name);
        Some(field.iter().map(word).collect())
    }
}

/// Schemes of `[vnc] auth_schemes`, the preferred one first.
pub(super) struct VncSchemeWords;

impl Conversion<Vec<String>, Vec<VncScheme>> for VncSchemeWords {
    fn give(value: &Vec<String>) -> Vec<VncScheme> {
        let scheme = |word: &String| VncScheme::ALL.into_iter().find(|scheme| scheme.word() == word);
        value.iter().filter_map(scheme).collect()
    }

    fn back(field: &Vec<VncScheme>) -> Option<Vec<String>> {
        Some(field.iter().map(|scheme| scheme.word().to_owned()).collect())
    }
}

/// Machine types by architecture, as in `x86_64=q35,aarch64=virt`.
pub(super) struct ByArchitecture;

impl Conversion<Vec<String>, MachineTypes> for ByArchitecture {
    fn give(value: &Vec<String>) -> MachineTypes {
        MachineTypes::parse(value)
    }

    fn back(field: &MachineTypes) -> Option<Vec<String>> {
        Some(field.0.iter().map(|(arch, machine)| format!("{arch}={machine}")).collect())
    }
}

/// Cache modes by the kind of disk, as in `file=none,network=writeback`. If a kind occurs twice, the last mode is used.
pub(super) struct CacheWords;

impl Conversion<Vec<String>, CacheModes> for CacheWords {
    fn give(value: &Vec<String>) -> CacheModes {
        let mode = |kind: &str| {
            let modes = value.iter().filter_map(|word| word.split_once('='));
            modes.rev().find(|(of, _)| *of == kind).and_then(|(_, mode)| CacheMode::parse(mode))
        };
        CacheModes { file: mode("file"), block: mode("block"), network: mode("network") }
    }

    fn back(field: &CacheModes) -> Option<Vec<String>> {
        let kinds = [("file", field.file), ("block", field.block), ("network", field.network)];
        Some(kinds.into_iter().filter_map(|(kind, mode)| Some(format!("{kind}={}", mode?.name()))).collect())
    }
}

/// Declares values that a file names by words. [`load`](super::load) has already refused unknown words. The text of a
/// default uses the first word of its value.
macro_rules! words {
    ($( $(#[$doc:meta])* $name:ident: $t:ty { $($word:literal = $value:expr),+ $(,)? } )+) => {$(
        $(#[$doc])*
        pub(super) struct $name;

        impl $name {
            const WORDS: &'static [(&'static str, $t)] = &[$( ($word, $value) ),+];

            fn value(word: &str) -> $t {
                Self::WORDS.iter().find(|(known, _)| *known == word).map_or(Self::WORDS[0].1, |(_, value)| *value)
            }

            fn word(value: $t) -> Option<String> {
                Self::WORDS.iter().find(|(_, known)| *known == value).map(|(word, _)| (*word).to_owned())
            }
        }

        impl Conversion<String, $t> for $name {
            fn give(value: &String) -> $t {
                Self::value(value)
            }

            fn back(field: &$t) -> Option<String> {
                Self::word(*field)
            }
        }

        impl Conversion<Option<String>, Option<$t>> for $name {
            fn give(value: &Option<String>) -> Option<$t> {
                value.as_deref().map(Self::value)
            }

            fn back(field: &Option<$t>) -> Option<Option<String>> {
                Some(field.and_then(Self::word))
            }
        }
    )+};
}

words! {
    DeletedGuestWords: DeletedGuests {
        "reap" = DeletedGuests::Reap,
        "log" = DeletedGuests::Log,
        "shutdown" = DeletedGuests::Shutdown,
        "noop" = DeletedGuests::Noop,
    }
    VirtTypeWords: VirtType { "auto" = VirtType::Auto, "kvm" = VirtType::Kvm, "qemu" = VirtType::Qemu }
    CpuModeWords: CpuMode {
        "none" = CpuMode::None,
        "host-model" = CpuMode::HostModel,
        "host-passthrough" = CpuMode::HostPassthrough,
        "custom" = CpuMode::Custom,
    }
    VolumeClearWords: VolumeClear { "zero" = VolumeClear::Zero, "shred" = VolumeClear::Shred, "none" = VolumeClear::None }
    /// `os` and `auto` mean `hardware`, because Chronova reads no serial from a file of the host.
    SerialWords: Serial {
        "unique" = Serial::Server,
        "none" = Serial::None,
        "hardware" = Serial::Host,
        "os" = Serial::Host,
        "auto" = Serial::Host,
    }
    DiscardWords: bool { "ignore" = false, "unmap" = true }
    PreallocationWords: bool { "none" = false, "space" = true }
    TimeoutActionWords: bool { "abort" = false, "force_complete" = true }
    PointerWords: bool { "usbtablet" = true, "ps2mouse" = false }
}

/// An unset option means false. So does `ps2mouse`.
impl Conversion<Option<String>, bool> for PointerWords {
    fn give(value: &Option<String>) -> bool {
        value.as_deref().is_some_and(Self::value)
    }

    fn back(field: &bool) -> Option<Option<String>> {
        Some(Self::word(*field))
    }
}

/// The field's value as text for a file.
pub(super) fn text<C: Conversion<V, T>, V: super::OptionValue, T>(field: &T) -> Option<String> {
    C::back(field).and_then(|value| value.text())
}
