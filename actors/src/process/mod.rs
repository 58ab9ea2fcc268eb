//! Multi-step operations.
//!
//! | file | contents |
//! |---|---|
//! | [`commands`] | the commands on a process's stream |
//! | [`decide`] | decides which records a process's stream accepts |
//! | [`plan`] | plans the next step from the record alone; pure |
//! | [`definition`] | the definition of a process: steps, undos, end |
//! | [`context`], [`options`] | the parts that steps use, and the options of processes |
//! | [`perform`] | executes the plan and records the outcomes |
//! | `unwritten` | the records that wait in memory for the next append |
//! | `failed_step` | logs a failed step with its chain of errors |
//! | [`interference`] | the hook with which tests make steps fail and repeat |
//! | [`supervisor`] | starts requested processes, and continues them after a crash |
//! | `turn`, `guest`, `imaging` | steps that several processes share |
//! | `new_image` | puts an image on a host, and verifies its signature |
//! | `create_servers` | the servers of one request |
//! | `ask_server` | claims quota or creates an image, and then sends the request to its server |
//! | `build_instance`, `delete_instance`, `power`, `crash_dump`, `soft_delete`, `restore` | one process each |
//! | `attach_interface`, `detach_interface` | a server's interfaces |
//! | `attach_volume`, `detach_volume`, `swap_volume`, `extend_disk` | volumes; steps: `disks`, `build_volumes` |
//! | `refresh_volume` | a new attachment of a volume whose server is off |
//! | `away`, `snapshot_volumes` | the volumes of a server without a host, and images of volumes |
//! | `snapshot`, `rebuild`, `rescue`, `unrescue`, `shelve`, `offload`, `unshelve` | one process each |
//! | `change_password` | changes the password of a guest's administrator |
//! | `destination` | selects a host for a server, and records the decision |
//! | `move_instance`, `confirm_resize`, `revert_resize`, `evacuate` | moves; [`moving`] has their shared steps |
//! | `moved_volumes` | the volumes of a server that moves |
//! | `pinned` | the processors, NUMA cells and devices of a new guest |
//! | `claim_holder` | the consumer whose claim a guest uses |
//! | `port_grants` | what ports request and get: `port_devices` has the PCI devices, `port_resources` the rest |
//! | `machine`, `tpm` | the machine type of a guest; its emulated TPM |
//! | `drain_host` | drains a host by moves of its servers; [`departing`] plans the next action for each |
//! | `live_migrate` | live migration; [`crossing`] decides where the guest is, [`on_the_way`] watches it |
//! | `given_up` | whether an operator has given up the hosts of a live migration |

pub mod ask_server;
pub mod attach_interface;
pub mod attach_volume;
mod away;
pub mod build_instance;
mod build_volumes;
pub mod change_password;
mod claim_holder;
mod commands;
mod config_drive;
pub mod confirm_resize;
pub mod context;
pub mod crash_dump;
pub mod create_servers;
pub mod crossing;
pub mod decide;
pub mod definition;
pub mod delete_instance;
pub mod departing;
pub(crate) mod destination;
pub mod detach_interface;
pub mod detach_volume;
pub(crate) mod disks;
pub mod drain_host;
pub mod evacuate;
pub mod extend_disk;
mod failed_step;
mod given_up;
pub(crate) mod guest;
pub(crate) mod imaging;
pub mod interference;
pub mod live_migrate;
pub(crate) mod machine;
pub mod move_instance;
mod moved_volumes;
pub(crate) mod moving;
mod new_image;
pub mod offload;
pub(crate) mod on_the_way;
pub mod options;
pub mod perform;
mod pinned;
pub mod plan;
pub(crate) mod port_devices;
mod port_grants;
mod port_resources;
pub mod power;
pub mod rebuild;
pub mod refresh_volume;
pub mod rescue;
pub mod restore;
pub mod revert_resize;
pub mod shelve;
pub mod snapshot;
pub mod snapshot_volumes;
pub mod soft_delete;
pub mod supervisor;
pub mod swap_volume;
mod tpm;
mod turn;
pub mod unrescue;
pub mod unshelve;
mod unwritten;

pub use commands::{ProcessCommand, ProcessReject, ProcessRoot, TimedRecord};

use chronova_events::instance::PowerAction::{Pause, RebootHard, RebootSoft, Resume, Start, Stop, Suspend, Unpause};
use chronova_events::process::{Task, VolumeWork};
use chronova_hypervisor::capability::Capability;
use definition::Definition;

