//! Faults: the affected call, the trigger, and the effect.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use chronova_events::entropy::SplitMix;

/// The driver's calls, by the names that faults and counters use.
macro_rules! calls {
    ($($call:ident = $name:literal),+ $(,)?) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum DriverCall { $($call),+ }

        impl DriverCall {
            pub const ALL: &'static [Self] = &[$(Self::$call),+];

            pub fn name(self) -> &'static str {
                match self { $(Self::$call => $name),+ }
            }
        }
    };
}

calls! {
    Capabilities = "capabilities",
    Usage = "usage",
    EnsureImage = "ensure_image",
    EnsureNetwork = "ensure_network",
    RemoveNetwork = "remove_network",
    ListNetworks = "list_networks",
    EnsureFilter = "ensure_filter",
    RemoveFilter = "remove_filter",
    Spawn = "spawn",
    Destroy = "destroy",
    Start = "start",
    Stop = "stop",
    RebootSoft = "reboot_soft",
    RebootHard = "reboot_hard",
    Pause = "pause",
    Unpause = "unpause",
    Suspend = "suspend",
    Resume = "resume",
    Guest = "guest",
    Guests = "guests",
    Orphans = "orphans",
    ConsoleLog = "console_log",
    Interrupt = "interrupt",
    Diagnostics = "diagnostics",
    VolumePool = "volume_pool",
    Volumes = "volumes",
    CreateVolume = "create_volume",
    DeleteVolume = "delete_volume",
    ResizeVolume = "resize_volume",
    ReadVolume = "read_volume",
    AttachNic = "attach_nic",
    DetachNic = "detach_nic",
    Screen = "screen",
    SerialLine = "serial_line",
    AttachDisk = "attach_disk",
    DetachDisk = "detach_disk",
    BeginSwap = "begin_swap",
    SwapDisk = "swap_disk",
    AbandonSwap = "abandon_swap",
    ResizeDisk = "resize_disk",
    Disks = "disks",
    Nics = "nics",
    Devices = "devices",
    Redefine = "redefine",
    CopyRoot = "copy_root",
    ReadCopy = "read_copy",
    RemoveCopy = "remove_copy",
    SetPassword = "set_password",
    Freeze = "freeze",
    Thaw = "thaw",
    DiskFiles = "disk_files",
    ReadDisk = "read_disk",
    ReadImage = "read_image",
    ReceiveDisk = "receive_disk",
    RemoveDisk = "remove_disk",
    Install = "install",
    MigrationData = "migration_data",
    DestinationObstacles = "destination_obstacles",
    StorageSharers = "storage_sharers",
    OwnerOf = "owner_of",
    Remember = "remember",
    PrepareDestination = "prepare_destination",
    StartMigration = "start_migration",
    MigrationState = "migration_state",
    AbortMigration = "abort_migration",
    ForceComplete = "force_complete",
    SetMaxDowntime = "set_max_downtime",
    Undefine = "undefine",
    Provide = "provide",
    Leftovers = "leftovers",
    CachedImages = "cached_images",
    NoteIdle = "note_idle",
    RemoveImage = "remove_image",
    HoldPassphrase = "hold_passphrase",
    DropPassphrase = "drop_passphrase",
    TpmState = "tpm_state",
    ReceiveTpmState = "receive_tpm_state",
}

/// The effect of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// The call fails without any effect.
    Refuse,
    NoRoom,
    /// The call fails, because the guest has no agent.
    NoAgent,
    /// The call is performed, but its answer never arrives.
    LoseReply,
    /// A spawn or a destroy is performed only in part, and leaves disks without a domain. Other calls are not affected.
    Tear,
    /// The host fails before it performs the call.
    DieBefore,
    /// The host fails after it has performed the call.
    DieAfter,
    /// The call is performed after a long time.
    Slow,
}

