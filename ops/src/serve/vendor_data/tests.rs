#![allow(clippy::unwrap_used)]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::Mutex;

use chronova_events::clock::SystemClock;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::*;
use crate::config::{MachineDefaults, load_on};

/// Starts a service that gives every request the same answer. Returns its address and the requests that it gets.
fn service(answer: &'static [u8]) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, heard) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(Vec::new())));
    let told = Arc::clone(&heard);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = Vec::new();
            let mut piece = [0; 4096];
            // The request ends with its body, a JSON object.
            while !request.ends_with(b"}") {
                match stream.read(&mut piece).unwrap() {
                    0 => break,
                    length => request.extend_from_slice(&piece[..length]),
                }
            }
            told.lock().unwrap().push(String::from_utf8(request).unwrap());
            // A client may close the connection before it has read the whole answer.
            let _ = stream.write_all(answer);
        }
    });
    (address, heard)
}

/// A configuration with this text in `[api]`.
fn config(text: &str) -> Config {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), format!("[api]\n{text}\n")).unwrap();
    let machine = MachineDefaults { host_name: "control-1".to_owned(), host_address: "192.0.2.7".to_owned() };
    load_on(&machine, &[file.path().to_owned()]).unwrap().config
}

fn services(text: &str) -> Result<HttpServices> {
    HttpServices::new(&config(text), &(Arc::new(SystemClock) as _))
}

fn metadata(config: &Config) -> Result<MetadataOptions> {
    let mut metadata = config.targets().runtime.servers.metadata;
    complete(&mut metadata, config, &(Arc::new(SystemClock) as _)).map(|()| metadata)
}

/// `[api] vendordata_jsonfile_path`: an invalid file stops start-up, with its name and the reason.
#[test]
fn static_vendor_data_comes_from_a_readable_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vendor.json");
    let told = || {
        let config = config(&format!("vendordata_jsonfile_path = {}\n", path.display()));
        metadata(&config).map(|options| options.vendor_data).map_err(|error| format!("{error:#}"))
    };
    let missing = told().unwrap_err();
    assert!(
        missing.contains(&format!("[api] vendordata_jsonfile_path: {} cannot be read", path.display())),
        "{missing}"
    );
    for wrong in ["", "nonsense", "[1, 2]", "\"text\"", "{\"a\": }"] {
        std::fs::write(&path, wrong).unwrap();
        let error = told().unwrap_err();
        assert!(error.contains("holds no JSON object"), "{wrong}: {error}");
    }
    std::fs::write(&path, "{\"ntp\": [\"10.0.0.1\"]}").unwrap();
    let good = told().unwrap();
    assert_eq!(good.as_deref(), Some(&serde_json::json!({"ntp": ["10.0.0.1"]})));
    // The file is read only once, so a later change of the file has no effect.
    std::fs::remove_file(&path).unwrap();
    assert_eq!(good.as_deref(), Some(&serde_json::json!({"ntp": ["10.0.0.1"]})));
}

#[test]
fn options_of_vendor_data_select_the_providers() {
    let told = |text: &str| metadata(&config(text)).map_err(|error| format!("{error:#}"));
    let providers = |text: &str| told(text).map(|told| (told.vendor_data.is_some(), told.dynamic.is_some()));
    assert_eq!(providers(""), Ok((true, false)));
    assert_eq!(providers("vendordata_providers = DynamicJSON"), Ok((false, true)));
    assert_eq!(providers("vendordata_providers = StaticJSON,DynamicJSON"), Ok((true, true)));
    let lacking = "vendordata_providers = DynamicJSON\nvendordata_dynamic_ssl_certfile = /nowhere/ca.pem";
    assert!(providers(lacking).unwrap_err().contains("/nowhere/ca.pem"));
}

