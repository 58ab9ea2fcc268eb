//! Options for tests: most waits and intervals are milliseconds.

use std::time::Duration;

use chronova_actors::hosts::options::HostOptions;
use chronova_actors::image_signatures::SignatureOptions;
use chronova_actors::process::options::ProcessOptions;
use chronova_actors::reconcile::options::ReconcileOptions;
use chronova_actors::runtime::RuntimeOptions;
use chronova_actors::server_options::ServerOptions;

/// Options for most worlds of tests. Shelved servers stay on their hosts, so that tests see them there.
pub fn quick() -> RuntimeOptions {
    RuntimeOptions {
        servers: ServerOptions { shelved_offload: None, ..ServerOptions::default() },
        hosts: HostOptions {
            heartbeat: Duration::from_millis(200),
            down_time: Duration::from_secs(1),
            resync: Duration::from_millis(200),
            power_sync: Some(Duration::from_millis(200)),
            deleted_poll: Some(Duration::from_millis(200)),
            // Hosts report only when they connect, because tests count the calls to hosts.
            resources_poll: None,
            ..HostOptions::default()
        },
        processes: ProcessOptions {
            volume_pause: Duration::from_millis(2),
            volume_looks: 2_000,
            // A slow machine does not change the number of appends.
            records_wait: Duration::from_mins(1),
            retry_base: Duration::from_millis(1),
            retry_cap: Duration::from_millis(20),
            restart_pause: Duration::from_millis(50),
            ..ProcessOptions::default()
        },
        reconcile: ReconcileOptions {
            period: Duration::from_millis(50),
            filter_pause: Duration::from_millis(20),
            ..ReconcileOptions::default()
        },
        // Nova's samples have certificates, and most worlds have no key manager.
        signatures: SignatureOptions { unchecked: true, ..SignatureOptions::default() },
        ..RuntimeOptions::default()
    }
}
