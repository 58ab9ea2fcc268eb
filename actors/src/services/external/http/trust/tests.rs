//! Tests which certificates are trusted. openssl makes the certificates.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::server::WebPkiClientVerifier;

use super::super::{CallFailure, CallOptions, ServiceClient, ServiceRequest};
use super::*;

/// An authority, the certificates of a server and a client that it signed, and another authority that signed nothing.
fn certificates() -> TempDir {
    let script = "
        authority() { openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=$1 -days 2 \
            -keyout $1.key -out $1.pem; }
        sign() { # name, extension
            openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=$1 -keyout $1.key -out $1.csr
            printf '%s\\nbasicConstraints=CA:FALSE\\n' \"$2\" >$1.ext
            openssl x509 -req -in $1.csr -CA authority.pem -CAkey authority.key -CAcreateserial -days 2 \
                -extfile $1.ext -out $1.pem
        }
        authority authority; authority stranger
        sign server subjectAltName=IP:127.0.0.1
        sign client extendedKeyUsage=clientAuth
        : >empty.pem
    ";
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new("bash").args(["-ec", script]).current_dir(folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    folder
}

fn trusting(folder: &Path, authority: &str) -> TlsTrust {
    TlsTrust { ca_file: Some(folder.join(authority)), ..TlsTrust::default() }
}

/// Starts a server that answers each call with 200, and returns its port. With `asks`, the server requests a
/// certificate of the client.
async fn serve(folder: &Path, asks: bool) -> u16 {
    let provider = Arc::new(ring::default_provider());
    let config = ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
    let config = config.unwrap();
    let config = if asks {
        let roots = trusting(folder, "authority.pem").roots().unwrap();
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
        config.with_client_cert_verifier(verifier)
    } else {
        config.with_no_client_auth()
    };
    let key = PrivateKeyDer::from_pem_file(folder.join("server.key")).unwrap();
    let config = config.with_single_cert(super::certificates(&folder.join("server.pem")).unwrap(), key).unwrap();
    let (acceptor, listener) = (TlsAcceptor::from(Arc::new(config)), TcpListener::bind("127.0.0.1:0").await.unwrap());
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let mut stream = acceptor.accept(stream).await?;
                let mut call = [0; 4096];
                let length = stream.read(&mut call).await?;
                assert!(call[..length].starts_with(b"GET / "), "the call is a GET of /");
                stream.write_all(b"HTTP/1.1 200 -\r\nConnection: close\r\nContent-Length: 0\r\n\r\n").await?;
                stream.shutdown().await
            });
        }
    });
    port
}

async fn call(tls: TlsTrust, url: String) -> Result<u16, CallFailure> {
    let options = CallOptions { name: "stub", timeout: Duration::from_mins(1), retries: 0, tls };
    let client = ServiceClient::new(options).unwrap();
    client.call(ServiceRequest::get(url)).await.map(|answer| answer.status)
}

#[tokio::test]
async fn a_service_is_believed_by_its_certificate() {
    let folder = certificates();
    let folder = folder.path();
    let port = serve(folder, false).await;
    let url = format!("https://127.0.0.1:{port}");
    assert_eq!(call(trusting(folder, "authority.pem"), url.clone()).await, Ok(200));
    let insecure = TlsTrust { insecure: true, ..TlsTrust::default() };
    assert_eq!(call(insecure, url.clone()).await, Ok(200), "an insecure client accepts all");
    for (tls, url, why) in [
        (trusting(folder, "stranger.pem"), url.clone(), "another authority"),
        (TlsTrust::default(), url, "the system's authorities"),
        (trusting(folder, "authority.pem"), format!("https://localhost:{port}"), "another name"),
    ] {
        let found = call(tls, url).await;
        let refused = |reason: &String| reason.starts_with("stub cannot be reached: ");
        assert!(matches!(&found, Err(CallFailure::Unanswered(reason)) if refused(reason)), "{why}: {found:?}");
    }
}

#[tokio::test]
async fn the_own_certificate_is_shown() {
    let folder = certificates();
    let folder = folder.path();
    let url = format!("https://127.0.0.1:{}", serve(folder, true).await);
    let without = trusting(folder, "authority.pem");
    assert!(call(without.clone(), url.clone()).await.is_err());
    let own = Some((folder.join("client.pem"), folder.join("client.key")));
    assert_eq!(call(TlsTrust { certificate: own, ..without }, url).await, Ok(200));
}

#[tokio::test]
async fn unusable_certificate_files_are_named_in_the_error() {
    let folder = certificates();
    let folder = folder.path();
    let told = |tls: TlsTrust| tls.client_config().unwrap_err().to_string();
    assert!(told(trusting(folder, "absent.pem")).contains("absent.pem cannot be read: "));
    assert!(told(trusting(folder, "empty.pem")).ends_with("empty.pem holds no certificate"));
    let own = |certificate: &str, key: &str| TlsTrust {
        certificate: Some((folder.join(certificate), folder.join(key))),
        ..TlsTrust::default()
    };
    assert!(told(own("client.pem", "absent.key")).contains("absent.key cannot be read: "));
    assert!(told(own("client.pem", "server.key")).starts_with("the certificate and its key cannot be used: "));
}
