//! The services beside Compute, with the option names of their clients in Nova and of the services that are embedded.

use std::path::PathBuf;

use super::super::account::{AccountFields, HasAccount};
use super::super::option::Default::Text;
use super::keystone::account_section;

section! {
    /// Keystone's `[token]`.
    Token = "token" from Keystone {
        expiration: u64 => identity.expiration by Whole {
            min: Some(1.0), unit: "seconds",
            help: "Life of a token.",
        }
        allow_expired_window: u64 => identity.allow_expired_window by Whole {
            min: Some(0.0), unit: "seconds",
            help: "How long after its expiry a token is still valid, if a service sends it with its own \
                   X-Service-Token. The service's token needs a role of [keystone_authtoken] service_token_roles.",
        }
    }
}

section! {
    /// Keystone's `[security_compliance]`.
    SecurityCompliance = "security_compliance" from Keystone {
        lockout_failure_attempts: Option<u32> => here {
            min: Some(1.0),
            help: "Wrong passwords in a row after which a user is locked out. Unset: never.",
        }
        lockout_duration: u64 => here {
            default: Text("1800"), min: Some(1.0), unit: "seconds",
            help: "How long a user stays locked out, unless the password is changed or the control plane is restarted.",
        }
    }
}

section! {
    /// Image service: Nova's section for its client, with the bounds that the embedded service applies.
    Glance = "glance" from Nova {
        endpoint_override: Option<String> => here {
            help: "Address of Glance. Unset: those of api_servers, or else the one in Keystone's catalogue.",
        }
        api_servers: Vec<String> => here {
            help: "Addresses of Glance. If one does not answer, the next one is called.",
        }
        service_type: String => here {
            default: Text("image"),
            help: "Type of Glance in the catalogue.",
        }
        valid_interfaces: Vec<String> => here {
            default: Text("internal,public"),
            help: "Glance's endpoints in the catalogue (public, internal, admin), in order of preference.",
        }
        region_name: Option<String> => here {
            help: "Region of that endpoint. Unset: any.",
        }
        num_retries: u32 => here {
            default: Text("3"), max: Some(10.0),
            help: "How often a call is repeated when Glance cannot be reached.",
        }
        timeout: Option<u32> => here {
            min: Some(1.0), max: Some(3600.0), unit: "seconds",
            help: "How long one answer of Glance may take, and how long a stream of bytes may pause. Unset: 60, where Nova \
                   waits without end.",
        }
        cafile: Option<PathBuf> => here {
            help: "File with certificates (PEM) of authorities that sign Glance's. Unset: the system's.",
        }
        certfile: Option<PathBuf> => here {
            help: "File with the certificate (PEM) that Chronova shows to Glance.",
        }
        keyfile: Option<PathBuf> => here {
            help: "File with the private key of certfile (PEM).",
        }
        insecure: bool => here {
            default: Text("false"),
            help: "Trust any certificate of Glance's.",
        }
        enable_rbd_download: bool => here {
            default: Text("false"),
            help: "Read images that Glance keeps in Ceph from there, with Ceph's program rbd beside Chronova. Glance must \
                   show their places (show_image_direct_url). If Ceph does not send an image, Glance does.",
        }
        rbd_user: Option<String> => here {
            help: "Ceph user that reads images. Unset: admin.",
        }
        rbd_pool: Option<String> => here {
            help: "Ceph pool of Glance's images. Images of other pools come from Glance. Unset: any pool.",
        }
        rbd_ceph_conf: Option<PathBuf> => here {
            help: "Path of Ceph's configuration file on Chronova's machine. Unset: /etc/ceph/ceph.conf.",
        }
        rbd_connect_timeout: u32 => here {
            default: Text("5"), min: Some(1.0), unit: "seconds",
            help: "How long it may take to reach the cluster.",
        }
        image_size_cap: u64 => here {
            default: Text("1099511627776"), min: Some(1.0), unit: "bytes", origin: super::super::OptionOrigin::Glance,
            help: "Largest image that may be uploaded. In Glance this option is in [DEFAULT].",
        }
        image_count_total: i64 => here {
            default: Text("1000"), min: Some(-1.0), origin: super::super::OptionOrigin::Glance,
            help: "Images that one project may have; -1 is no bound. In Glance this is a limit that Keystone keeps.",
        }
        image_property_quota: i64 => here {
            default: Text("128"), min: Some(-1.0), origin: super::super::OptionOrigin::Glance,
            help: "Properties of one image; -1: only the limit of 64 KiB for all properties together. In Glance this \
                   option is in [DEFAULT].",
        }
        verify_glance_signatures: bool => runtime.signatures.verify {
            help: "Refuse images whose signature is missing or wrong. The certificate of the signature comes from \
                   [key_manager].",
        }
        enable_certificate_validation: bool => runtime.signatures.validate_certificates {
            help: "Require that one of the request's trusted certificates vouches for the certificate of the image's \
                   signature. Without verify_glance_signatures, this applies only to requests that name certificates.",
        }
        default_trusted_certificate_ids: Vec<String> => runtime.signatures.default_trusted {
            help: "Certificates in the key manager that are trusted where a request names none. They count only if \
                   verify_glance_signatures and enable_certificate_validation are on.",
        }
        unchecked_certificates: bool => compute.unchecked_certificates => runtime.signatures.unchecked {
            origin: super::super::OptionOrigin::Chronova,
            help: "Without a key manager, accept and show servers' trusted_image_certificates, although Chronova verifies no \
                   signature of an image. Off: a request with such certificates is answered with 409.",
        }
    }
}

