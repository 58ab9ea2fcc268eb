//! `[cluster]`: several members that serve one log.

use std::path::PathBuf;

use super::super::option::Default::Text;

section! {
    /// Several members on one log in PostgreSQL. All of them serve.
    Cluster = "cluster" from Chronova {
        listen: Option<String> => here {
            help: "HOST:PORT on which this member answers other members. With it, a member that does not lead serves reads, and \
                   forwards everything else to the leader. Unset: it stands by without listening. See \
                   docs/high-availability.md.",
        }
        address: Option<String> => here {
            help: "HOST:PORT at which other members reach this member. Its certificate must be for this host. Unset: \
                   the value of listen.",
        }
        name: Option<String> => here {
            help: "Name of this member, for `chronova cluster`. Each member needs a different name. Unset: the value \
                   of address.",
        }
        certificate: Option<PathBuf> => here {
            help: "File with the certificate that this member shows to the others, followed by its chain (PEM).",
        }
        key: Option<PathBuf> => here {
            help: "File with the private key of certificate (PEM).",
        }
        ca: Option<PathBuf> => here {
            help: "File with the authorities of the members' certificates (PEM). A holder of such a certificate can act as a \
                   member, so these authorities must sign no other certificates.",
        }
        stale_reads: u32 => here {
            default: Text("0"), max: Some(86400.0), unit: "seconds",
            help: "How old an answer to a read may be if no leader confirms that it is current. The header Age of such an \
                   answer has its age. 0: such reads are answered with 503.",
        }
    }
}
