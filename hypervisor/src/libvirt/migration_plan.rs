//! Translates a migration plan into libvirt's flags and parameters, and makes the URIs of a plan. This file makes no
//! calls to libvirt; `live_migration` makes them.
//!
//! A plan has two addresses. `peer` (`qemu+tls://HOST/system`) is the address at which the source's libvirtd reaches
//! the destination's libvirtd. `stream` (`tcp://HOST`) is the address to which QEMU sends the guest's memory and the
//! copied disks. The stream is always TCP. With a flag of the migration, QEMU encrypts the stream. The destination's
//! certificate must then match the host in the stream's address.

use std::net::IpAddr;

use roxmltree::Document;
use virt::domain::MigrateParameters;
use virt_sys as sys;

use crate::capability::live_migration::{MigrationAddressing, MigrationPlan, MigrationUris};

/// Version 4.4.0 as libvirt's number.
const LIBVIRT_WITH_TLS: u32 = 4_004_000;
const QEMU_WITH_TLS: u32 = 2_011_000;

/// The URIs of a migration to this host, as in Nova's `_live_migration_uri` and `_migrate_uri`. If the host has an
/// address for migrations, both URIs use it.
pub(super) fn uris(uri: &str, addressing: &MigrationAddressing<'_>) -> MigrationUris {
    let address = match addressing.inbound {
        Some(inbound) => inbound.to_owned(),
        None => host_of(uri).unwrap_or_else(|| addressing.hostname.to_owned()),
    };
    let address = escaped(&address);
    let peer = match addressing.uri {
        Some(pattern) => pattern.replace("%s", &address),
        None => format!("qemu+{}://{address}/system", addressing.scheme.unwrap_or("tcp")),
    };
    // A tunnel has no stream, so libvirt accepts no address for it. Without an address for migrations, the destination
    // says where it listens.
    let own = addressing.inbound.is_some() && !addressing.tunnelled;
    MigrationUris { peer, stream: own.then(|| format!("tcp://{address}")) }
}

/// Puts an IPv6 address in brackets, as a URI needs it.
fn escaped(address: &str) -> String {
    match address.contains(':') && !address.starts_with('[') {
        true => format!("[{address}]"),
        false => address.to_owned(),
    }
}

/// The host in a hypervisor's URI; `None` for the local machine.
pub(super) fn host_of(uri: &str) -> Option<String> {
    let (_, rest) = uri.split_once("://")?;
    let authority = &rest[..rest.find(['/', '?']).unwrap_or(rest.len())];
    let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    // User and port of the URI are only for the control plane.
    let host = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => authority.split(':').next().unwrap_or_default(),
    };
    (!host.is_empty()).then(|| host.to_owned())
}

/// The address in libvirt's description of an interface. IPv4 precedes IPv6. Link-local and loopback addresses are
/// skipped.
pub(super) fn address_in(xml: &str) -> Result<Option<String>, roxmltree::Error> {
    let document = Document::parse(xml)?;
    let written =
        document.descendants().filter(|node| node.has_tag_name("ip")).filter_map(|ip| ip.attribute("address"));
    let mut known: Vec<IpAddr> = written.filter_map(|address| address.parse().ok()).filter(is_reachable).collect();
    known.sort_by_key(IpAddr::is_ipv6);
    Ok(known.first().map(ToString::to_string))
}

fn is_reachable(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => !address.is_link_local() && !address.is_loopback(),
        IpAddr::V6(address) => !address.is_unicast_link_local() && !address.is_loopback(),
    }
}

/// The flags of the migration, as in Nova's `_parse_migration_flags`. With TLS, the streams of copied disks are
/// encrypted like the stream of the memory. If post-copy is permitted, auto-converge is not used.
pub(super) fn flags(plan: &MigrationPlan) -> u32 {
    let always = sys::VIR_MIGRATE_LIVE
        | sys::VIR_MIGRATE_PEER2PEER
        | sys::VIR_MIGRATE_PERSIST_DEST
        | sys::VIR_MIGRATE_UNDEFINE_SOURCE;
    let wanted = [
        (!plan.copied.is_empty(), sys::VIR_MIGRATE_NON_SHARED_INC),
        (plan.tls, sys::VIR_MIGRATE_TLS),
        (plan.tunnelled, sys::VIR_MIGRATE_TUNNELLED),
        (plan.auto_converge && !plan.post_copy, sys::VIR_MIGRATE_AUTO_CONVERGE),
        (plan.post_copy, sys::VIR_MIGRATE_POSTCOPY),
    ];
    wanted.into_iter().filter(|(wanted, _)| *wanted).fold(always, |flags, (_, flag)| flags | flag)
}

