//! `[DEFAULT]`: logging, the host's identity, instances and their periodic care.

use std::path::PathBuf;

use chronova_actors::guest_name::NameTemplate;

use super::super::option::Default::{HostAddress, HostName, Text};

section! {
    /// Nova's `[DEFAULT]` with oslo.log's options.
    Default = "DEFAULT" from Nova {
        debug: bool => log.debug {
            origin: super::super::OptionOrigin::Oslo,
            help: "Log at level DEBUG instead of INFO. The environment variable RUST_LOG, where set, wins.",
        }
        log_file: Option<PathBuf> => here {
            origin: super::super::OptionOrigin::Oslo,
            deprecated: &[("DEFAULT", "logfile")],
            help: "File to log to, relative to log_dir. Unset: standard error.",
        }
        log_dir: Option<PathBuf> => here {
            origin: super::super::OptionOrigin::Oslo,
            deprecated: &[("DEFAULT", "logdir")],
            help: "Directory of the log file; with no log_file set, the file is chronova.log in it.",
        }
        use_json: bool => log.json {
            origin: super::super::OptionOrigin::Oslo,
            help: "Log one JSON object a line instead of text.",
        }
        use_syslog: bool => here {
            default: Text("false"), origin: super::super::OptionOrigin::Oslo,
            help: "Log to syslog as well, in the form of RFC 5424.",
        }
        syslog_log_facility: String => here {
            default: Text("LOG_USER"), origin: super::super::OptionOrigin::Oslo,
            choices: &[
                "LOG_KERN", "LOG_USER", "LOG_MAIL", "LOG_DAEMON", "LOG_AUTH", "LOG_SYSLOG", "LOG_LPR", "LOG_NEWS", "LOG_CRON",
                "LOG_AUTHPRIV", "LOG_LOCAL0", "LOG_LOCAL1", "LOG_LOCAL2", "LOG_LOCAL3", "LOG_LOCAL4", "LOG_LOCAL5", "LOG_LOCAL6",
                "LOG_LOCAL7",
            ],
            help: "Facility of the lines in syslog.",
        }
        use_journal: bool => log.journal {
            origin: super::super::OptionOrigin::Oslo,
            help: "Log to systemd's journal as well, with fields.",
        }
        watch_log_file: bool => log.watch {
            origin: super::super::OptionOrigin::Oslo,
            help: "Open the log file again as soon as another file, or none, has its name.",
        }
        log_date_format: Option<String> => log.date_format {
            origin: super::super::OptionOrigin::Oslo,
            help: "Form of times in text lines, as in strftime. Unset: ISO 8601 with microseconds, in UTC.",
        }
        log_config_append: Option<PathBuf> => here {
            origin: super::super::OptionOrigin::Oslo,
            deprecated: &[("DEFAULT", "log_config")],
            help: "File in the form of Python's logging.config.fileConfig. Levels and handlers come from it, and the other \
                   options of logging are ignored.",
        }
        use_stderr: bool => log.stderr {
            origin: super::super::OptionOrigin::Oslo,
            help: "Log to standard error as well when a log file is set.",
        }
        enabled_apis: Vec<String> => here {
            default: Text("osapi_compute,metadata"), choices: &["osapi_compute", "metadata"],
            help: "Which APIs have listeners of their own: without `osapi_compute` or `metadata`, compute_listen or \
                   metadata_listen of [chronova] and Nova's options in their place open nothing. [chronova] listen always \
                   serves every API.",
        }
        enabled_ssl_apis: Vec<String> => here {
            default: Text("osapi_compute"), choices: &["osapi_compute", "metadata"],
            help: "Which listeners speak TLS once [wsgi] ssl_cert_file and ssl_key_file are set: `osapi_compute` stands for \
                   all but those of metadata_listen, `metadata` for those. Nova's default is none; here a certificate \
                   that is configured is used, except for guests, who ask for their metadata without TLS.",
        }
        transport_url: Option<String> => here {
            origin: super::super::OptionOrigin::Oslo, secret: true,
            help: "RabbitMQ for notifications, unless [oslo_messaging_notifications] transport_url names another one. Chronova \
                   has no RPC, so nothing else uses it.",
        }
        control_exchange: String => runtime.notifications.broker.exchange {
            origin: super::super::OptionOrigin::Oslo,
            help: "Exchange of notifications.",
        }
        host: Option<String> => compute.host {
            default: HostName,
            help: "Name of this control plane as the compute service list shows it beside its services.",
        }
        my_ip: String => here {
            default: HostAddress,
            help: "Address of this machine on the management network.",
        }
        state_path: PathBuf => here {
            default: Text("/var/lib/nova"),
            help: "Top of the directory tree that other paths are given by. It names a place on the compute hosts, where \
                   Nova's packages set the same.",
        }
        instances_path: PathBuf => here {
            default: Text("$state_path/instances"),
            help: "Directory of the libvirt storage pool that holds instances' disks on each compute host, where it is to be \
                   another one than /var/lib/libvirt/chronova: a directory that hosts share, say.",
        }
        instance_name_template: NameTemplate => runtime.servers.instance_name_template by SharedValue {
            help: "Template of the name that the hypervisor knows an instance by: one of `%d`, `%x` (padded: `%08x`), \
                   `%(id)d` and `%(id)x` for the instance's number, or `%(uuid)s` for its id.",
        }
        osapi_compute_unique_server_name_scope: String => runtime.servers.name_scope by NameScopeWords {
            choices: &["", "project", "global"],
            help: "Refuse a second server with the same host name within this scope, with 409: in its `project` or in the whole \
                   cloud (`global`); empty lets names repeat. As in Nova, the host name is made of the name, and upper case \
                   does not count. Two requests at once get two names. Servers that exist keep theirs.",
        }
        osapi_compute_listen: String => here {
            default: Text("0.0.0.0"),
            help: "Address of Nova's own API server. Read with osapi_compute_listen_port, and only where \
                   [chronova] compute_listen is not set and the port is.",
        }
        osapi_compute_listen_port: Option<u16> => here {
            min: Some(0.0), max: Some(65535.0),
            help: "Port of a further listener of the Compute API at its root. Nova's default is 8774; here it is \
                   unset, and 0 means unset, because [chronova] listen serves every API.",
        }
        metadata_listen: String => here {
            default: Text("0.0.0.0"),
            help: "Address on which guests ask for their metadata. Read with metadata_listen_port, and only where \
                   [chronova] metadata_listen is not set and the port is.",
        }
        metadata_listen_port: Option<u16> => here {
            min: Some(0.0), max: Some(65535.0),
            help: "Port of a listener of the metadata API at its root. Nova's default is 8775; here it is unset, and 0 is as \
                   good as unset, because [chronova] listen serves every API.",
        }
        default_availability_zone: String => runtime.servers.availability_zone {
            help: "Availability zone of compute hosts that belong to no aggregate with one.",
        }
        default_schedule_zone: Option<String> => compute.default_schedule_zone {
            help: "Availability zone of servers whose request names none.",
        }
        internal_service_availability_zone: String => compute.internal_availability_zone {
            help: "Availability zone that services other than nova-compute are shown in.",
        }
        reserved_host_disk_mb: u64 => runtime.hosts.reserved_host_disk_mb {
            min: Some(0.0), unit: "MiB",
            help: "Disk of each compute host kept for the host itself.",
        }
        reserved_host_memory_mb: u64 => runtime.hosts.reserved_host_memory_mb {
            min: Some(0.0), unit: "MiB",
            help: "Memory of each compute host kept for the host itself.",
        }
        reserved_host_cpus: u32 => runtime.hosts.reserved_host_cpus by Whole {
            min: Some(0.0),
            help: "Host CPUs of each compute host kept for the host itself.",
        }
        cpu_allocation_ratio: Option<f64> => here {
            min: Some(0.0),
            help: "Virtual CPUs per host CPU, imposed on every inventory of VCPU. Unset (or 0.0) leaves the ratio to the \
                   Placement API and starts from initial_cpu_allocation_ratio.",
        }
        ram_allocation_ratio: Option<f64> => here {
            min: Some(0.0),
            help: "Virtual memory per physical memory, imposed on every inventory of MEMORY_MB; see cpu_allocation_ratio.",
        }
        disk_allocation_ratio: Option<f64> => here {
            min: Some(0.0),
            help: "Virtual disk per physical disk, imposed on every inventory of DISK_GB; see cpu_allocation_ratio.",
        }
        initial_cpu_allocation_ratio: f64 => runtime.hosts.cpu_allocation_ratio {
            min: Some(0.0),
            help: "Ratio of VCPU that a new compute host starts with.",
        }
        initial_ram_allocation_ratio: f64 => runtime.hosts.ram_allocation_ratio {
            min: Some(0.0),
            help: "Ratio of MEMORY_MB that a new compute host starts with.",
        }
        initial_disk_allocation_ratio: f64 => runtime.hosts.disk_allocation_ratio {
            min: Some(0.0),
            help: "Ratio of DISK_GB that a new compute host starts with.",
        }
        password_length: u32 => compute.password_length by Whole {
            min: Some(0.0), unit: "characters",
            help: "Length of generated administrator passwords of servers.",
        }
        allow_resize_to_same_host: bool => runtime.processes.allow_resize_to_same_host {
            help: "Let a resize choose the host the server is on already.",
        }
        max_local_block_devices: i32 => compute.max_local_block_devices {
            help: "Most local disks of a server. 0 refuses every local disk, a number below zero lifts the bound.",
        }
        force_config_drive: bool => compute.force_config_drive {
            help: "Give every server a config drive, whether or not it asks for one.",
        }
        config_drive_format: String => here {
            default: Text("iso9660"), choices: &["iso9660", "vfat"],
            help: "File system of config drives. Chronova makes iso9660; vfat, which Nova keeps for old guests, stops the \
                   start.",
        }
        enable_new_services: bool => runtime.hosts.enable_new_services {
            help: "Let new compute hosts take servers at once; otherwise they start disabled.",
        }
        max_concurrent_builds: u32 => runtime.hosts.max_concurrent_builds by Whole {
            min: Some(0.0),
            help: "Servers that one compute host builds at the same time; 0 is no bound.",
        }
        max_concurrent_snapshots: u32 => runtime.hosts.max_concurrent_snapshots by Whole {
            min: Some(0.0),
            help: "Snapshots that one compute host makes at the same time; 0 is no bound.",
        }
        max_concurrent_live_migrations: u32 => runtime.live.per_host by Whole {
            min: Some(0.0),
            help: "Live migrations that leave one compute host at the same time; 0 is no bound.",
        }
        vif_plugging_timeout: u32 => runtime.processes.vif_plugging_timeout by Seconds {
            unit: "seconds",
            help: "How long a new guest waits until Neutron has plugged its ports. 0: it does not wait. The embedded network \
                   service plugs at once.",
        }
        vif_plugging_is_fatal: bool => runtime.processes.vif_plugging_is_fatal {
            help: "Whether a server fails whose ports are not plugged in that time. Off: its guest goes on without network.",
        }
        block_device_allocate_retries: u32 => runtime.processes.volume_looks {
            min: Some(0.0),
            help: "How often a build asks whether its volumes are ready before it gives up.",
        }
        block_device_allocate_retries_interval: u32 => runtime.processes.volume_pause by Seconds {
            min: Some(0.0), unit: "seconds",
            help: "How long a build waits between two such questions.",
        }
        network_allocate_retries: u32 => runtime.processes.network_retries {
            min: Some(0.0),
            help: "How often a failed allocation of a new server's interfaces is tried again, after 1 second, 2 seconds and \
                   so on up to 30.",
        }
        resume_guests_state_on_host_boot: bool => runtime.hosts.resume_guests {
            help: "Start the guests that ran when their compute host went down, once it is back. A host on which \
                   any guest runs was not off.",
        }
        sync_power_state_interval: i32 => runtime.hosts.power_sync by TaskPeriod {
            min: Some(-1.0), unit: "seconds",
            help: "Period in which the power states of all guests of a host are compared with what is recorded. Changes that \
                   libvirt announces are seen at once; this finds the others. 0 is every minute. Below zero, they are \
                   compared only when the host connects.",
        }
        shutdown_timeout: u32 => runtime.servers.shutdown_timeout {
            min: Some(0.0), unit: "seconds",
            help: "How long a guest has to shut itself down before its power is cut; 0 cuts at once. The image property \
                   os_shutdown_timeout wins.",
        }
        reboot_timeout: u32 => runtime.reconcile.reboot_timeout by Seconds {
            min: Some(0.0), unit: "seconds",
            help: "Time after which a soft reboot that is still under way becomes a hard one; 0 never. A guest that does not \
                   react is rebooted hard after [libvirt] wait_soft_reboot_seconds in any case.",
        }
        instance_build_timeout: u32 => runtime.processes.build_timeout by Seconds {
            min: Some(0.0), unit: "seconds",
            help: "Time after which a build that is still under way fails; 0 never. The step under way ends first. Then what \
                   was made is removed, and the server is in error.",
        }
        rescue_timeout: u32 => runtime.reconcile.rescue_timeout by Seconds {
            min: Some(0.0), unit: "seconds",
            help: "Time after which a rescued server is unrescued; 0 never. A server that changes meanwhile is looked at again \
                   within a minute.",
        }
        resize_confirm_window: u32 => runtime.reconcile.resize_confirm_window by Seconds {
            min: Some(0.0), unit: "seconds",
            help: "Time after which a finished resize is confirmed; 0 never.",
        }
        reclaim_instance_interval: u32 => runtime.servers.reclaim_interval by Seconds {
            min: Some(0.0), unit: "seconds",
            help: "How long a deleted server can be restored; 0 deletes at once.",
        }
        shelved_offload_time: i32 => runtime.servers.shelved_offload by SecondsOrNever {
            min: Some(-1.0), unit: "seconds",
            help: "How long a shelved server stays on its host; 0 removes it at once, -1 keeps it.",
        }
        running_deleted_instance_action: String => runtime.hosts.deleted_guests by DeletedGuestWords {
            choices: &["reap", "log", "shutdown", "noop"],
            help: "The action on a guest of a deleted server on a host: remove it; report it in the log, if \
                   it runs; also switch it off; do nothing.",
        }
        running_deleted_instance_poll_interval: u32 => runtime.hosts.deleted_poll by SecondsOrZero {
            min: Some(0.0), unit: "seconds",
            help: "Period of the search for guests of deleted servers; 0 never searches. A host that connects is searched at \
                   once.",
        }
        report_interval: u32 => runtime.hosts.heartbeat by Seconds {
            min: Some(1.0), unit: "seconds",
            help: "Period of the heartbeat of every compute host.",
        }
        service_down_time: u32 => runtime.hosts.down_time by Seconds {
            min: Some(1.0), unit: "seconds",
            help: "Time without an answer after which a compute host is down. A host whose connection breaks is down at once. A \
                   time that is not above report_interval becomes 2.5 times that, as in Nova.",
        }
        graceful_shutdown_timeout: u32 => serving.graceful by Seconds {
            min: Some(0.0), unit: "seconds",
            help: "How long requests under way may take during shutdown; 0 waits without limit. Work in the background needs no \
                   time: the next start continues it.",
        }
        use_cow_images: bool => here {
            default: Text("true"),
            help: "With images_type default: make root disks copy-on-write files over a cached image; otherwise whole copies.",
        }
        force_raw_images: bool => drivers.libvirt.images.keep_format by Negated {
            help: "With images_type raw: make raw disks of qcow2 images, too; otherwise a whole copy keeps the format of its \
                   image. Cached images stay as they came, either way.",
        }
        preallocate_images: String => drivers.libvirt.images.preallocate by PreallocationWords {
            choices: &["none", "space"],
            help: "`space` allocates the whole size of a raw disk in the host's file system when the disk is made, so \
                   that a guest's writes cannot fail for lack of space. Copy-on-write files still grow as the guest \
                   writes.",
        }
        web: PathBuf => compute.consoles.pages {
            help: "Folder of the browsers' viewers (noVNC, spice-html5), whose files the console gateway gives out below \
                   /console/.",
        }
        pointer_model: Option<String> => drivers.libvirt.guests.tablet by PointerWords {
            choices: &["usbtablet", "ps2mouse"],
            help: "Pointing device of guests that have a graphical console.",
        }
    }
}

section! {
    /// Reports of the server's state.
    OsloReports = "oslo_reports" from Oslo {
        log_dir: Option<PathBuf> => here {
            help: "Directory in which SIGUSR2 makes the server write a report of its state. Unset: standard error.",
        }
    }
}