account_section! {
    /// Volume service: real Cinder, and the rules for servers' volumes. The account is optional. Without auth_url, the
    /// account of [keystone_authtoken] makes the calls that no user has requested.
    Cinder = "cinder" from Nova {
        catalog_info: String => here {
            default: Text("volumev3::publicURL"),
            help: "Cinder in Keystone's catalogue: TYPE:NAME:INTERFACE. Chronova ignores the name.",
        }
        endpoint_template: Option<String> => here {
            help: "Address of Cinder in place of the catalogue's, as http://controller:8776/v3/%(project_id)s.",
        }
        os_region_name: Option<String> => here {
            help: "Region of the endpoint in the catalogue. Unset: any.",
        }
        http_retries: u32 => here {
            default: Text("3"), max: Some(10.0),
            help: "How often a call is repeated when Cinder cannot be reached.",
        }
        timeout: Option<u32> => here {
            min: Some(1.0), max: Some(600.0), unit: "seconds",
            help: "How long one answer of Cinder may take. Unset: 60, where Nova waits without end.",
        }
        cross_az_attach: bool => compute.cross_az_attach => runtime.processes.cross_az_attach {
            help: "Let a server have volumes of another availability zone. Off: a server whose request names no zone \
                   is built in the zone of its volumes, and new volumes are created in the server's zone.",
        }
    }
}

impl Cinder {
    /// The type and the interface in `catalog_info`.
    pub fn catalogue_entry(&self) -> Option<(&str, &str)> {
        let mut parts = self.catalog_info.split(':');
        let (kind, _, interface) = (parts.next()?, parts.next()?, parts.next()?);
        let interface = interface.trim_end_matches("URL");
        let right = !kind.is_empty() && ["public", "internal", "admin"].contains(&interface) && parts.next().is_none();
        right.then_some((kind, interface))
    }
}

section! {
    /// Volume service: where volumes are kept, and how many a project may have.
    Volume = "volume" from Chronova {
        pool: String => runtime.volume.pool => drivers.libvirt.volume_pool_name {
            help: "libvirt storage pool that holds the volumes, on each host. On a host without a pool of that name, \
                   Chronova creates a pool of files in pool_path.",
        }
        pool_path: String => drivers.libvirt.volume_pool_path {
            help: "Directory of the pool, on each host.",
        }
        shared: bool => runtime.volume.shared {
            help: "Whether the pool is the same storage on every host (a shared file system, Ceph). Off: only the \
                   host on which a volume was created can reach it.",
        }
        storage_availability_zone: String => runtime.volume.availability_zone {
            origin: super::super::OptionOrigin::Cinder,
            help: "Availability zone of all volumes. In Cinder this option is in [DEFAULT].",
        }
        quota_volumes: i64 => runtime.volume.limits.volumes {
            min: Some(-1.0), origin: super::super::OptionOrigin::Cinder,
            help: "Volumes of a project; -1 is no bound. In Cinder this option is in [DEFAULT].",
        }
        quota_snapshots: i64 => runtime.volume.limits.snapshots {
            min: Some(-1.0), origin: super::super::OptionOrigin::Cinder,
            help: "Snapshots of a project; -1 is no bound. In Cinder this option is in [DEFAULT].",
        }
        quota_gigabytes: i64 => runtime.volume.limits.gigabytes {
            min: Some(-1.0), unit: "GiB", origin: super::super::OptionOrigin::Cinder,
            help: "Volumes and snapshots of a project together; -1 is no bound. In Cinder this option is in \
                   [DEFAULT].",
        }
        per_volume_size_limit: i64 => runtime.volume.limits.per_volume_gigabytes {
            min: Some(-1.0), unit: "GiB", origin: super::super::OptionOrigin::Cinder,
            help: "Largest volume; -1 is no bound. In Cinder this option is in [DEFAULT].",
        }
    }
}