/// Changes the flags so that libvirt copies disks as a whole. Without this change, libvirt copies only the part of a
/// disk above its base, because the destination has the same base.
pub(super) fn with_whole_disks(flags: u32) -> u32 {
    match flags & sys::VIR_MIGRATE_NON_SHARED_INC {
        0 => flags,
        _ => (flags & !sys::VIR_MIGRATE_NON_SHARED_INC) | sys::VIR_MIGRATE_NON_SHARED_DISK,
    }
}

/// `definitions` are the guest's running and persistent definition at the destination.
pub(super) fn parameters(plan: &MigrationPlan, definitions: [Option<String>; 2]) -> MigrateParameters {
    let [dest_xml, persist_xml] = definitions;
    MigrateParameters {
        dest_xml,
        persist_xml,
        uri: plan.stream.clone(),
        bandwidth: (plan.bandwidth > 0).then_some(plan.bandwidth),
        migrate_disks: plan.copied.clone(),
        ..MigrateParameters::default()
    }
}

/// The plan without post-copy, if `refusal` says that post-copy is not possible. Examples: the destination's kernel
/// does not permit userfaultfd, the guest is paused, or the migration is tunnelled. QEMU writes, for example,
/// `Postcopy is not supported`. libvirt writes, for example, `post-copy is not supported with ...`.
pub(super) fn without_post_copy(plan: &MigrationPlan, refusal: &str) -> Option<MigrationPlan> {
    let refusal = refusal.to_lowercase();
    let concerns_it = ["postcopy", "post-copy"].iter().any(|name| refusal.contains(name));
    let refuses = ["not supported", "not compatible", "not yet compatible"].iter().any(|words| refusal.contains(words));
    (plan.post_copy && concerns_it && refuses).then(|| MigrationPlan { post_copy: false, ..plan.clone() })
}

/// Whether a migration cannot switch to post-copy because it began without post-copy. libvirt's message names the
/// missing flag.
pub(super) fn set_out_without_post_copy(refusal: &str) -> bool {
    refusal.contains("VIR_MIGRATE_POSTCOPY")
}

/// The reason why a host with these versions cannot encrypt migrations; `None` if it can.
pub(super) fn tls_obstacle(libvirt: u32, qemu: u32) -> Option<String> {
    (libvirt < LIBVIRT_WITH_TLS || qemu < QEMU_WITH_TLS).then(|| {
        let [libvirt, qemu] = [libvirt, qemu].map(text);
        let (wants_libvirt, wants_qemu) = (text(LIBVIRT_WITH_TLS), text(QEMU_WITH_TLS));
        format!(
            "it has libvirt {libvirt} and QEMU {qemu}, and live_migration_with_native_tls needs {wants_libvirt} and \
             {wants_qemu} at least"
        )
    })
}

