//! The optional parts of a driver, in addition to the core of [`Driver`]: one file and one trait for each part.
//!
//! A driver offers a part by returning itself from the accessor of that part, for example [`Driver::live_migration`].
//! [`Needed::needed`] turns a part that is not offered into a refusal that names the part. [`offered_by`] lists the
//! parts of a driver without any call to its host, so that a caller can refuse work before it starts.
//!
//! Invariant: a driver that offers a part implements every call of that part. If the driver supports a call but the
//! host does not, the call returns [`DriverError::Unsupported`].

pub mod consoles;
pub mod device_locations;
pub mod disk_transfer;
pub mod emulated_tpm;
pub mod guest_agent;
pub mod guest_definitions;
pub mod image_cache;
pub mod interfaces;
pub mod live_migration;
pub mod networks;
pub mod owner_mark;
pub mod redefinition;
pub mod shared_storage;
pub mod snapshots;
pub mod storage_cleanup;
pub mod suspension;
pub mod troubleshooting;
pub mod volume_attachment;
pub mod volume_store;

use std::collections::BTreeSet;

pub use consoles::Consoles;
pub use device_locations::DeviceLocations;
pub use disk_transfer::DiskTransfer;
pub use emulated_tpm::EmulatedTpm;
pub use guest_agent::GuestAgent;
pub use guest_definitions::GuestDefinitions;
pub use image_cache::ImageCache;
pub use interfaces::InterfaceAttachment;
pub use live_migration::LiveMigration;
pub use networks::VirtualNetworks;
pub use owner_mark::OwnerMark;
pub use redefinition::Redefinition;
pub use shared_storage::SharedStorage;
pub use snapshots::DiskSnapshots;
pub use storage_cleanup::StorageCleanup;
pub use suspension::Suspension;
pub use troubleshooting::Troubleshooting;
pub use volume_attachment::VolumeAttachment;
pub use volume_store::VolumeStore;

use crate::driver::{Driver, DriverError, DriverResult};

/// The table of optional parts: variant, Rust trait, accessor of the driver, words of a refusal, standard traits. A host
/// has these standard traits if its driver offers the part.
macro_rules! capabilities {
    ($($variant:ident: $part:ident, $accessor:ident, $words:literal $(, traits $($name:literal)+)?;)+) => {
        /// An optional part of a driver.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Capability { $($variant),+ }

        impl Capability {
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Names the work that a host without this part refuses, for operators and users. For example: "attach
            /// volumes".
            pub fn words(self) -> &'static str {
                match self { $(Self::$variant => $words),+ }
            }

            /// The standard traits of a host whose driver offers the part (Nova's `CAPABILITY_TRAITS_MAP`).
            pub fn traits(self) -> &'static [&'static str] {
                match self { $(Self::$variant => &[$($($name),+)?]),+ }
            }

            /// Whether the driver offers the part. Makes no call to the host.
            pub fn is_offered_by(self, driver: &dyn Driver) -> bool {
                match self { $(Self::$variant => driver.$accessor().is_some()),+ }
            }
        }

        $(impl OptionalPart for dyn $part + '_ {
            const CAPABILITY: Capability = Capability::$variant;
        })+
    };
}

/// Implements the accessors of these parts for a driver that offers them itself.
macro_rules! offers {
    ($($accessor:ident: $part:ident),+ $(,)?) => {
        $(fn $accessor(&self) -> Option<&dyn $part> {
            Some(self)
        })+
    };
}
pub(crate) use offers;

/// The capability that belongs to a trait.
pub trait OptionalPart {
    const CAPABILITY: Capability;
}

capabilities! {
    Consoles: Consoles, consoles, "show consoles";
    DeviceLocations: DeviceLocations, device_locations, "tell where a guest finds its devices",
        traits "COMPUTE_DEVICE_TAGGING";
    DiskTransfer: DiskTransfer, disk_transfer, "move disks between hosts";
    EmulatedTpm: EmulatedTpm, emulated_tpm, "give guests an emulated TPM";
    GuestAgent: GuestAgent, guest_agent, "reach the agent inside a guest";
    GuestDefinitions: GuestDefinitions, guest_definitions, "tell how its guests are defined";
    ImageCache: ImageCache, image_cache, "manage its image cache";
    InterfaceAttachment: InterfaceAttachment, interfaces, "attach or detach interfaces",
        traits "COMPUTE_NET_ATTACH_INTERFACE" "COMPUTE_NET_ATTACH_INTERFACE_WITH_TAG";
    LiveMigration: LiveMigration, live_migration, "migrate running guests";
    Networks: VirtualNetworks, networks, "connect guests to virtual networks";
    OwnerMark: OwnerMark, owner_mark, "remember the log that drives it";
    Redefinition: Redefinition, redefinition, "redefine a guest (rebuild, rescue)",
        traits "COMPUTE_RESCUE_BFV";
    SharedStorage: SharedStorage, shared_storage, "share storage with other hosts";
    Snapshots: DiskSnapshots, snapshots, "copy a guest's disk";
    StorageCleanup: StorageCleanup, storage_cleanup, "list leftovers on its storage";
    Suspension: Suspension, suspension, "pause or suspend guests";
    Troubleshooting: Troubleshooting, troubleshooting, "inspect or interrupt a running guest";
    VolumeAttachment: VolumeAttachment, volume_attachment, "attach or detach volumes",
        traits "COMPUTE_VOLUME_ATTACH_WITH_TAG" "COMPUTE_VOLUME_EXTEND" "COMPUTE_VOLUME_MULTI_ATTACH";
    VolumeStore: VolumeStore, volume_store, "keep volumes of the volume service";
}

impl Capability {
    /// The refusal of a call that needs this part.
    pub fn refusal(self) -> DriverError {
        DriverError::Unsupported(format!("its driver cannot {}", self.words()))
    }
}

/// Every optional part that the driver offers. Makes no call to the host.
pub fn offered_by(driver: &dyn Driver) -> BTreeSet<Capability> {
    Capability::ALL.iter().copied().filter(|capability| capability.is_offered_by(driver)).collect()
}

/// The standard traits of the parts that the driver offers. Makes no call to the host.
pub fn traits_of(driver: &dyn Driver) -> impl Iterator<Item = &'static str> {
    offered_by(driver).into_iter().flat_map(Capability::traits).copied()
}

/// Returns an optional part, or a refusal if the driver does not offer it.
pub trait Needed<'a, T: ?Sized> {
    /// # Errors
    /// [`DriverError::Unsupported`] if the driver does not offer the part.
    fn needed(self) -> DriverResult<&'a T>;
}

impl<'a, T: OptionalPart + ?Sized> Needed<'a, T> for Option<&'a T> {
    fn needed(self) -> DriverResult<&'a T> {
        self.ok_or_else(|| T::CAPABILITY.refusal())
    }
}