use crate::services::embedded::volume::processes as volume;

macro_rules! processes {
    ($($task:pat $(if $guard:expr)? => $definition:path $(; needs $capability:ident)?),+ $(,)?) => {
        /// The definition of a task.
        pub fn definition_of(task: &Task) -> &'static Definition {
            match task {
                $($task $(if $guard)? => &$definition),+
            }
        }

        /// The optional part of the driver that a task requires on the server's present host. If the driver lacks the
        /// part, the task fails before its first step. If only a new host needs a part, or if only some servers need
        /// it, the steps ask the driver for the part.
        fn need_of(task: &Task) -> Option<Capability> {
            match task {
                $($task $(if $guard)? => processes!(@need $($capability)?)),+
            }
        }

        /// Every definition, and its path in the code. A test checks that the crash harness has a case for each.
        pub const ALL: &[(&str, &Definition)] = &[$((stringify!($definition), &$definition)),+];
    };
    (@need) => { None };
    (@need $capability:ident) => { Some(Capability::$capability) };
}

// The only table of processes. It has the definition of each task, and the part of a driver that the task needs.
processes! {
    Task::BuildInstance { .. } => build_instance::DEFINITION,
    Task::DeleteInstance { .. } => delete_instance::DEFINITION,
    Task::Power { action: Pause | Unpause | Suspend | Resume, .. } => power::DEFINITION; needs Suspension,
    Task::Power { action: Start | Stop | RebootSoft | RebootHard, .. } => power::DEFINITION,
    Task::CrashDump { .. } => crash_dump::DEFINITION; needs Troubleshooting,
    Task::SoftDelete { .. } => soft_delete::DEFINITION,
    Task::Restore { .. } => restore::DEFINITION,
    Task::Volume { work: VolumeWork::Create, .. } => volume::create::DEFINITION,
    Task::Volume { work: VolumeWork::Delete { .. }, .. } => volume::delete::DEFINITION,
    Task::Volume { work: VolumeWork::Extend { .. }, .. } => volume::extend::DEFINITION,
    Task::Volume { work: VolumeWork::CreateSnapshot { .. }, .. } => volume::snapshot::CREATE,
    Task::Volume { work: VolumeWork::DeleteSnapshot { .. }, .. } => volume::snapshot::DELETE,
    Task::Volume { work: VolumeWork::Upload { .. }, .. } => volume::upload::DEFINITION,
    Task::Volume { work: VolumeWork::Reimage { .. }, .. } => volume::reimage::DEFINITION,
    Task::AttachInterface { .. } => attach_interface::DEFINITION; needs InterfaceAttachment,
    Task::DetachInterface { .. } => detach_interface::DEFINITION; needs InterfaceAttachment,
    Task::AttachVolume(_) => attach_volume::DEFINITION; needs VolumeAttachment,
    Task::DetachVolume(_) => detach_volume::DEFINITION; needs VolumeAttachment,
    // A volume that is exchanged for itself only gets a new attachment.
    Task::SwapVolume { disk, new, .. } if disk.volume == *new => refresh_volume::DEFINITION; needs VolumeAttachment,
    Task::SwapVolume { .. } => swap_volume::DEFINITION; needs VolumeAttachment,
    Task::ExtendDisk { .. } => extend_disk::DEFINITION; needs VolumeAttachment,
    Task::Snapshot { .. } => snapshot::DEFINITION,
    Task::Rebuild { .. } => rebuild::DEFINITION; needs Redefinition,
    Task::Rescue { .. } => rescue::DEFINITION; needs Redefinition,
    Task::Unrescue { .. } => unrescue::DEFINITION; needs Redefinition,
    Task::Shelve { .. } => shelve::DEFINITION,
    Task::Offload { .. } => offload::DEFINITION,
    Task::Unshelve { .. } => unshelve::DEFINITION,
    Task::ChangePassword { .. } => change_password::DEFINITION,
    Task::MoveInstance { .. } => move_instance::DEFINITION; needs DiskTransfer,
    Task::ConfirmResize { .. } => confirm_resize::DEFINITION,
    Task::RevertResize { .. } => revert_resize::DEFINITION,
    Task::LiveMigrate { .. } => live_migrate::DEFINITION; needs LiveMigration,
    Task::Evacuate { .. } => evacuate::DEFINITION,
    Task::DrainHost { .. } => drain_host::DEFINITION,
    Task::CreateServers { .. } => create_servers::DEFINITION,
    Task::AskServer { .. } => ask_server::DEFINITION,
}
