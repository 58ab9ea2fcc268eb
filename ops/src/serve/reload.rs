//! At SIGHUP a running server rereads the log level, the policy and the certificates of its listeners, and adds new
//! hosts. Its hosts report their resources and traits again, and live migrations follow a changed
//! `live_migration_completion_timeout`.
//!
//! If the configuration files have errors, nothing is read. Otherwise each part is read by itself. If a part has a
//! mistake, the server logs the mistake and keeps the old part. Other options take effect at the next start. A host that
//! the files no longer name stays until `chronova host remove`, because it may have servers.

use std::cell::RefCell;

use chronova_events::error_chain::ErrorChain;
use chronova_web::policy::Enforcer;
use chronova_web::tls::ServedCertificate;

use crate::config::Config;
use crate::config::targets::Targets;
use crate::telemetry::Logging;

/// Reads the configuration files again. `None`: the files have errors, which the function has reported.
pub type ReadConfig = Box<dyn Fn() -> Option<Config>>;

pub(super) struct Reload {
    pub(super) logging: Logging,
    pub(super) certificates: Vec<ServedCertificate>,
    pub(super) read_config: ReadConfig,
    /// The URIs of `[chronova] hypervisors` at the last read, without those whose hosts could not be added.
    pub(super) hypervisors: RefCell<Vec<String>>,
}

/// The values that SIGHUP has read.
pub(super) struct RereadConfig {
    pub(super) targets: Targets,
    /// The URIs of the hosts that the configuration did not name before, or that could not be added then.
    pub(super) new_hosts: Vec<String>,
}

impl Reload {
    /// Reopens the log file, and reads everything again; `None` if the configuration files are not valid.
    pub(super) fn all(&self, policy: &Enforcer) -> Option<RereadConfig> {
        if let Err(error) = self.logging.reopen() {
            tracing::error!(error = %ErrorChain(&error), "cannot reopen the log file");
        }
        let Some(config) = (self.read_config)() else {
            tracing::error!("the configuration is not valid, and nothing was read from it: run chronova config check");
            return None;
        };
        let targets = config.targets();
        let mut read = Vec::new();
        match self.logging.set_level(&targets.log) {
            Ok(()) => read.push("log level"),
            Err(error) => tracing::error!(error = %ErrorChain(&error), "the log level stays as it was"),
        }
        match policy.reload(&targets.web.policy) {
            Ok(()) => read.push("policy"),
            Err(error) => tracing::error!(error = %ErrorChain(&error), "the policy stays as it was"),
        }
        let mut renewed = !self.certificates.is_empty();
        for certificate in &self.certificates {
            if let Err(error) = certificate.reload() {
                tracing::error!(error = %ErrorChain(&error), "the certificate stays as it was");
                renewed = false;
            }
        }
        read.extend(renewed.then_some("certificates"));
        if !read.is_empty() {
            tracing::info!("read again on SIGHUP: {}", read.join(", "));
        }
        let mut known = self.hypervisors.borrow_mut();
        let (named, new_hosts) = config.chronova.hypervisors.0.into_iter().partition(|uri| known.contains(uri));
        *known = named;
        Some(RereadConfig { targets, new_hosts })
    }

    /// Takes over the URIs whose hosts are there. The next SIGHUP tries the others again.
    pub(super) fn know(&self, uris: Vec<String>) {
        self.hypervisors.borrow_mut().extend(uris);
    }
}