const GOOD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\nConnection: close\r\n\r\n{\"a\": 1}";

#[tokio::test]
async fn each_service_gets_the_server_and_adds_its_part() {
    let (one, heard) = service(GOOD);
    let (two, _) = service(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
    let asked = services(&format!(
        "vendordata_dynamic_targets = one@http://{one}/x,two@http://{two},one@http://{two},@http://{two},nameless\n"
    ));
    let told = asked.unwrap().ask(json!({"hostname": "web"})).await.unwrap();
    assert_eq!(Value::Object(told), json!({"one": {"a": 1}, "two": {}}));
    let heard = heard.lock().unwrap();
    assert_eq!(heard.len(), 1);
    let lower = heard[0].to_ascii_lowercase();
    assert!(
        heard[0].starts_with("POST /x HTTP/1.1\r\n") && heard[0].ends_with("{\"hostname\":\"web\"}"),
        "{}",
        heard[0]
    );
    assert!(
        lower.contains("content-type: application/json") && lower.contains("user-agent: openstack-nova-vendordata")
    );
}

/// Starts a Keystone that gives this token to every account.
fn keystone(token: &str) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let user = json!({"id": "1", "name": "nova", "domain": {"id": "default"}});
    let body = json!({"token": {"user": user, "expires_at": "2999-01-01T00:00:00.000000Z"}}).to_string();
    let answer = format!(
        "HTTP/1.1 201 Created\r\nX-Subject-Token: {token}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    );
    service(Box::leak(answer.into_bytes().into_boxed_slice()))
}

#[tokio::test]
async fn a_service_can_verify_its_caller_by_a_token_of_the_account() {
    let (keystone, logins) = keystone("the-token");
    let (one, heard) = service(GOOD);
    let text = |keystone: SocketAddr| {
        format!(
            "vendordata_providers = DynamicJSON\nvendordata_dynamic_targets = it@http://{one}/\n\
             [vendordata_dynamic_auth]\nauth_url = http://{keystone}\nauth_type = password\nusername = nova\n\
             password = s3cret-s3cret\nuser_domain_name = Default\nproject_name = service\n\
             project_domain_name = Default\n"
        )
    };
    let asked = services(&text(keystone)).unwrap();
    for _ in 0..2 {
        let told = asked.ask(json!({})).await.unwrap();
        assert_eq!(Value::Object(told), json!({"it": {"a": 1}}));
    }
    let calls = heard.lock().unwrap().clone();
    assert_eq!(calls.len(), 2);
    assert!(calls.iter().all(|call| call.to_ascii_lowercase().contains("x-auth-token: the-token\r\n")), "{calls:?}");
    let logins = logins.lock().unwrap().clone();
    assert_eq!(logins.len(), 1, "the token is asked for again: {logins:?}");
    assert!(logins[0].starts_with("POST /v3/auth/tokens HTTP/1.1\r\n"), "{logins:?}");
    // Without a token no service is asked.
    let (refuses, _) = service(b"HTTP/1.1 401 No\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}");
    let told = services(&text(refuses)).unwrap().ask(json!({})).await.unwrap();
    assert_eq!((Value::Object(told), heard.lock().unwrap().len()), (json!({"it": {}}), 2));
}

#[tokio::test]
async fn a_failed_service_adds_nothing_or_fails_the_request() {
    let (refuses, _) = service(b"HTTP/1.1 500 No\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}");
    let (mumbles, _) = service(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nhm?");
    let (sends_away, _) = service(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n");
    let endless: &'static [u8] = Box::leak(
        [&b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"[..], "[".repeat(300 * 1024).as_bytes()]
            .concat()
            .into_boxed_slice(),
    );
    let (talks, _) = service(endless);
    // This service accepts connections but never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for target in [refuses, mumbles, sends_away, talks, silent.local_addr().unwrap(), nobody] {
        let text = format!("vendordata_dynamic_targets = it@http://{target}\nvendordata_dynamic_read_timeout = 1\n");
        let told = services(&text).unwrap().ask(json!({})).await.unwrap();
        assert_eq!(Value::Object(told), json!({"it": {}}), "{target}");
        let fatal = format!("{text}vendordata_dynamic_failure_fatal = true\n");
        let stopped = services(&fatal).unwrap().ask(json!({})).await;
        assert_eq!(stopped, Err("the vendor data service it gave no valid answer".to_owned()), "{target}");
    }
}

#[test]
fn authorities_that_cannot_be_read_stop_the_start() {
    let error = services("vendordata_dynamic_ssl_certfile = /nowhere/ca.pem\n").unwrap_err();
    let error = format!("{error:#}");
    assert!(error.contains("[api] vendordata_dynamic_ssl_certfile: /nowhere/ca.pem"), "{error}");
    let file = tempfile::NamedTempFile::new().unwrap();
    let empty = services(&format!("vendordata_dynamic_ssl_certfile = {}\n", file.path().display())).unwrap_err();
    assert!(format!("{empty:#}").contains("there is no certificate in it"));
}

/// Makes certificates with openssl. `authority` signs the certificate of `server`; `stranger` signs none.
fn authorities() -> tempfile::TempDir {
    let script = "
        authority() { openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=$1 -days 2 \
            -keyout $1.key -out $1.pem; }
        authority authority; authority stranger
        openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=server -keyout server.key -out server.csr
        printf 'subjectAltName=IP:127.0.0.1\\nbasicConstraints=CA:FALSE\\n' >server.ext
        openssl x509 -req -in server.csr -CA authority.pem -CAkey authority.key -CAcreateserial -days 2 \
            -extfile server.ext -out server.pem
    ";
    let folder = tempfile::tempdir().unwrap();
    let output = std::process::Command::new("bash").args(["-ec", script]).current_dir(folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    folder
}

/// Starts a service with the certificate of `server`. It gives every request the answer [`GOOD`]. Returns its port.
async fn secure_service(folder: &Path) -> u16 {
    let provider = Arc::new(ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let chain = vec![CertificateDer::from_pem_file(folder.join("server.pem")).unwrap()];
    let key = PrivateKeyDer::from_pem_file(folder.join("server.key")).unwrap();
    let config = config.with_no_client_auth().with_single_cert(chain, key).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let mut stream = acceptor.accept(stream).await?;
                let (mut request, mut piece) = (Vec::new(), [0; 4096]);
                while !request.ends_with(b"}") {
                    let length = stream.read(&mut piece).await?;
                    request.extend_from_slice(&piece[..length]);
                    if length == 0 {
                        break;
                    }
                }
                stream.write_all(GOOD).await?;
                stream.shutdown().await
            });
        }
    });
    port
}

#[tokio::test]
async fn a_service_is_trusted_by_the_certificate_that_the_option_names() {
    let folder = authorities();
    let port = secure_service(folder.path()).await;
    let target = format!("vendordata_dynamic_targets = it@https://127.0.0.1:{port}/\n");
    for (authority, said) in [("authority.pem", json!({"it": {"a": 1}})), ("stranger.pem", json!({"it": {}}))] {
        let path = folder.path().join(authority);
        let text = format!("{target}vendordata_dynamic_ssl_certfile = {}\n", path.display());
        let told = services(&text).unwrap().ask(json!({})).await.unwrap();
        assert_eq!(Value::Object(told), said, "{authority}");
    }
    // Without the option, the authorities of the system count, if the system has any.
    if let Ok(services) = services(&target) {
        let told = services.ask(json!({})).await.unwrap();
        assert_eq!(Value::Object(told), json!({"it": {}}));
    }
}
