//! `[chronova]`: options that Nova does not have. In OpenStack, other services have most of them.

use std::path::PathBuf;

use chronova_events::place::PlaceAddress;

use super::super::option::{
    Default::{HostAddress, Text},
    Multi, Words,
};

section! {
    /// The server itself: where it keeps its log, where it listens, which hosts it drives.
    Chronova = "chronova" from Chronova {
        data_dir: PathBuf => here {
            default: Text("/var/lib/chronova"),
            help: "Where the event log, its snapshots, uploaded images and the generated credentials live. \
                   `--data-dir` on the command line wins.",
        }
        listen: Words => here {
            default: Text("127.0.0.1:8774"),
            help: "HOST:PORT that serve every API under its prefix (/compute/v2.1, /placement, /identity/v3, /image, \
                   /network, /volume/v3, /metadata, /chronova/v1, /healthz, /metrics). `--listen` on the command line wins.",
        }
        compute_listen: Words => here {
            help: "Further HOST:PORT that serve the Compute API at their root, as Nova customarily does on 8774.",
        }
        placement_listen: Words => here {
            help: "Further HOST:PORT that serve the Placement API at their root (customarily 8778).",
        }
        identity_listen: Words => here {
            help: "Further HOST:PORT that serve the embedded Identity API at their root (customarily 5000).",
        }
        image_listen: Words => here {
            help: "Further HOST:PORT that serve the embedded Image API at their root (customarily 9292).",
        }
        network_listen: Words => here {
            help: "Further HOST:PORT that serve the embedded Network API at their root (customarily 9696).",
        }
        volume_listen: Words => here {
            help: "Further HOST:PORT that serve the embedded Volume API at their root (customarily 8776).",
        }
        metadata_listen: Words => here {
            help: "Further HOST:PORT that serve the metadata API to guests at their root (customarily 8775).",
        }
        public_url: Option<String> => here {
            help: "URL under which clients reach the first listener, if it is behind a proxy or a name. The identity \
                   catalogue and all links point there. Unset: `http://` (`https://` with [wsgi] ssl_cert_file) and \
                   the first listener.",
        }
        public_host: String => here {
            default: HostAddress,
            help: "Host name or address for the catalogue, if a listener is bound to every address (0.0.0.0, ::).",
        }
        otlp_endpoint: Option<String> => here {
            secret: true,
            help: "URL to which traces are sent by OTLP over HTTP, as JSON: http://127.0.0.1:4318/v1/traces for a \
                   collector on this machine. Unset: no traces.",
        }
        region_name: String => here {
            default: Text("RegionOne"),
            help: "Region of the embedded services in the identity catalogue.",
        }
        image_service: String => here {
            default: Text("auto"), choices: &["auto", "embedded", "glance"],
            help: "Where images are: in the embedded service, or in Glance. auto: in Glance if [keystone_authtoken] \
                   auth_url names a Keystone, because a cloud with Keystone also has Glance.",
        }
        key_manager: String => here {
            default: Text("embedded"), choices: &["embedded", "external", "none"],
            help: "Where the passphrases of emulated TPMs are: in the folder `secrets` of the data directory, in the \
                   Barbican or Vault of [key_manager] (external), or nowhere. `none` refuses servers with a TPM.",
        }
        volume_service: String => here {
            default: Text("auto"), choices: &["auto", "embedded", "cinder"],
            help: "Where volumes are: in the embedded service, or in Cinder. auto: in Cinder if [keystone_authtoken] \
                   auth_url names a Keystone, because a cloud with Keystone also has Cinder.",
        }
        hypervisors: Words => here {
            help: "The compute hosts: libvirt URIs (qemu:///system, qemu+tls://host/system, \
                   qemu+ssh://root@host/system) or simulated fleets (sim://10 is ten hosts). A second fleet without \
                   ?name=NAME is named sim2. Chronova installs nothing on the hosts.",
        }
        admin_password_file: Option<PathBuf> => here {
            help: "File holding the first administrator's password. Unset: one is generated at first start and written \
                   to clouds.yaml (mode 0600) in the data directory.",
        }
        driver_threads: u32 => drivers.libvirt.workers by Whole {
            min: Some(1.0), max: Some(256.0),
            help: "Calls that change one compute host and may be under way at the same time. A call to libvirt blocks a \
                   thread, and a transfer of an image or a disk for as long as it lasts. Uploads of images leave \
                   one thread free if there are several. Each host has its own threads, so a hanging libvirtd blocks only calls to its own host.",
        }
        driver_timeout: u32 => drivers.libvirt.call_deadline by Seconds {
            min: Some(1.0), unit: "seconds",
            help: "Time after which a call to a compute host counts as failed. A transfer of an image may take \
                   longer, but must make progress within this time.",
        }
        host_cpus: Option<String> => here {
            help: "Processors of hosts that differ from [compute] cpu_shared_set and cpu_dedicated_set, by host name: \
                   `node1 dedicated=4-15 shared=0-3; node2 dedicated=2-7`. Those two options do not apply to a host \
                   named here.",
        }
        host_pci_device_spec: Multi => here {
            help: "PCI devices of a host that differs from [pci] device_spec: the host's name, a blank, and a device \
                   spec; repeated for more specs and hosts. [pci] device_spec does not apply to a host named here.",
        }
        pmem_path: Option<PathBuf> => here {
            help: "Directory of a file system on the compute hosts' persistent memory, mounted with dax, for the namespaces \
                   of [libvirt] pmem_namespaces. A host without this directory offers none. See docs/cpus.md.",
        }
        pmem_sizes: Vec<String> => here {
            help: "Size of the namespaces of each label in MiB, an even number: 6GB=6144, LARGE=16384.",
        }
        pmem_is_persistent: bool => here {
            default: Text("true"),
            help: "Whether pmem_path is on persistent memory. Set it to false to try the feature on another file system.",
        }
        extra_spec_validators: Option<PathBuf> => here {
            help: "File (JSON) that describes extra specs of your own filters, which are validated from API version 2.86 \
                   on. See docs/scheduling.md. Unset: any value of a namespace that Nova does not have is accepted.",
        }
        live_migration_interface: Option<String> => runtime.live.interface {
            help: "Network interface on which compute hosts receive live migrations, under the name that each host's \
                   libvirt gives it. A host whose libvirt does not report this interface receives no guest. \
                   `[libvirt] live_migration_inbound_addr` has precedence over this option.",
        }
        rbd_monitors: Vec<String> => drivers.libvirt.images.rbd.monitors {
            help: "With [libvirt] images_type rbd: Ceph's monitors, as HOST or HOST:PORT. The compute hosts must reach \
                   them at these addresses.",
        }
        rbd_keyring: Option<PathBuf> => here {
            help: "Ceph keyring with the key of [libvirt] rbd_user. If rbd_user is unset, the keyring must name only \
                   one user. The compute hosts get the key as the libvirt secret that [libvirt] rbd_secret_uuid or \
                   Cinder names. Unset: that secret must exist on each host. With [libvirt] images_type rbd, Ceph's \
                   programs beside Chronova use it, too.",
        }
        event_store: String => here {
            default: Text("sqlite"), secret: true,
            help: "Where the event log is kept: `sqlite` (the file log.db in the data directory) or the address of a \
                   PostgreSQL database, `postgresql://USER:PASSWORD@HOST/DATABASE` or `host=... user=... dbname=...`. With \
                   PostgreSQL several members may be started on one database: one leads, the others stand by.",
        }
        event_store_cell: String => here {
            default: Text("cell1"),
            help: "Name of the log in the database. A database holds one log; a member that expects another name is refused.",
        }
        event_store_lease: u32 => here {
            default: Text("10"), min: Some(2.0), max: Some(300.0), unit: "seconds",
            help: "How long a member may lead while the database does not hear from it. After 60 % of this time, the \
                   process of the member is killed. After the whole time, another member may lead.",
        }
        event_store_patience: u32 => here {
            default: Text("30"), min: Some(1.0), max: Some(3600.0), unit: "seconds",
            help: "How long an append waits for a database that does not answer. After this time, the log accepts no \
                   more appends.",
        }
        event_store_asynchronous: bool => here {
            default: Text("false"),
            help: "Accept a database without a synchronous standby. If that database is lost, the log is lost.",
        }
        retention_days: u32 => here {
            default: Text("0"), max: Some(36500.0), unit: "days",
            help: "Age at which events leave the file of the log (log.db) for its archive, where all queries still read \
                   them. 0: events stay in the file whatever their age. A log in PostgreSQL keeps all its events.",
        }
        retention_size: u64 => here {
            default: Text("0"), unit: "MiB",
            help: "Size of the file of the log beyond which its oldest events leave it for the archive. 0: no limit. \
                   The file does not shrink: later events use the space.",
        }
        retention_archive: Option<PlaceAddress> => here {
            help: "The archive that takes the events: a folder, or s3://BUCKET/PREFIX in an object store. Unset: the \
                   archive that the log names already, or the folder `archive` in the data directory.",
        }
        retention_sign_key: Option<PathBuf> => here {
            help: "Private key in PEM that signs the archive's manifests, as `chronova audit keygen` makes it. Unset: they \
                   are not signed.",
        }
        retention_interval: u32 => here {
            default: Text("24"), min: Some(1.0), max: Some(8760.0), unit: "hours",
            help: "Time between two moves of old events into the archive. Each move first rebuilds the read models from \
                   the whole log and compares them with the newest checkpoint.",
        }
        s3_endpoint: Option<String> => here {
            help: "URL of the object store for addresses of the form s3://BUCKET/PREFIX: https://HOST or \
                   http://HOST:PORT, without a path. Unset: Amazon's store in s3_region.",
        }
        s3_region: Option<String> => here {
            help: "Region of the object store. Unset: us-east-1, which stores without regions accept.",
        }
        s3_key_file: Option<PathBuf> => here {
            help: "File with the key of the object store, in the lines `aws_access_key_id = ...` and \
                   `aws_secret_access_key = ...`. It is read for each request, so the key may be changed at any time.",
        }
        s3_ca_file: Option<PathBuf> => here {
            help: "File with the certificate authorities of the object store, in PEM. Unset: those of the system.",
        }
        log_batch: u32 => store.batch_requests by Whole {
            min: Some(1.0), max: Some(65536.0),
            help: "Appends that may share one fsync of the event log.",
        }
        max_feeds: u32 => web.max_feeds by Whole {
            max: Some(10000.0),
            help: "Live feeds of the event log (GET /chronova/v1/events) that may be open at the same time. The same \
                   number applies to feeds of projects' own servers (GET /chronova/v1/changes).",
        }
        access_records: bool => web.access.on {
            help: "Record refused requests, log-ins, new tokens, console sessions and reads of secrets as events of the \
                   log, for auditors.",
        }
        access_rate: u32 => web.access.of_one {
            max: Some(1_000_000.0), unit: "records a minute",
            help: "How many records of access of one sort one project may write, or one user without a project, or one \
                   address without a user. Further ones are counted, and the log has the count. 0: no limit.",
        }
        access_rate_total: u32 => web.access.of_all {
            max: Some(1_000_000.0), unit: "records a minute",
            help: "How many records of access of one sort all together may write. 0: no limit.",
        }
        max_consoles: u32 => web.max_consoles by Whole {
            max: Some(10000.0),
            help: "Consoles that may be open at the same time through the gateway (GET /console).",
        }
        dashboard: bool => web.dashboard {
            help: "Serve the dashboard at /dashboard of every address of [chronova] listen. Its pages have no rights \
                   of their own: they ask the APIs with the viewer's token.",
        }
        checkpoint_events: u64 => keeper.events {
            min: Some(1.0),
            help: "Number of events after which a running server writes a checkpoint of the read models.",
        }
        checkpoint_interval: u32 => keeper.interval by Seconds {
            min: Some(1.0), unit: "seconds",
            help: "Time after which the server writes a checkpoint, if the log has new events since the last \
                   checkpoint.",
        }
        checkpoint_history: u32 => checkpoints.history by Whole {
            max: Some(10000.0),
            help: "Older checkpoints to keep besides the newest two, spread evenly over the log. A query about the \
                   past starts from the nearest one.",
        }
        checkpoint_spacing: u64 => checkpoints.spacing {
            min: Some(1.0),
            help: "Least number of events between two of the older checkpoints.",
        }
        checkpoint_disk: u64 => checkpoints.disk by Mebibytes {
            min: Some(1.0), unit: "MiB",
            help: "Space for all checkpoints together. Older ones are removed first; the newest two are always kept.",
        }
        as_of_held: u32 => history.held by Whole {
            min: Some(1.0), max: Some(1000.0),
            help: "Past states that stay in memory for further queries about the same moment (`?as_of=`).",
        }
        as_of_memory: u64 => history.memory by Mebibytes {
            min: Some(16.0), unit: "MiB",
            help: "Approximate memory that all past states may take, both those that are held and those that are \
                   being built. A query that needs more is answered with 503.",
        }
        as_of_at_once: u32 => history.at_once by Whole {
            min: Some(1.0), max: Some(256.0),
            help: "Past states that are built at the same time. Further queries wait; if too many wait, the others \
                   are answered with 429.",
        }
        trusted_proxies: Vec<String> => web.trusted_proxies by AddressRanges {
            help: "Addresses or networks of trusted proxies (10.0.0.5, 10.1.0.0/16). With [oslo_middleware] \
                   enable_proxy_headers_parsing, Chronova believes their X-Forwarded-Proto, -Host, -Prefix and -For. With \
                   [api] use_forwarded_for, the metadata service believes their X-Forwarded-For. Empty: none.",
        }
        reserved_networks: Vec<String> => web.reserved_networks by AddressRanges {
            help: "Networks (192.0.2.0/24, 2001:db8::/32) that the hosts and the control plane are in. Only an \
                   administrator may create a subnet that overlaps one of them: the subnet's gateway address becomes \
                   an address of a host's bridge. Loopback, link-local and multicast addresses are refused to \
                   everybody.",
        }
        rate_limit: f64 => web.rate_limit {
            min: Some(0.0),
            help: "Average number of requests a second that one project may send, or one user whose token is for no \
                   project. Further requests are answered with 429. 0 is no limit. Administrators and services are \
                   never limited.",
        }
        rate_limit_burst: u32 => web.rate_limit_burst {
            min: Some(1.0),
            help: "Requests that one project or user may send at once before rate_limit counts.",
        }
        failed_logins: u32 => identity.failed_logins {
            max: Some(100_000.0),
            help: "Number of wrong passwords a minute that Chronova accepts from one address (one /64 of IPv6), and \
                   for one user. It answers further log-ins with 429. 0 is no limit. Correct passwords do not count.",
        }
        max_servers_per_request: u32 => compute.max_servers_per_request {
            min: Some(1.0), max: Some(20000.0),
            help: "Servers that one request (max_count) may create. A request for more servers is answered with 400, \
                   even if the project's quota has room for them.",
        }
        max_body_bytes: u64 => web.max_request_body_size by Whole {
            min: Some(1024.0), unit: "bytes",
            help: "Largest request body, except image uploads. The default is that of oslo.middleware's \
                   max_request_body_size.",
        }
    }
}
