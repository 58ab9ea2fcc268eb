//! The table of features. The keys are those of Nova's support matrix: a feature is a concept of the API, and never a
//! part of a deployment.

use chronova_hypervisor::capability::Capability;

/// A kind of user. Nova's documentation calls it a persona.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Persona {
    /// Creates and deletes servers.
    Deployer,
    /// Builds images.
    Developer,
    /// Runs the cloud.
    Operator,
    /// Runs a cloud and uses it.
    Administrator,
}

impl Persona {
    pub(crate) const ALL: [Self; 4] = [Self::Deployer, Self::Developer, Self::Operator, Self::Administrator];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Deployer => "application deployer",
            Self::Developer => "application developer",
            Self::Operator => "cloud operator",
            Self::Administrator => "self-service administrator",
        }
    }
}

/// Whether every driver has the feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    Mandatory,
    /// A driver has at least one feature of the group.
    OneOf(&'static str),
    Optional,
}

#[derive(Debug)]
pub(crate) struct Feature {
    pub(crate) key: &'static str,
    pub(crate) title: &'static str,
    pub(crate) persona: Persona,
    pub(crate) standing: Standing,
    /// The optional part of a driver that the feature needs on the server's host.
    pub(crate) needs: Option<Capability>,
    /// The REST call: METHOD PATH [ACTION].
    pub(crate) call: &'static str,
    /// The page of this manual, below `docs/`.
    pub(crate) page: &'static str,
    /// The name of a tempest test that covers the feature.
    pub(crate) tempest: Option<&'static str>,
    /// The requirement whose status names the tests.
    pub(crate) row: &'static str,
    /// Whether the removal of the feature is planned.
    pub(crate) leaves: bool,
}

use Persona::{Administrator, Deployer, Developer, Operator};
use Standing::{Mandatory, OneOf, Optional};

/// The table: key, title, persona, standing, call, page, requirement, the part of the driver, the tempest test.
macro_rules! features {
    ($($key:literal: $title:literal, $persona:ident, $standing:expr, $call:literal, $page:literal, $row:literal
       $(, needs $part:ident)? $(, by $tempest:literal)?;)+) => {
        pub(crate) const FEATURES: &[Feature] = &[$(Feature {
            key: $key,
            title: $title,
            persona: $persona,
            standing: $standing,
            needs: features!(@part $($part)?),
            call: $call,
            page: $page,
            tempest: features!(@test $($tempest)?),
            row: $row,
            leaves: false,
        }),+];
    };
    (@part) => { None };
    (@part $part:ident) => { Some(Capability::$part) };
    (@test) => { None };
    (@test $tempest:literal) => { Some($tempest) };
}

