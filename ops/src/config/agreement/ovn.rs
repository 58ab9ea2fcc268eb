//! Whether the options of the embedded networks agree with each other and with those of Neutron.

use std::borrow::Cow;

use chronova_actors::services::embedded::network::service::read_automatic_range;
use chronova_actors::services::external::ovsdb::read_remotes;

use super::{Clash, half_set};
use crate::config::{Config, Severity};

/// An invalid range of automatic networks is an error, and a range beside Neutron has no effect.
pub(super) fn automatic_range(config: &Config) -> Vec<Clash> {
    let Some(range) = &config.network.automatic_range else { return Vec::new() };
    let (severity, message) = match read_automatic_range(range) {
        Err(reason) => (Severity::Error, Cow::Owned(format!("[network] automatic_range: {reason}"))),
        Ok(_) if config.neutron.auth_url.is_some() => {
            let message = "[network] automatic_range has no effect: Neutron takes the addresses of such networks from its \
                           default subnet pools";
            (Severity::Warning, Cow::Borrowed(message))
        }
        Ok(_) => return Vec::new(),
    };
    vec![Clash { severity, at: ("network", "automatic_range"), message }]
}

pub(super) fn ovn(config: &Config) -> Vec<Clash> {
    let section = &config.ovn;
    if !config.network.is_ovn() {
        return Vec::new();
    }
    let mut clashes = Vec::new();
    if let Err(reason) = read_remotes(&section.ovn_nb_connection) {
        let message = Cow::Owned(format!("[ovn] ovn_nb_connection: {reason}"));
        clashes.push(Clash { severity: Severity::Error, at: ("ovn", "ovn_nb_connection"), message });
    }
    let certificate = ("ovn_nb_certificate", section.ovn_nb_certificate.is_some());
    clashes.extend(half_set("ovn", certificate, ("ovn_nb_private_key", section.ovn_nb_private_key.is_some())));
    if config.neutron.auth_url.is_some() {
        let message = "[network] backend = ovn has no effect: [neutron] auth_url names the network service";
        let at = ("network", "backend");
        clashes.push(Clash { severity: Severity::Warning, at, message: Cow::Borrowed(message) });
    }
    if config.chronova.hypervisors.0.iter().any(|uri| uri.starts_with("sim:")) {
        let message = "[network] backend = ovn cannot plug the ports of simulated hosts, so servers there fail: take \
                       these hosts out of [chronova] hypervisors, or set vif_plugging_is_fatal = false";
        let at = ("network", "backend");
        clashes.push(Clash { severity: Severity::Warning, at, message: Cow::Borrowed(message) });
    }
    clashes
}
