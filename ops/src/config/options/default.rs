//! `[DEFAULT]`: logging, the host's identity, instances and their periodic care.

use std::path::PathBuf;

use chronova_actors::guest_name::NameTemplate;

use super::super::option::{
    Default::{HostAddress, HostName, Text},
    Multi,
};

section! {
    /// Nova's `[DEFAULT]` with oslo.log's options.
    Default = "DEFAULT" from Nova {
        debug: bool => log.debug {
            origin: super::super::OptionOrigin::Oslo,
            help: "Log at level DEBUG instead of INFO. The environment variable RUST_LOG has precedence.",
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
            help: "Open the log file again as soon as its path leads to another file, or to none.",
        }
        log_date_format: Option<String> => log.date_format {
            origin: super::super::OptionOrigin::Oslo,
            help: "Form of times in text lines, as in strftime. Unset: ISO 8601 with microseconds, in UTC.",
        }
        logging_context_format_string: Option<String> => log.context_format {
            origin: super::super::OptionOrigin::Oslo,
            help: "Form of text lines that a request caused, as in oslo.log: %(asctime)s, %(levelname)s, \
                   %(request_id)s, %(message)s and so on. Unset: Chronova's own form, or oslo.log's if one of the \
                   next two options is set.",
        }
        logging_default_format_string: Option<String> => log.default_format {
            origin: super::super::OptionOrigin::Oslo,
            help: "Form of all other text lines, as in oslo.log.",
        }
        logging_debug_format_suffix: Option<String> => log.debug_suffix {
            origin: super::super::OptionOrigin::Oslo,
            help: "End of text lines of the level DEBUG, as in oslo.log.",
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
            help: "APIs that have their own listeners. Without `osapi_compute`, [chronova] compute_listen and \
                   osapi_compute_listen_port open none. Without `metadata`, [chronova] metadata_listen and \
                   metadata_listen_port open none. [chronova] listen always serves every API.",
        }
        enabled_ssl_apis: Vec<String> => here {
            default: Text("osapi_compute"), choices: &["osapi_compute", "metadata"],
            help: "Listeners that use TLS if [wsgi] ssl_cert_file and ssl_key_file are set. `metadata` means the \
                   listeners of metadata_listen; `osapi_compute` means all other listeners. Nova's default is none. \
                   Chronova's default is `osapi_compute`, because guests ask for their metadata without TLS.",
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
            help: "Name of this control plane. The list of compute services shows it as the host of the control \
                   plane's services.",
        }
        my_ip: String => here {
            default: HostAddress,
            help: "Address of this machine on the management network.",
        }
        state_path: PathBuf => here {
            default: Text("/var/lib/nova"),
            help: "Top directory of paths on the compute hosts. Other options refer to it as $state_path. Nova's \
                   packages set the same path.",
        }
        instances_path: PathBuf => here {
            default: Text("$state_path/instances"),
            help: "Directory of the libvirt storage pool with the instances' disks on each compute host. Set it to \
                   use another directory than /var/lib/libvirt/chronova, for example a directory that hosts share.",
        }
        instance_name_template: NameTemplate => runtime.servers.instance_name_template by SharedValue {
            help: "Template of the name that the hypervisor knows an instance by: one of `%d`, `%x` (padded: `%08x`), \
                   `%(id)d` and `%(id)x` for the instance's number, or `%(uuid)s` for its id.",
        }
        osapi_compute_unique_server_name_scope: String => runtime.servers.name_scope by NameScopeWords {
            choices: &["", "project", "global"],
            help: "Where servers' host names must be unique: in a `project`, or in the whole cloud (`global`); empty \
                   lets names repeat. A second server with the same host name is refused with 409. As in Nova, the \
                   host name is derived from the server's name, and case does not matter. Of two simultaneous requests \
                   for one name, one is refused. Existing servers keep their names.",
        }
        osapi_compute_listen: String => here {
            default: Text("0.0.0.0"),
            help: "Address of a further listener of the Compute API. It has an effect only if \
                   osapi_compute_listen_port is set and [chronova] compute_listen is not.",
        }
        osapi_compute_listen_port: Option<u16> => here {
            min: Some(0.0), max: Some(65535.0),
            help: "Port of a further listener of the Compute API at its root. Unset, or 0: no such listener. Nova's \
                   default is 8774. Chronova's is unset, because [chronova] listen serves every API.",
        }
        metadata_listen: String => here {
            default: Text("0.0.0.0"),
            help: "Address at which guests ask for their metadata. It has an effect only if metadata_listen_port is \
                   set and [chronova] metadata_listen is not.",
        }
        metadata_listen_port: Option<u16> => here {
            min: Some(0.0), max: Some(65535.0),
            help: "Port of a listener of the metadata API at its root. Unset, or 0: no such listener. Nova's default \
                   is 8775. Chronova's is unset, because [chronova] listen serves every API.",
        }
        default_availability_zone: String => runtime.servers.availability_zone {
            help: "Availability zone of compute hosts that are in no aggregate with an availability zone.",
        }
        default_schedule_zone: Option<String> => compute.default_schedule_zone {
            help: "Availability zone of servers whose request names none.",
        }
        internal_service_availability_zone: String => compute.internal_availability_zone {
            help: "Availability zone that services other than nova-compute are shown in.",
        }
        reserved_host_disk_mb: u64 => runtime.hosts.reserved_host_disk_mb {
            min: Some(0.0), unit: "MiB",
            help: "Disk space of each compute host that is reserved for the host itself.",
        }
        reserved_host_memory_mb: u64 => runtime.hosts.reserved_host_memory_mb {
            min: Some(0.0), unit: "MiB",
            help: "Memory of each compute host that is reserved for the host itself.",
        }
        reserved_host_cpus: u32 => runtime.hosts.reserved_host_cpus by Whole {
            min: Some(0.0),
            help: "CPUs of each compute host that are reserved for the host itself.",
        }
        reserved_huge_pages: Multi => here {
            help: "Huge pages of each compute host that are reserved for the host itself, by NUMA cell and page size: \
                   node:0,size:2048,count:64 or node:1,size:1GB,count:1; repeated for more.",
        }
        cpu_allocation_ratio: Option<f64> => here {
            min: Some(0.0),
            help: "Virtual CPUs per host CPU. Chronova sets this ratio in every inventory of VCPU. Unset (or 0.0): a \
                   new host starts with initial_cpu_allocation_ratio, and the Placement API may change the ratio.",
        }
        ram_allocation_ratio: Option<f64> => here {
            min: Some(0.0),
            help: "Virtual memory per physical memory, for every inventory of MEMORY_MB; see cpu_allocation_ratio.",
        }
        disk_allocation_ratio: Option<f64> => here {
            min: Some(0.0),
            help: "Virtual disk per physical disk, for every inventory of DISK_GB; see cpu_allocation_ratio.",
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
        compute_monitors: Vec<String> => runtime.hosts.monitors {
            choices: &["cpu.virt_driver", "virt_driver"],
            help: "Monitors whose metrics [metrics] weight_setting can name. With cpu.virt_driver, Chronova measures \
                   the processors of each host at each heartbeat.",
        }
        password_length: u32 => compute.password_length by Whole {
            min: Some(0.0), unit: "characters",
            help: "Length of generated administrator passwords of servers.",
        }
        allow_resize_to_same_host: bool => runtime.processes.allow_resize_to_same_host {
            help: "Let a resize choose the host the server is on already.",
        }
        max_local_block_devices: i32 => compute.max_local_block_devices {
            help: "Largest number of local disks of a server. 0 refuses every local disk; a negative number means no \
                   limit.",
        }
        force_config_drive: bool => compute.force_config_drive {
            help: "Give every server a config drive, whether or not it asks for one.",
        }
        config_drive_format: String => here {
            default: Text("iso9660"), choices: &["iso9660", "vfat"],
            help: "File system of new config drives: iso9660 is a CD-ROM, vfat a disk of 64 MiB for guests that cannot read \
                   CD-ROMs.",
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
            help: "How long a new guest waits until Neutron or OVN has plugged its ports. 0: it does not wait. libvirt's \
                   networks plug at once.",
        }
        vif_plugging_is_fatal: bool => runtime.processes.vif_plugging_is_fatal {
            help: "Fail a server if Neutron or OVN has not plugged its ports within vif_plugging_timeout. Off: the guest \
                   starts without network.",
        }
        block_device_allocate_retries: u32 => runtime.processes.volume_looks {
            min: Some(0.0),
            help: "How often a build asks whether its volumes are ready before it gives up.",
        }
        block_device_allocate_retries_interval: u32 => runtime.processes.volume_pause by Seconds {
            min: Some(0.0), unit: "seconds",
            help: "How long a build waits before it asks again.",
        }
        reimage_timeout_per_gb: u32 => runtime.processes.reimage_patience by Seconds {
            min: Some(1.0), unit: "seconds",
            help: "How long a rebuild waits until the volume service has written the image to the root volume, for each \
                   GiB of the image.",
        }
        network_allocate_retries: u32 => runtime.processes.network_retries {
            min: Some(0.0),
            help: "How often a failed allocation of a new server's interfaces is tried again, after 1 second, 2 seconds and \
                   so on up to 30.",
        }
        resume_guests_state_on_host_boot: bool => runtime.hosts.resume_guests {
            help: "When a compute host returns, start the guests that ran when it went down. If any guest runs on \
                   the host, the host was not off, and Chronova starts none.",
        }
        sync_power_state_interval: i32 => runtime.hosts.power_sync by TaskPeriod {
            min: Some(-1.0), unit: "seconds",
            help: "Interval at which Chronova compares the power states of all guests of a host with the recorded \
                   ones. It finds changes that libvirt did not announce. 0 means every minute. With a negative \
                   number, Chronova compares them only when the host connects.",
        }
        update_resources_interval: i32 => runtime.hosts.resources_poll by SecondsOrNever {
            min: Some(-1.0), unit: "seconds",
            help: "Interval at which every host reports its resources, its traits and the ratios that options set. It \
                   undoes what clients of Placement have changed of them. 0 means every minute. With a negative number, \
                   a host reports only when it connects and at SIGHUP.",
        }
        shutdown_timeout: u32 => runtime.servers.shutdown_timeout {
            min: Some(0.0), unit: "seconds",
            help: "How long a guest has to shut itself down before its power is cut; 0 cuts at once. The image property \
                   os_shutdown_timeout wins.",
        }
        reboot_timeout: u32 => runtime.reconcile.reboot_timeout by Seconds {
            min: Some(0.0), unit: "seconds",
            help: "Time after which a soft reboot that has not ended becomes a hard reboot; 0 never. In any case, a \
                   guest that does not react is rebooted hard after [libvirt] wait_soft_reboot_seconds.",
        }
        instance_build_timeout: u32 => runtime.processes.build_timeout by Seconds {
            min: Some(0.0), unit: "seconds",
            help: "Time after which a build that is still under way fails; 0 never. The current step ends first. \
                   Then Chronova removes everything that the build created, and the server is in error.",
        }
        rescue_timeout: u32 => runtime.reconcile.rescue_timeout by Seconds {
            min: Some(0.0), unit: "seconds",
            help: "Time after which a rescued server is unrescued; 0 never. If another operation on the server is \
                   under way then, Chronova tries again within a minute.",
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
            help: "The action on a guest whose server is deleted. `reap` removes it, `log` reports a running guest \
                   in the log, `shutdown` also switches it off, `noop` does nothing.",
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
            help: "Time without an answer after which a compute host is down. A host whose connection breaks is down \
                   at once. If this time is not longer than report_interval, Chronova uses 2.5 times \
                   report_interval, as Nova does.",
        }
        graceful_shutdown_timeout: u32 => serving.graceful by Seconds {
            min: Some(0.0), unit: "seconds",
            help: "How long requests under way may take during shutdown; 0 waits without limit. Work in the background needs no \
                   time: the next start continues it.",
        }
        use_cow_images: bool => here {
            default: Text("true"),
            help: "With images_type default: create root disks as copy-on-write files over a cached image. Off: \
                   create whole copies.",
        }
        force_raw_images: bool => drivers.libvirt.images.keep_format by Negated {
            help: "With images_type raw: create raw disks from qcow2 images, too. Off: a whole copy keeps the format \
                   of its image. Cached images keep their format in both cases.",
        }
        preallocate_images: String => drivers.libvirt.images.preallocate by PreallocationWords {
            choices: &["none", "space"],
            help: "`space` allocates the whole size of a raw disk in the host's file system when the disk is made, so \
                   that a guest's writes cannot fail for lack of space. Copy-on-write files still grow as the guest \
                   writes.",
        }
        web: PathBuf => compute.consoles.pages {
            help: "Folder with the viewers for browsers (noVNC, spice-html5). The console gateway serves its files \
                   below /console/.",
        }
        record: Option<PathBuf> => compute.consoles.record {
            help: "Beginning of the names of files that record consoles: the first console is recorded in RECORD.1, in \
                   the format of websockify. A recording has all that a user types, also passwords. Unset: no recordings.",
        }
        cert: Option<PathBuf> => here {
            help: "Certificate (PEM) of the listeners of Nova's console proxies ([vnc] novncproxy_port, [spice] \
                   html5proxy_port, [serial_console] serialproxy_port), which then accept only TLS. Unset: they use TLS \
                   as the APIs do. Nova's default is self.pem.",
        }
        key: Option<PathBuf> => here {
            help: "Key of cert (PEM). Unset: the file of cert has the key, too.",
        }
        ssl_only: bool => here {
            default: Text("false"),
            help: "Stop the start if a listener of Nova's console proxies would be without TLS.",
        }
        source_is_ipv6: bool => here {
            default: Text("false"),
            help: "Listeners of Nova's console proxies prefer the IPv6 address of a name.",
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
