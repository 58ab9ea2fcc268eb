//! Tests that addresses in the configuration become listeners.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::config::{MachineDefaults, load_on};

fn config(text: &str) -> Config {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let machine = MachineDefaults { host_name: "control-1".to_owned(), host_address: "192.0.2.7".to_owned() };
    load_on(&machine, &[file.path().to_owned()]).unwrap().config
}

#[test]
fn listeners_come_from_novas_options_too() {
    let all = |text: &str| -> Vec<(String, Offer)> {
        let found = listeners(&config(text)).unwrap();
        found.iter().map(|listener| (listener.address.to_string(), listener.offer)).collect()
    };
    let common = ("127.0.0.1:8774".to_owned(), Offer::All);
    assert_eq!(all(""), std::slice::from_ref(&common));
    assert_eq!(
        all("[DEFAULT]\nmetadata_listen = 192.0.2.1\nmetadata_listen_port = 0\n"),
        std::slice::from_ref(&common)
    );
    let nova = "[DEFAULT]\nmetadata_listen = ::1\nmetadata_listen_port = 8775\nosapi_compute_listen_port = 9774\n";
    let compute = ("0.0.0.0:9774".to_owned(), Offer::Only(Service::Compute));
    let metadata = |address: &str| (address.to_owned(), Offer::Only(Service::Metadata));
    assert_eq!(all(nova), [common.clone(), compute.clone(), metadata("[::1]:8775")]);
    let both = format!("{nova}[chronova]\nmetadata_listen = 192.0.2.1:1\n");
    assert_eq!(all(&both), [common, compute, metadata("192.0.2.1:1")], "ours win");
    let proxy = "[vnc]\nnovncproxy_host = ::1\nnovncproxy_port = 6080\n";
    assert_eq!(all(proxy), [("127.0.0.1:8774".to_owned(), Offer::All), ("[::1]:6080".to_owned(), Offer::Consoles)]);
    assert_eq!(all("[vnc]\nnovncproxy_port = 0\n").len(), 1);
    let proxies = "[vnc]\nnovncproxy_port = 6080\n[spice]\nhtml5proxy_host = 192.0.2.1\nhtml5proxy_port = 6082\n\
                   [serial_console]\nserialproxy_port = 6083\n";
    let ports: Vec<String> = all(proxies).into_iter().skip(1).map(|(address, _)| address).collect();
    assert_eq!(ports, ["0.0.0.0:6080", "192.0.2.1:6082", "0.0.0.0:6083"]);
    let shared = proxies.replace("6082", "6080").replace("192.0.2.1", "0.0.0.0");
    assert_eq!(all(&shared).len(), 3, "two kinds of consoles may share a listener");
}

#[test]
fn the_listeners_of_consoles_may_have_a_certificate_of_their_own() {
    let proxy = "[vnc]\nnovncproxy_port = 6080\n";
    let all = |text: &str| listeners(&config(&format!("{text}{proxy}")));
    let secure = |text: &str| -> Vec<bool> { all(text).unwrap().iter().map(|listener| listener.secure).collect() };
    assert_eq!(secure(""), [false, false]);
    assert_eq!(secure("[DEFAULT]\ncert = /c.pem\nkey = /c.key\n"), [false, true]);
    assert_eq!(secure("[DEFAULT]\nssl_only = true\ncert = /c.pem\n"), [false, true]);
    assert_eq!(
        secure("[DEFAULT]\nssl_only = true\n[wsgi]\nssl_cert_file = /a.pem\nssl_key_file = /a.key\n"),
        [true, true]
    );
    let refused = |text: &str| all(text).unwrap_err().to_string();
    assert!(refused("[DEFAULT]\nssl_only = true\n").contains("0.0.0.0:6080 of the consoles needs a certificate"));
    assert!(refused("[DEFAULT]\nkey = /c.key\n").contains("[DEFAULT] cert, which is not set"));
}

#[test]
fn a_name_gives_the_address_of_the_preferred_family() {
    let newer = |address: &SocketAddr| address.is_ipv6();
    assert_eq!(resolve_to("[::1]:6080", newer).unwrap().to_string(), "[::1]:6080");
    assert_eq!(resolve_to("127.0.0.1:6080", newer).unwrap().to_string(), "127.0.0.1:6080", "the only address");
    assert!(resolve_to("nonsense", newer).is_err());
    let proxy = "[DEFAULT]\nsource_is_ipv6 = true\n[vnc]\nnovncproxy_port = 6080\nnovncproxy_host = ::1\n";
    assert_eq!(listeners(&config(proxy)).unwrap()[1].address.to_string(), "[::1]:6080");
}

#[test]
fn apis_that_are_not_enabled_have_no_listener() {
    let nova = "[DEFAULT]\nmetadata_listen_port = 8775\nosapi_compute_listen_port = 9774\n";
    let offers = |apis: &str| -> Vec<Offer> {
        let all = listeners(&config(&format!("{nova}enabled_apis = {apis}\n"))).unwrap();
        all.into_iter().map(|listener| listener.offer).collect()
    };
    let [compute, metadata] = [Service::Compute, Service::Metadata].map(Offer::Only);
    assert_eq!(offers("osapi_compute, metadata"), [Offer::All, compute, metadata]);
    assert_eq!(offers("metadata"), [Offer::All, metadata]);
    assert_eq!(offers("osapi_compute"), [Offer::All, compute]);
}

#[test]
fn enabled_ssl_apis_are_the_listeners_with_tls() {
    let text = "[wsgi]\nssl_cert_file = /c.pem\nssl_key_file = /k.pem\n[DEFAULT]\nmetadata_listen_port = 8775\n\
                osapi_compute_listen_port = 9774\n";
    let secure = |apis: &str| -> Vec<bool> {
        let all = listeners(&config(&format!("{text}{apis}"))).unwrap();
        all.into_iter().map(|listener| listener.secure).collect()
    };
    // The listener of all APIs, the one of compute, and the one of the metadata service.
    assert_eq!(secure(""), [true, true, false], "the default");
    assert_eq!(secure("enabled_ssl_apis = metadata\n"), [false, false, true]);
    assert_eq!(secure("enabled_ssl_apis = osapi_compute,metadata\n"), [true, true, true]);
}
