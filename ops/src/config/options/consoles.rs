//! Consoles: the kinds that guests have, the URLs that users get, and the clients that the gateway accepts.

use std::path::PathBuf;

use super::super::option::Default::Text;

section! {
    /// Nova's `[vnc]`.
    Vnc = "vnc" from Nova {
        enabled: bool => compute.consoles.vnc {
            deprecated: &[("DEFAULT", "vnc_enabled")],
            help: "Give guests a VNC console.",
        }
        server_listen: String => drivers.libvirt.screens.vnc by Present {
            deprecated: &[("DEFAULT", "vncserver_listen"), ("vnc", "vncserver_listen")],
            help: "Address on the compute hosts that guests' VNC servers listen on.",
        }
        server_proxyclient_address: String => drivers.libvirt.vnc_address by ProxyAddress {
            deprecated: &[("DEFAULT", "vncserver_proxyclient_address"), ("vnc", "vncserver_proxyclient_address")],
            help: "Address at which the console gateway reaches a compute host's VNC servers; `%s` is replaced by \
                   the host's name. In Nova, the default means the machine of the compute service. In Chronova, it \
                   means the host in the URI of the host's libvirtd.",
        }
        novncproxy_base_url: String => compute.consoles.novnc_url {
            deprecated: &[("DEFAULT", "novncproxy_base_url")],
            help: "URL of the console page that users are sent to. Nobody listens at Nova's default address, so this \
                   default means the gateway of this server.",
        }
        novncproxy_host: String => here {
            default: Text("0.0.0.0"),
            deprecated: &[("DEFAULT", "novncproxy_host")],
            help: "Address of Nova's console proxy. It has an effect only if novncproxy_port is set.",
        }
        novncproxy_port: Option<u16> => here {
            min: Some(0.0), max: Some(65535.0),
            deprecated: &[("DEFAULT", "novncproxy_port")],
            help: "Port of a further listener of the console gateway at its root, for URLs like those of Nova's \
                   proxy: http://HOST:6080/vnc_auto.html. Unset, or 0: no such listener. Nova's default is 6080. \
                   Chronova's is unset, because [chronova] listen serves the gateway.",
        }
        auth_schemes: Vec<String> => compute.consoles.vnc_security.schemes by VncSchemeWords {
            choices: &["none", "vencrypt"],
            help: "How the console gateway authenticates itself to hosts' VNC servers. The gateway uses the first scheme \
                   that the host offers. `vencrypt` encrypts the connection with TLS, and both sides check certificates.",
        }
        vencrypt_client_key: Option<PathBuf> => compute.consoles.vnc_security.client_key {
            help: "File with the key of vencrypt_client_cert (PEM).",
        }
        vencrypt_client_cert: Option<PathBuf> => compute.consoles.vnc_security.client_certificate {
            help: "File with the certificate that the console gateway shows to hosts' VNC servers (PEM). Needed if \
                   qemu.conf of the hosts has vnc_tls_x509_verify.",
        }
        vencrypt_ca_certs: Option<PathBuf> => compute.consoles.vnc_security.authorities {
            help: "File with the authorities that sign the certificates of hosts' VNC servers (PEM). The scheme \
                   vencrypt needs it. The name in a host's certificate does not matter, as in Nova.",
        }
    }
}

section! {
    /// Nova's `[spice]`.
    Spice = "spice" from Nova {
        enabled: bool => compute.consoles.spice {
            deprecated: &[("DEFAULT", "spice_enabled")],
            help: "Give guests a SPICE console. They also get a QXL video card, unless their image names another \
                   one. Existing guests get both at their next start or hard reboot, from a new definition.",
        }
        agent_enabled: bool => here {
            default: Text("true"),
            help: "Give guests a channel to the SPICE agent inside them.",
        }
        require_secure: bool => here {
            default: Text("false"),
            help: "Guests' SPICE servers accept only connections with TLS. libvirt's qemu.conf names the \
                   certificates.",
        }
        server_listen: String => here {
            default: Text("127.0.0.1"),
            help: "Address on the compute hosts that guests' SPICE servers listen on.",
        }
        server_proxyclient_address: String => drivers.libvirt.spice_address by ProxyAddress {
            help: "Address at which the console gateway reaches a compute host's SPICE servers; `%s` is replaced by \
                   the host's name. The default means the host in the URI of the host's libvirtd.",
        }
        html5proxy_base_url: String => compute.consoles.spice_html5_url {
            help: "URL of the page that users of a spice-html5 console are sent to. Nobody listens at Nova's default \
                   address, so this default means the gateway of this server.",
        }
        html5proxy_host: String => here {
            default: Text("0.0.0.0"),
            help: "Address of Nova's SPICE proxy. It has an effect only if html5proxy_port is set.",
        }
        html5proxy_port: Option<u16> => here {
            min: Some(0.0), max: Some(65535.0),
            help: "Port of a further listener of the console gateway at its root, for URLs like those of Nova's \
                   proxy: http://HOST:6082/spice_auto.html. Unset, or 0: no such listener. Nova's default is 6082.",
        }
        spice_direct_proxy_base_url: String => compute.consoles.spice_direct_url {
            help: "URL that users of a spice-direct console are sent to: a proxy for native clients, such as Kerbside.",
        }
    }
}

section! {
    /// Nova's `[serial_console]`.
    SerialConsole = "serial_console" from Nova {
        enabled: bool => compute.consoles.serial {
            help: "Let users reach their guests' serial consoles. The option does not change the guests: each guest \
                   has a serial line, which Chronova reads over the connection to the host.",
        }
        base_url: String => compute.consoles.serial_url {
            help: "URL of the WebSocket that users of a serial console are sent to. Nobody listens at Nova's default \
                   address, so this default means the gateway of this server.",
        }
        serialproxy_host: String => here {
            default: Text("0.0.0.0"),
            help: "Address of Nova's serial proxy. It has an effect only if serialproxy_port is set.",
        }
        serialproxy_port: Option<u16> => here {
            min: Some(0.0), max: Some(65535.0),
            help: "Port of a further listener of the console gateway at its root, for URLs like those of Nova's \
                   proxy: ws://HOST:6083/. Unset, or 0: no such listener. Nova's default is 6083.",
        }
    }
}

section! {
    /// Nova's `[console]`.
    Console = "console" from Nova {
        allowed_origins: Vec<String> => compute.consoles.allowed_origins {
            deprecated: &[("DEFAULT", "console_allowed_origins")],
            help: "Hosts whose pages may open consoles, as a browser's Origin header names them. Pages of the \
                   gateway's own host may always open consoles.",
        }
        ssl_minimum_version: String => here {
            default: Text("default"), choices: &["default", "tlsv1_1", "tlsv1_2", "tlsv1_3"],
            help: "Oldest version of TLS on the listeners of Nova's console proxies that have [DEFAULT] cert. TLS 1.2 is \
                   the oldest version in any case.",
        }
    }
}

section! {
    /// Nova's `[consoleauth]`.
    ConsoleAuth = "consoleauth" from Nova {
        token_ttl: u32 => compute.consoles.token_ttl {
            min: Some(0.0), unit: "seconds", deprecated: &[("DEFAULT", "console_token_ttl")],
            help: "Life of a console token.",
        }
    }
}
