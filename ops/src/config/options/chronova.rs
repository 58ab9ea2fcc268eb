//! `[chronova]`: what Nova has no word for, because there it is spread over many services.

use std::path::PathBuf;

use super::super::option::{
    Default::{HostAddress, Text},
    Words,
};

section! {
    /// The server itself: where it keeps its log, where it listens, which hosts it drives.
    Chronova = "chronova" from Chronova {
        data_dir: PathBuf {
            default: Text("/var/lib/chronova"),
            help: "Where the event log, its snapshots, uploaded images and the generated credentials live. \
                   `--data-dir` on the command line wins.",
        }
        listen: Words {
            default: Text("127.0.0.1:8774"),
            help: "HOST:PORT that serve every API under its prefix (/compute/v2.1, /placement, /identity/v3, /image, \
                   /network, /volume/v3, /metadata, /chronova/v1, /healthz, /metrics). `--listen` on the command line wins.",
        }
        compute_listen: Words {
            help: "Further HOST:PORT that serve the Compute API at their root, as Nova customarily does on 8774.",
        }
        placement_listen: Words {
            help: "Further HOST:PORT that serve the Placement API at their root (customarily 8778).",
        }
        identity_listen: Words {
            help: "Further HOST:PORT that serve the embedded Identity API at their root (customarily 5000).",
        }
        image_listen: Words {
            help: "Further HOST:PORT that serve the embedded Image API at their root (customarily 9292).",
        }
        network_listen: Words {
            help: "Further HOST:PORT that serve the embedded Network API at their root (customarily 9696).",
        }
        volume_listen: Words {
            help: "Further HOST:PORT that serve the embedded Volume API at their root (customarily 8776).",
        }
        metadata_listen: Words {
            help: "Further HOST:PORT that serve the metadata API to guests at their root (customarily 8775).",
        }
        public_url: Option<String> {
            help: "URL under which clients reach the first listener, where a proxy or a name stands before it. The \
                   identity catalogue and all links point there. Unset: `http://` and the first listener.",
        }
        public_host: String {
            default: HostAddress,
            help: "Host name or address to name in the catalogue where a listener is bound to every address (0.0.0.0, ::).",
        }
        region_name: String {
            default: Text("RegionOne"),
            help: "Region of the embedded services in the identity catalogue.",
        }
        hypervisors: Words {
            help: "The compute hosts: libvirt URIs (qemu:///system, qemu+tls://host/system, qemu+ssh://root@host/system) \
                   or simulated fleets (sim://10 is ten hosts). Nothing of ours is installed on them.",
        }
        admin_password_file: Option<PathBuf> {
            help: "File holding the first administrator's password. Unset: one is generated at first start and written \
                   to clouds.yaml (mode 0600) in the data directory.",
        }
        driver_threads: u32 {
            default: Text("8"), min: Some(1.0), max: Some(256.0),
            help: "Calls that may be under way to one compute host at the same time. libvirt calls block a thread; the \
                   bound keeps one hanging libvirtd from taking those of the others.",
        }
        driver_timeout: u32 {
            default: Text("120"), min: Some(1.0), unit: "seconds",
            help: "Time after which a call to a compute host counts as unanswered. Transfers of images have no bound of \
                   their own but must make progress within it.",
        }
        log_batch: u32 {
            default: Text("1024"), min: Some(1.0), max: Some(65536.0),
            help: "Appends that may share one fsync of the event log.",
        }
        max_feeds: u32 {
            default: Text("64"), max: Some(10000.0),
            help: "Live feeds of the event log (GET /chronova/v1/events) that may be open at the same time.",
        }
        max_body_bytes: u64 {
            default: Text("114688"), min: Some(1024.0), unit: "bytes",
            help: "Largest request body, image uploads aside. The default is oslo.middleware's max_request_body_size.",
        }
    }
}
