//! `[cluster]`: several members that serve one log.

use std::path::PathBuf;

use super::super::option::Default::Text;

section! {
    /// Several members on one log in PostgreSQL, which all serve.
    Cluster = "cluster" from Chronova {
        secret_file: Option<PathBuf> => here {
            help: "File with at least 32 random bytes that all members have in common, and nobody else knows. With it a member \
                   that does not lead serves reads, and forwards everything else to the leader. Unset: it stands by without \
                   listening. See docs/high-availability.md.",
        }
        listen: Option<String> => here {
            help: "HOST:PORT that this member answers other members on. Addresses other than loopback need certificate, \
                   key and ca.",
        }
        address: Option<String> => here {
            help: "HOST:PORT under which other members reach this one. Unset: that of listen.",
        }
        name: Option<String> => here {
            help: "Name of this member, for `chronova cluster`. Each member has another one. Unset: that of address.",
        }
        certificate: Option<PathBuf> => here {
            help: "File with the certificate that this member shows to the others (PEM), followed by those that sign it.",
        }
        key: Option<PathBuf> => here {
            help: "File with the private key of certificate (PEM).",
        }
        ca: Option<PathBuf> => here {
            help: "File with the certificates (PEM) one of which must have signed the certificate of each member.",
        }
        insecure: bool => here {
            default: Text("false"),
            help: "Speak to other members without TLS on addresses other than loopback. Whoever sees that traffic sees the \
                   tokens of users, and can act as a member.",
        }
        stale_reads: bool => here {
            default: Text("false"),
            help: "Answer reads while no member leads. The header X-Chronova-Age says how many seconds old the answer may be. \
                   Off: such reads are answered with 503.",
        }
    }
}
