//! A fake VNC server, with the certificates of openssl. Without openssl, the tests of TLS print the reason and skip.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;

use tokio::io::DuplexStream;
use tokio_rustls::{TlsAcceptor, server};

use super::*;
use crate::tls::TlsFiles;

/// Writes certificates into the folder. `hosts` has signed `host`. The name in that certificate belongs to no host of
/// these tests. `gateways` has signed `gateway`. Both have signed nothing else.
fn certificates(folder: &Path) -> Result<(), String> {
    let script = "
        authority() { # name
            openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=$1 -days 2 \
                -keyout $1.key -out $1.pem
        }
        sign() { # name, authority
            openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=$1 -keyout $1.key -out $1.csr
            echo basicConstraints=CA:FALSE >$1.ext
            openssl x509 -req -in $1.csr -CA $2.pem -CAkey $2.key -CAcreateserial -days 2 -extfile $1.ext -out $1.pem
        }
        authority hosts
        authority gateways
        sign host hosts
        sign gateway gateways
    ";
    let output = Command::new("bash").args(["-ec", script]).current_dir(folder).output();
    let output = output.map_err(|error| error.to_string())?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

/// The gateway's files in the folder.
fn security(folder: &Path, schemes: &[VncScheme], authority: &str) -> VncSecurity {
    VncSecurity {
        schemes: schemes.to_vec(),
        client_key: Some(folder.join("gateway.key")),
        client_certificate: Some(folder.join("gateway.pem")),
        authorities: Some(folder.join(authority)),
    }
}

/// A VNC server's side of a connection.
struct FakeHost(DuplexStream);

impl FakeHost {
    /// A connection, and the gateway's side of it.
    fn new() -> (Self, DuplexStream) {
        let (host, gateway) = tokio::io::duplex(1 << 16);
        (Self(host), gateway)
    }

    /// Names the version, offers types of security, and returns the chosen one.
    async fn offer(&mut self, types: &[u8]) -> u8 {
        self.0.write_all(b"RFB 003.008\n").await.unwrap();
        let mut version = [0; 12];
        self.0.read_exact(&mut version).await.unwrap();
        assert_eq!(&version, b"RFB 003.008\n");
        self.0.write_u8(u8::try_from(types.len()).unwrap()).await.unwrap();
        self.0.write_all(types).await.unwrap();
        self.0.read_u8().await.unwrap()
    }

    /// Does the handshake of VeNCrypt with these subtypes, up to TLS. Returns the chosen subtype.
    async fn vencrypt(&mut self, subtypes: &[u32]) -> u32 {
        self.0.write_all(&[0, 2]).await.unwrap();
        assert_eq!(self.0.read_u16().await.unwrap(), 2);
        self.0.write_u8(0).await.unwrap();
        self.0.write_u8(u8::try_from(subtypes.len()).unwrap()).await.unwrap();
        for subtype in subtypes {
            self.0.write_u32(*subtype).await.unwrap();
        }
        let chosen = self.0.read_u32().await.unwrap();
        self.0.write_u8(1).await.unwrap();
        chosen
    }

    /// Begins TLS with the certificate of `host`. The gateway must have a certificate of the authority `clients`.
    async fn tls(self, folder: &Path, clients: &str) -> io::Result<server::TlsStream<DuplexStream>> {
        let files = TlsFiles {
            certificate: folder.join("host.pem"),
            key: folder.join("host.key"),
            client_ca: Some(folder.join(clients)),
        };
        TlsAcceptor::from(Arc::new(files.server_config().unwrap())).accept(self.0).await
    }
}

/// The next piece that a viewer gets.
async fn shown(line: &mut SerialLine) -> Bytes {
    line.output.next().await.unwrap().unwrap()
}

/// Does a viewer's handshake, in the given pieces of its side.
async fn view(line: &mut SerialLine, pieces: &[&'static [u8]]) {
    assert_eq!(shown(line).await, "RFB 003.008\n");
    for piece in pieces {
        line.input.send(Bytes::from_static(piece)).await.unwrap();
    }
    assert_eq!(shown(line).await, b"\x01\x01"[..]);
}

#[actix_web::test]
async fn a_viewer_gets_no_security_and_then_the_hosts_stream() {
    let ways: [&[&'static [u8]]; 2] = [&[b"RFB 003.008\n", b"\x01", b"hello"], &[b"RFB 003.", b"008\n\x01hel", b"lo"]];
    for pieces in ways {
        let (mut host, gateway) = FakeHost::new();
        let security = VncSecurity::default();
        let (line, chosen) = tokio::join!(open(gateway, "127.0.0.1", &security), host.offer(&[2, 1]));
        assert_eq!(chosen, 1);
        host.0.write_u32(0).await.unwrap();
        let mut line = line.unwrap();
        view(&mut line, pieces).await;
        assert_eq!(shown(&mut line).await, b"\0\0\0\0"[..], "the host's result of the handshake");
        let mut said = [0; 5];
        host.0.read_exact(&mut said).await.unwrap();
        assert_eq!(&said, b"hello");
        // The end of either side ends the other.
        drop(host);
        assert!(line.output.next().await.is_none());
    }
}

#[actix_web::test]
async fn viewers_that_break_the_handshake_are_disconnected() {
    let ways: [&[&'static [u8]]; 2] = [&[b"RFB 003.003\n"], &[b"RFB 003.008\n", b"\x02"]];
    for pieces in ways {
        let (mut host, gateway) = FakeHost::new();
        let security = VncSecurity::default();
        let (line, _) = tokio::join!(open(gateway, "127.0.0.1", &security), host.offer(&[1]));
        let mut line = line.unwrap();
        assert_eq!(shown(&mut line).await, "RFB 003.008\n");
        for piece in pieces {
            line.input.send(Bytes::from_static(piece)).await.unwrap();
        }
        let mut last = line.output.next().await.unwrap();
        if last.as_ref().is_ok_and(|piece| piece[..] == [1, 1]) {
            last = line.output.next().await.unwrap();
        }
        assert!(last.is_err(), "{last:?}");
    }
}

/// The gateway chooses the first of the operator's schemes that the host offers. The order of the host does not matter.
#[actix_web::test]
async fn the_operators_order_of_schemes_decides() {
    use VncScheme::{None as Plain, Vencrypt};
    let cases: [(&[VncScheme], &[u8], Option<VncScheme>); 5] = [
        (&[Vencrypt, Plain], &[1, 19], Some(Vencrypt)),
        (&[Plain, Vencrypt], &[19, 1], Some(Plain)),
        (&[Vencrypt, Plain], &[2, 1], Some(Plain)),
        (&[Vencrypt], &[1, 2], None),
        (&[Plain], &[19], None),
    ];
    for (schemes, offered, expected) in cases {
        let (mut host, mut gateway) = FakeHost::new();
        let host = async {
            // A gateway that finds no scheme disconnects.
            host.0.write_all(b"RFB 003.008\n").await.unwrap();
            host.0.write_u8(u8::try_from(offered.len()).unwrap()).await.unwrap();
            host.0.write_all(offered).await.unwrap();
        };
        let (chosen, ()) = tokio::join!(choose(&mut gateway, schemes), host);
        match expected {
            Some(expected) => assert_eq!(chosen.unwrap(), expected, "{schemes:?} {offered:?}"),
            None => {
                let error = chosen.unwrap_err();
                assert!(matches!(&error, RfbError::NoScheme(types) if types == offered), "{error}");
            }
        }
    }
}

#[actix_web::test]
async fn hosts_that_refuse_or_speak_another_version_are_named_in_the_error() {
    let cases: [(&[u8], &str); 4] = [
        (b"RFB 003.003\n", "RFB 003.003"),
        (b"RFB 003.008\n\0\0\0\0\x08too many", "too many"),
        (b"HTTP/1.1 400", "HTTP/1.1 400"),
        (b"RFB", "eof"),
    ];
    for (bytes, words) in cases {
        let (mut host, gateway) = FakeHost::new();
        host.0.write_all(bytes).await.unwrap();
        host.0.shutdown().await.unwrap();
        let error = open(gateway, "127.0.0.1", &VncSecurity::default()).await.unwrap_err();
        assert!(error.to_string().contains(words), "{words}: {error}");
    }
}

#[actix_web::test]
async fn a_host_with_vencrypt_and_the_gateway_check_each_others_certificates() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    if let Err(reason) = certificates(folder) {
        eprintln!("skipped: no certificates can be made: {reason}");
        return;
    }
    let good = security(folder, &[VncScheme::Vencrypt, VncScheme::None], "hosts.pem");
    good.check().unwrap();
    let (mut host, gateway) = FakeHost::new();
    let serve = async {
        assert_eq!(host.offer(&[1, 19]).await, 19);
        // 262 is X509Plain, and 257 is TLSNone, which has no certificates.
        assert_eq!(host.vencrypt(&[262, 257, 260]).await, 260);
        let mut private = host.tls(folder, "gateways.pem").await.unwrap();
        private.write_u32(0).await.unwrap();
        private.flush().await.unwrap();
        private
    };
    let (line, mut private) = tokio::join!(open(gateway, "192.0.2.1", &good), serve);
    let mut line = line.unwrap();
    view(&mut line, &[b"RFB 003.008\n", b"\x01"]).await;
    assert_eq!(shown(&mut line).await, b"\0\0\0\0"[..]);
    line.input.send(Bytes::from_static(b"hello")).await.unwrap();
    let mut said = [0; 5];
    private.read_exact(&mut said).await.unwrap();
    assert_eq!(&said, b"hello");
    drop(line.input);
    assert_eq!(private.read(&mut said).await.unwrap(), 0, "TLS is closed");

    // First the gateway does not trust the authority of the host. Then the host does not trust that of the gateway.
    for (authority, clients) in [("gateways.pem", "gateways.pem"), ("hosts.pem", "hosts.pem")] {
        let (mut host, gateway) = FakeHost::new();
        let serve = async {
            host.offer(&[19]).await;
            host.vencrypt(&[260]).await;
            host.tls(folder, clients).await
        };
        let security = security(folder, &[VncScheme::Vencrypt], authority);
        let (line, private) = tokio::join!(open(gateway, "127.0.0.1", &security), serve);
        assert!(private.is_err(), "{authority} {clients}");
        // With TLS 1.3 the gateway learns only after its handshake that the host refuses its certificate.
        if let Ok(mut line) = line {
            assert_eq!(authority, "hosts.pem", "a host of an unknown authority is trusted");
            view(&mut line, &[b"RFB 003.008\n", b"\x01"]).await;
            assert!(!matches!(line.output.next().await, Some(Ok(_))), "the stream goes on");
        }
    }
}

/// Without certificates, somebody between the gateway and the host could read everything.
#[actix_web::test]
async fn vencrypt_without_certificates_is_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    if let Err(reason) = certificates(folder) {
        eprintln!("skipped: no certificates can be made: {reason}");
        return;
    }
    let (mut host, gateway) = FakeHost::new();
    let serve = async {
        host.offer(&[19]).await;
        host.0.write_all(&[0, 2]).await.unwrap();
        assert_eq!(host.0.read_u16().await.unwrap(), 2);
        host.0.write_all(&[0, 1]).await.unwrap();
        host.0.write_u32(257).await.unwrap();
    };
    let security = security(folder, &[VncScheme::Vencrypt], "hosts.pem");
    let (line, ()) = tokio::join!(open(gateway, "127.0.0.1", &security), serve);
    assert!(matches!(line.unwrap_err(), RfbError::NoCertificates(types) if types == [257]));
}

#[test]
fn unusable_files_are_named_before_the_first_console() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    let error = security(folder, &[VncScheme::Vencrypt], "hosts.pem").check().unwrap_err().to_string();
    assert!(error.contains("hosts.pem"), "{error}");
    security(folder, &[VncScheme::None], "hosts.pem").check().unwrap();
}
