//! Certificates by openssl, and curl as a client that shows them.

#![allow(unreachable_pub, reason = "each test uses another part of this module")]

use std::path::Path;
use std::process::Command;

/// Writes certificates into the folder. An authority has signed one certificate for 127.0.0.1 and one for a client. A
/// second authority, `stranger`, has signed another certificate for 127.0.0.1.
pub fn certificates(folder: &Path) -> Result<(), String> {
    let script = "
        authority() { # name
            openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=$1 -days 2 \
                -keyout $1.key -out $1.pem
        }
        sign() { # name, extension, authority
            openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=$1 -keyout $1.key -out $1.csr
            printf '%s\\nbasicConstraints=CA:FALSE\\n' \"$2\" >$1.ext
            openssl x509 -req -in $1.csr -CA $3.pem -CAkey $3.key -CAcreateserial -days 2 \
                -extfile $1.ext -out $1.pem
        }
        authority authority
        sign server subjectAltName=IP:127.0.0.1 authority
        sign client extendedKeyUsage=clientAuth authority
        authority stranger
        sign foreign subjectAltName=IP:127.0.0.1 stranger
    ";
    let output = Command::new("bash").args(["-ec", script]).current_dir(folder).output();
    let output = output.map_err(|error| error.to_string())?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

/// Runs curl; returns its exit code, and its standard output and error as one text.
pub fn curl(folder: &Path, args: &[&str], url: &str) -> (i32, String) {
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--max-time", "30"])
        .args(args)
        .arg(url)
        .current_dir(folder)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.code().unwrap_or(-1), text)
}