/// The duration of a slow call.
pub(super) const SLOW: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FaultTrigger {
    /// At the nth call of this kind to a host, counted from 1.
    Nth(u64),
    /// At each call of this kind with this probability.
    Chance(f64),
    Always,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FaultRule {
    pub call: DriverCall,
    pub when: FaultTrigger,
    pub effect: Effect,
}

/// The rules of faults. The first rule that applies decides.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FaultPlan {
    pub rules: Vec<FaultRule>,
}

impl FaultPlan {
    pub fn with(mut self, call: DriverCall, when: FaultTrigger, effect: Effect) -> Self {
        self.rules.push(FaultRule { call, when, effect });
        self
    }

    /// The fault of the `nth` call. Every rule with a probability for this call draws exactly one number, so that the
    /// outcomes depend only on the seed.
    pub(super) fn strike(&self, call: DriverCall, nth: u64, chance: &mut Chance) -> Option<Effect> {
        let mut struck = None;
        for rule in self.rules.iter().filter(|rule| rule.call == call) {
            let applies = match rule.when {
                FaultTrigger::Nth(n) => n == nth,
                FaultTrigger::Chance(probability) => chance.unit() < probability,
                FaultTrigger::Always => true,
            };
            if applies && struck.is_none() {
                struck = Some(rule.effect);
            }
        }
        struck
    }
}

/// Parses `spawn:p0.05+destroy:n3+spawn:lost-p0.1`: call, effect (default: `refuse`), and `p` with a probability, `n`
/// with a number, or `always`.
impl FromStr for FaultPlan {
    type Err = UnreadablePlan;

    fn from_str(text: &str) -> Result<Self, UnreadablePlan> {
        let rules = text.split('+').filter(|rule| !rule.is_empty()).map(rule).collect::<Option<Vec<_>>>();
        rules.map(|rules| Self { rules }).ok_or(UnreadablePlan)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnreadablePlan;

impl fmt::Display for UnreadablePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("faults are written CALL:[EFFECT-]WHEN+..., for example spawn:p0.05+destroy:lost-n3")
    }
}

impl std::error::Error for UnreadablePlan {}

fn rule(text: &str) -> Option<FaultRule> {
    let (call, what) = text.split_once(':')?;
    let call = *DriverCall::ALL.iter().find(|known| known.name() == call)?;
    let (effect, when) = what.rsplit_once('-').unwrap_or(("refuse", what));
    let effect = match effect {
        "refuse" => Effect::Refuse,
        "noroom" => Effect::NoRoom,
        "noagent" => Effect::NoAgent,
        "lost" => Effect::LoseReply,
        "tear" => Effect::Tear,
        "die" => Effect::DieBefore,
        "die-after" => Effect::DieAfter,
        "slow" => Effect::Slow,
        _ => return None,
    };
    let when = match when.split_at_checked(1)? {
        ("p", chance) => FaultTrigger::Chance(chance.parse().ok().filter(|p| (0.0..=1.0).contains(p))?),
        ("n", nth) => FaultTrigger::Nth(nth.parse().ok()?),
        _ if when == "always" => FaultTrigger::Always,
        _ => return None,
    };
    Some(FaultRule { call, when, effect })
}

/// The random numbers of a host's latencies and faults, from the seed and the host's number.
#[derive(Debug, Clone)]
pub(super) struct Chance(SplitMix);

impl Chance {
    pub(super) fn new(seed: u64, host: usize) -> Self {
        let mut numbers = SplitMix::new(seed ^ (host as u64).wrapping_mul(0xd6e8_feb8_6659_fd93));
        numbers.draw();
        Self(numbers)
    }

    /// A number from 0 up to, but not including, 1.
    pub(super) fn unit(&mut self) -> f64 {
        // 32 bits are exact in an f64 and enough for a fault.
        let bits = u32::try_from(self.0.draw() >> 32).unwrap_or(0);
        f64::from(bits) / 4_294_967_296.0
    }
}