features! {
    "attach-volume": "attach a volume to a running server", Deployer, Optional,
        "POST /servers/{}/os-volume_attachments", "volumes.md", "P2-034", needs VolumeAttachment, by "test_attach_detach_volume";
    "attach-tagged-volume": "attach a volume with a tag", Deployer, Optional,
        "POST /servers/{}/os-volume_attachments", "volumes.md", "P2-035", needs VolumeAttachment;
    "detach-volume": "detach a volume", Deployer, Optional,
        "DELETE /servers/{}/os-volume_attachments/{}", "volumes.md", "P2-036", needs VolumeAttachment, by "test_attach_detach_volume";
    "extend-volume": "extend an attached volume", Deployer, Optional,
        "POST /os-server-external-events", "volumes.md", "P2-037", needs VolumeAttachment;
    "attach-interface": "attach an interface", Deployer, Optional,
        "POST /servers/{}/os-interface", "networks.md", "P2-038", needs InterfaceAttachment;
    "attach-tagged-interface": "attach an interface with a tag", Deployer, Optional,
        "POST /servers/{}/os-interface", "networks.md", "P2-039", needs InterfaceAttachment;
    "detach-interface": "detach an interface", Deployer, Optional,
        "DELETE /servers/{}/os-interface/{}", "networks.md", "P2-040", needs InterfaceAttachment;
    "maintenance-mode": "empty a host for maintenance", Operator, Optional,
        "PUT /os-services/{}", "hosts.md", "P2-041";
    "evacuate": "rebuild the servers of a failed host elsewhere", Administrator, Optional,
        "POST /servers/{}/action evacuate", "evacuation.md", "P2-042";
    "rebuild": "replace the disk of a server by an image", Deployer, Optional,
        "POST /servers/{}/action rebuild", "server-states.md", "P2-043", needs Redefinition, by "test_rebuild_server";
    "rebuild-volume-backed": "write an image to the root volume", Deployer, Optional,
        "POST /servers/{}/action rebuild", "volumes.md", "P2-044", needs Redefinition;
    "get-guest-info": "show the power state of a guest", Deployer, Mandatory,
        "GET /servers/{}", "server-states.md", "P2-045", by "test_verify_server_details";
    "get-host-uptime": "show the uptime of a host", Administrator, Optional,
        "GET /os-hypervisors/{}/uptime", "hosts.md", "P2-046", by "test_get_hypervisor_uptime";
    "get-host-ip": "show the address of a host", Operator, Optional,
        "GET /os-hypervisors/{}", "hosts.md", "P2-047", by "test_get_hypervisor_show_details";
    "live-migrate": "move a running server", Administrator, Optional,
        "POST /servers/{}/action os-migrateLive", "live-migration.md", "P2-048", needs LiveMigration, by "test_live_block_migration";
    "force-live-migration-to-complete": "end a live migration soon", Administrator, Optional,
        "POST /servers/{}/migrations/{}/action force_complete", "live-migration.md", "P2-049", needs LiveMigration;
    "abort-in-progress-live-migration": "abort a live migration", Administrator, Optional,
        "DELETE /servers/{}/migrations/{}", "live-migration.md", "P2-050", needs LiveMigration;
    "launch": "create a server", Deployer, Mandatory,
        "POST /servers", "tutorial.md", "P2-051", by "test_multiple_create";
    "pause": "pause a server", Deployer, Optional,
        "POST /servers/{}/action pause", "server-states.md", "P2-052", needs Suspension, by "test_pause_unpause_server";
    "unpause": "unpause a server", Deployer, Optional,
        "POST /servers/{}/action unpause", "server-states.md", "P2-053", needs Suspension, by "test_pause_unpause_server";
    "reboot": "reboot a server", Deployer, Optional,
        "POST /servers/{}/action reboot", "server-states.md", "P2-054", by "test_reboot_server_hard";
    "rescue": "boot a server from a rescue image", Deployer, Optional,
        "POST /servers/{}/action rescue", "server-states.md", "P2-055", needs Redefinition, by "test_rescue_unrescue_instance";
    "resize": "give a server another flavor", Deployer, Optional,
        "POST /servers/{}/action resize", "moves.md", "P2-056", needs DiskTransfer, by "test_resize_server_confirm";
    "suspend": "suspend a server", Deployer, Optional,
        "POST /servers/{}/action suspend", "server-states.md", "P2-057", needs Suspension, by "test_suspend_resume_server";
    "resume": "resume a server", Deployer, Optional,
        "POST /servers/{}/action resume", "server-states.md", "P2-058", needs Suspension, by "test_suspend_resume_server";
    "set-admin-password": "change the password in a guest", Deployer, Optional,
        "POST /servers/{}/action changePassword", "server-states.md", "P2-059", needs GuestAgent, by "test_change_server_password";
    "snapshot": "make an image of a server", Developer, Optional,
        "POST /servers/{}/action createImage", "storage.md", "P2-060", needs Snapshots, by "test_create_delete_image";
    "swap-volume": "replace an attached volume", Administrator, Optional,
        "PUT /servers/{}/os-volume_attachments/{}", "volumes.md", "P2-061", needs VolumeAttachment, by "test_volume_swap";
    "terminate": "delete a server", Deployer, Mandatory,
        "DELETE /servers/{}", "server-states.md", "P2-062", by "test_delete_active_server";
    "trigger-crash-dump": "interrupt a guest", Deployer, Optional,
        "POST /servers/{}/action trigger_crash_dump", "server-states.md", "P2-063", needs Troubleshooting;
    "guest.disk.rate-limit": "limit the I/O of disks", Administrator, Optional,
        "POST /flavors/{}/os-extra_specs", "limits.md", "P2-065";
    "guest.setup.configdrive": "set a guest up by its config drive", Deployer, OneOf("guest setup"),
        "POST /servers", "metadata.md", "P2-066", by "test_attach_scsi_disk_with_config_drive";
    "guest.setup.inject.file": "give files to a guest", Deployer, OneOf("guest setup"),
        "POST /servers", "metadata.md", "P2-067", by "test_create_server_with_personality";
    "console.vnc": "open a VNC console", Deployer, OneOf("console"),
        "POST /servers/{}/remote-consoles", "consoles.md", "P2-069", needs Consoles, by "test_get_vnc_console";
    "console.spice": "open a SPICE console", Deployer, OneOf("console"),
        "POST /servers/{}/remote-consoles", "consoles.md", "P2-070", needs Consoles;
    "console.serial.log": "read the log of the serial console", Deployer, OneOf("console"),
        "POST /servers/{}/action os-getConsoleOutput", "consoles.md", "P2-071", needs Consoles, by "test_get_console_output";
    "console.serial.interactive": "type on the serial console", Deployer, OneOf("console"),
        "POST /servers/{}/remote-consoles", "consoles.md", "P2-072", needs Consoles;
    "storage.block": "give guests persistent volumes", Deployer, Optional,
        "POST /servers/{}/os-volume_attachments", "volumes.md", "P2-074", needs VolumeAttachment, by "test_attach_detach_volume";
    "storage.image": "boot from an image", Developer, Mandatory,
        "POST /servers", "storage.md", "P2-078", by "test_create_server_from_snapshot";
    "uefi-boot": "boot a guest by UEFI", Developer, Optional,
        "POST /servers", "firmware.md", "P2-079";
    "device-tags": "tag devices", Deployer, Optional,
        "POST /servers", "metadata.md", "P2-080", needs DeviceLocations;
    "quiesce": "freeze file systems for an image", Developer, Optional,
        "POST /servers/{}/action createImage", "storage.md", "P2-081", needs GuestAgent;
    "multiattach-volume": "share a volume between servers", Deployer, Optional,
        "POST /servers/{}/os-volume_attachments", "volumes.md", "P2-082", needs VolumeAttachment;
    "encrypted-volume": "attach an encrypted volume", Deployer, Optional,
        "POST /servers/{}/os-volume_attachments", "volumes.md", "P2-083", needs VolumeAttachment;
    "trusted-certs": "boot only images with a trusted signature", Developer, Optional,
        "POST /servers", "security.md", "P2-084";
    "file-backed-memory": "keep guests' memory in files", Operator, Optional,
        "POST /servers", "cpus.md", "P2-085";
    "report-cpu-traits": "report the CPU features of guests", Operator, Optional,
        "GET /os-hypervisors/{}", "cpus.md", "P2-086";
    "port-with-resource-request": "give a port guaranteed bandwidth", Deployer, Optional,
        "POST /servers", "networks.md", "P2-087";
    "boot-encrypted-vm": "encrypt a guest's memory", Deployer, Optional,
        "POST /servers", "firmware.md", "P2-088";
    "cache-images": "bring images to hosts beforehand", Operator, Optional,
        "POST /os-aggregates/{}/images", "storage.md", "P2-089", needs ImageCache;
    "boot-emulated-tpm": "give a guest an emulated TPM", Deployer, Optional,
        "POST /servers", "firmware.md", "P2-090", needs EmulatedTpm;
}
