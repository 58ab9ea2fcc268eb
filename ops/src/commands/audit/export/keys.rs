//! Keys that sign exports: ed25519, in the PEM forms that openssl writes and reads.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{SigningKey, VerifyingKey};

use super::super::super::{CommandFailure, Exit};

/// The prefix of the 32 bytes of a private key in its DER form (RFC 8410, PKCS #8).
const PRIVATE: [u8; 16] = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
/// The prefix of the 32 bytes of a public key in its DER form (SubjectPublicKeyInfo).
const PUBLIC: [u8; 12] = [0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 0x21, 0];

#[derive(Debug, Clone, clap::Args)]
pub struct ExportKeysArgs {
    /// The private key's file; the public key goes beside it, as FILE.pub
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
}

/// Creates a key pair; never overwrites files.
pub fn run(args: &ExportKeysArgs, out: &mut dyn Write) -> Result<Exit, CommandFailure> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed)
        .map_err(|error| CommandFailure::Usage(format!("the operating system gives no random numbers: {error}")))?;
    let key = SigningKey::from_bytes(&seed);
    let public = public_path(&args.out);
    write_new(&args.out, 0o600, &pem("PRIVATE KEY", &PRIVATE, &key.to_bytes()))?;
    write_new(&public, 0o644, &pem("PUBLIC KEY", &PUBLIC, key.verifying_key().as_bytes()))?;
    writeln!(out, "{}\n{}", args.out.display(), public.display())?;
    Ok(Exit::Yes)
}

fn public_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".pub");
    name.into()
}

fn write_new(path: &Path, mode: u32, text: &str) -> Result<(), CommandFailure> {
    let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
        .map_err(|error| CommandFailure::Usage(format!("{}: {error}", path.display())))
}

fn pem(label: &str, prefix: &[u8], key: &[u8; 32]) -> String {
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", STANDARD.encode([prefix, &key[..]].concat()))
}

/// The 32 bytes of a key in a PEM file.
fn read(path: &Path, label: &str, prefix: &[u8]) -> Result<[u8; 32], CommandFailure> {
    let fail = |reason: &str| CommandFailure::Usage(format!("{}: {reason}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| fail(&error.to_string()))?;
    let body = text
        .split_once(&format!("-----BEGIN {label}-----"))
        .and_then(|(_, rest)| rest.split_once(&format!("-----END {label}-----")))
        .map(|(body, _)| body.split_whitespace().collect::<String>());
    let bytes = body.and_then(|body| STANDARD.decode(body).ok());
    let key = bytes.as_deref().and_then(|bytes| bytes.strip_prefix(prefix)).and_then(|key| key.try_into().ok());
    key.ok_or_else(|| fail(&format!("this is not an ed25519 {} in PEM", label.to_lowercase())))
}

/// The key that signs, as `chronova audit keygen` or `openssl genpkey -algorithm ed25519` wrote it.
pub fn signing_key(path: &Path) -> Result<SigningKey, CommandFailure> {
    read(path, "PRIVATE KEY", &PRIVATE).map(|seed| SigningKey::from_bytes(&seed))
}

pub fn verifying_key(path: &Path) -> Result<VerifyingKey, CommandFailure> {
    let bytes = read(path, "PUBLIC KEY", &PUBLIC)?;
    VerifyingKey::from_bytes(&bytes).map_err(|error| CommandFailure::Usage(format!("{}: {error}", path.display())))
}
