//! `[eventstoredb]`: the event log for clients of EventStoreDB and KurrentDB.

use std::path::PathBuf;

use super::super::option::{Default::Text, Multi, Words};

section! {
    /// Serving the log in EventStoreDB's protocol.
    EventStoreDb = "eventstoredb" from Chronova {
        listen: Words => here {
            help: "HOST:PORT that serve the event log over EventStoreDB's gRPC protocol (customarily 2113). Unset: it is \
                   not served. Addresses other than loopback need tls_certificate and tls_key. See docs/eventstoredb.md.",
        }
        users: Multi => here {
            secret: true,
            help: "The users that may connect, one NAME:RIGHT:PASSWORD a line. RIGHT is `read` (auditors), `write` (other programs, \
                   which may append to streams of their own) or `peer` (processes of Chronova that share the log).",
        }
        tls_certificate: Option<PathBuf> => here {
            help: "File with the certificate of the listeners (PEM), followed by the certificates of the authorities \
                   that signed it. Unset: no TLS.",
        }
        tls_key: Option<PathBuf> => here {
            help: "File with the private key of tls_certificate (PEM).",
        }
        max_connections: usize => here {
            default: Text("64"), min: Some(1.0), max: Some(10000.0),
            help: "Clients that may be connected at the same time.",
        }
        max_subscriptions: usize => here {
            default: Text("128"), min: Some(1.0), max: Some(100_000.0),
            help: "Subscriptions that may be open at the same time, of all clients together.",
        }
        max_append_bytes: usize => here {
            default: Text("4194304"), min: Some(65536.0), max: Some(67_108_864.0), unit: "bytes",
            help: "Largest append: the data and metadata of all its events together. One event may have at most 1 \
                   MiB.",
        }
    }
}