/// Formats libvirt's number as `4.4.0`.
fn text(version: u32) -> String {
    format!("{}.{}.{}", version / 1_000_000, version / 1000 % 1000, version % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use chronova_events::ids::ProcessId;

    const BARE: u32 = sys::VIR_MIGRATE_LIVE
        | sys::VIR_MIGRATE_PEER2PEER
        | sys::VIR_MIGRATE_PERSIST_DEST
        | sys::VIR_MIGRATE_UNDEFINE_SOURCE;

    fn plan() -> MigrationPlan {
        MigrationPlan {
            migration: ProcessId(uuid::Uuid::nil()),
            peer: "qemu+tcp://h2/system".to_owned(),
            stream: None,
            copied: vec![],
            shared: false,
            tls: false,
            tunnelled: false,
            auto_converge: false,
            post_copy: false,
            bandwidth: 0,
            pinning: crate::pinning::Pinning::default(),
            nics: vec![],
        }
    }

    #[test]
    fn permitted_methods_become_flags() {
        let (converge, post_copy) = (sys::VIR_MIGRATE_AUTO_CONVERGE, sys::VIR_MIGRATE_POSTCOPY);
        for (plan, more) in [
            (plan(), 0),
            (MigrationPlan { auto_converge: true, ..plan() }, converge),
            (MigrationPlan { post_copy: true, ..plan() }, post_copy),
            (MigrationPlan { auto_converge: true, post_copy: true, ..plan() }, post_copy),
            (MigrationPlan { tunnelled: true, ..plan() }, sys::VIR_MIGRATE_TUNNELLED),
            (MigrationPlan { tls: true, ..plan() }, sys::VIR_MIGRATE_TLS),
            (MigrationPlan { copied: vec!["vda".to_owned()], ..plan() }, sys::VIR_MIGRATE_NON_SHARED_INC),
        ] {
            assert_eq!(flags(&plan), BARE | more, "{plan:?}");
        }
        let copied = MigrationPlan { copied: vec!["vda".to_owned()], ..plan() };
        assert_eq!(with_whole_disks(flags(&copied)), BARE | sys::VIR_MIGRATE_NON_SHARED_DISK);
        assert_eq!(with_whole_disks(BARE), BARE);
    }

    /// With this one flag, QEMU encrypts the memory, the devices and the copied disks.
    #[test]
    fn native_tls_is_requested_with_and_without_copied_disks() {
        let secret = MigrationPlan { tls: true, ..plan() };
        assert_eq!(flags(&secret), flags(&plan()) | sys::VIR_MIGRATE_TLS);
        let copied = MigrationPlan { copied: vec!["vda".to_owned()], ..secret.clone() };
        assert_eq!(flags(&copied), flags(&secret) | sys::VIR_MIGRATE_NON_SHARED_INC);
        let parameters = |plan: &MigrationPlan| parameters(plan, [None, None]);
        let tls = parameters(&MigrationPlan { stream: Some("tcp://10.0.0.2".to_owned()), bandwidth: 7, ..copied });
        assert_eq!((tls.uri.as_deref(), tls.bandwidth), (Some("tcp://10.0.0.2"), Some(7)));
        assert_eq!(tls.migrate_disks, ["vda"]);
        assert_eq!(
            (parameters(&plan()).uri, parameters(&plan()).bandwidth),
            (None, None),
            "a plan without address and bandwidth must set neither"
        );
    }

    /// The first list has refusals by QEMU 7.2, QEMU 10.0 and libvirt. The second list has other failures. After one of
    /// them, the driver does not retry without post-copy.
    #[test]
    fn a_guest_migrates_without_post_copy_if_the_hosts_do_not_support_it() {
        let both = MigrationPlan { auto_converge: true, post_copy: true, ..plan() };
        for refusal in [
            "internal error: unable to execute QEMU command 'migrate-set-capabilities': Postcopy is not supported",
            "internal error: unable to execute QEMU command 'migrate-set-capabilities': Postcopy is not supported: \
             Userfaultfd not available: Operation not permitted",
            "argument unsupported: post-copy migration is not supported with non-live or paused migration",
            "argument unsupported: post-copy is not supported with tunnelled migration",
            "internal error: unable to execute QEMU command 'migrate-set-capabilities': Postcopy is not yet compatible \
             with multifd",
        ] {
            let slower = without_post_copy(&both, refusal).unwrap();
            assert_eq!(flags(&slower), BARE | sys::VIR_MIGRATE_AUTO_CONVERGE, "{refusal}");
            let bare = without_post_copy(&MigrationPlan { auto_converge: false, ..both.clone() }, refusal).unwrap();
            assert_eq!(flags(&bare), BARE, "a flag was added that the plan does not permit");
            assert_eq!(without_post_copy(&slower, refusal), None, "a plan without post-copy must not be retried");
        }
        for failure in [
            "operation aborted: migration out job: canceled by client",
            "internal error: job 'migration out' failed in post-copy phase",
            "argument unsupported: Migration option 'tls' is not supported",
        ] {
            assert_eq!(without_post_copy(&both, failure), None, "{failure}");
        }
        assert!(set_out_without_post_copy(
            "switching to post-copy requires migration to be started with VIR_MIGRATE_POSTCOPY flag"
        ));
        assert!(!set_out_without_post_copy("post-copy can only be started while outgoing migration is in progress"));
    }

    #[test]
    fn connection_and_stream_follow_the_options() {
        let (scheme, pattern) = (Some("tls"), Some("qemu+ssh://%s:2222/system"));
        let uris_of = |uri: &str, scheme, pattern, inbound, tunnelled| {
            let way = uris(uri, &MigrationAddressing { scheme, uri: pattern, inbound, hostname: "h2", tunnelled });
            (way.peer, way.stream)
        };
        let (far, here) = ("qemu+tls://root@10.0.0.2:16514/system?pkipath=/p", "qemu:///system");
        for (found, peer, stream) in [
            (uris_of(here, None, None, None, false), "qemu+tcp://h2/system", None),
            (uris_of(far, None, None, None, false), "qemu+tcp://10.0.0.2/system", None),
            (uris_of(far, scheme, None, None, false), "qemu+tls://10.0.0.2/system", None),
            (uris_of(far, scheme, pattern, None, false), "qemu+ssh://10.0.0.2:2222/system", None),
            // With an address for migrations, the connection uses it, too. The stream is TCP, even if the connection
            // uses TLS or SSH.
            (uris_of(far, None, None, Some("h2.m"), false), "qemu+tcp://h2.m/system", Some("tcp://h2.m")),
            (uris_of(far, scheme, None, Some("h2.m"), false), "qemu+tls://h2.m/system", Some("tcp://h2.m")),
            (uris_of(far, scheme, pattern, Some("h2.m"), false), "qemu+ssh://h2.m:2222/system", Some("tcp://h2.m")),
            (
                uris_of(far, scheme, None, Some("fd00::2"), false),
                "qemu+tls://[fd00::2]/system",
                Some("tcp://[fd00::2]"),
            ),
            (
                uris_of(far, scheme, None, Some("[fd00::2]"), false),
                "qemu+tls://[fd00::2]/system",
                Some("tcp://[fd00::2]"),
            ),
            (uris_of(far, scheme, None, Some("h2.m"), true), "qemu+tls://h2.m/system", None),
        ] {
            assert_eq!((found.0.as_str(), found.1.as_deref()), (peer, stream));
        }
    }

    #[test]
    fn a_destination_is_reached_by_the_address_of_its_uri() {
        for (uri, host) in [
            ("qemu:///system", None),
            ("qemu+tls://node-2/system", Some("node-2")),
            ("qemu+tcp://10.0.0.2:16509/system", Some("10.0.0.2")),
            ("qemu+ssh://root@node-3:22/system?keyfile=/k", Some("node-3")),
            ("qemu+tls://[fd00::2]:16514/system", Some("fd00::2")),
            ("qemu+unix:///system?socket=/run/other", None),
        ] {
            assert_eq!(host_of(uri).as_deref(), host, "{uri}");
        }
    }

    /// libvirt reads addresses with netcf. With udev it reports interfaces without addresses.
    #[test]
    fn an_interface_has_the_address_that_libvirt_reports() {
        let interface = |protocols: &str| format!("<interface type='ethernet' name='moves0'>{protocols}</interface>");
        let four = "<protocol family='ipv4'><ip address='10.233.0.12' prefix='24'/></protocol>";
        let six =
            "<protocol family='ipv6'><ip address='fe80::1' prefix='64'/><ip address='fd00::2' prefix='64'/></protocol>";
        for (xml, address) in [
            (interface("<mac address='02:00:00:00:00:01'/>"), None),
            (interface(four), Some("10.233.0.12")),
            (interface(six), Some("fd00::2")),
            (interface(&format!("{six}{four}")), Some("10.233.0.12")),
            (interface("<protocol family='ipv6'><ip address='fe80::1' prefix='64'/></protocol>"), None),
            (interface("<protocol family='ipv4'><dhcp/></protocol>"), None),
        ] {
            assert_eq!(address_in(&xml).unwrap().as_deref(), address, "{xml}");
        }
        assert!(address_in("<interface").is_err());
    }

    #[test]
    fn hosts_that_are_too_old_cannot_encrypt() {
        assert_eq!(tls_obstacle(4_004_000, 2_011_000), None);
        assert_eq!(tls_obstacle(9_000_000, 7_002_022), None);
        for (libvirt, qemu) in [(4_003_999, 2_011_000), (4_004_000, 2_010_002), (3_000_000, 2_008_000)] {
            let reason = tls_obstacle(libvirt, qemu).unwrap();
            assert!(reason.ends_with("needs 4.4.0 and 2.11.0 at least"), "{reason}");
            assert!(
                reason.starts_with(&format!("it has libvirt {} and QEMU {}", text(libvirt), text(qemu))),
                "{reason}"
            );
        }
        assert_eq!((text(4_003_999), text(10_000_002)), ("4.3.999".to_owned(), "10.0.2".to_owned()));
    }
}
