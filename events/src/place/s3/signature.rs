//! Signatures of requests: Amazon's Signature Version 4.
//!
//! A signature covers the method, the path, the query, the named headers and the hash of the body. So nobody on the way
//! can change a request, and nobody can send it again a quarter of an hour later.

use std::fmt::Write as _;

use hmac::{Hmac, Mac};
use sha2::{Digest as _, Sha256};

use super::keys::AccessKey;

/// The parts of a request that the signature covers, each as it is sent.
#[derive(Debug)]
pub(super) struct SignedParts<'a> {
    pub(super) method: &'a str,
    pub(super) path: &'a str,
    /// The pairs in the order of their names, as [`query`] writes them.
    pub(super) query: &'a str,
    /// With names in lower case, in the order of the names.
    pub(super) headers: &'a [(&'a str, String)],
    /// The SHA-256 of the body, in hexadecimal digits.
    pub(super) payload: &'a str,
}

/// The value of the header `authorization`. `at`: the time of the request, as in `20130524T000000Z`.
pub(super) fn authorization(parts: &SignedParts<'_>, key: &AccessKey, region: &str, at: &str) -> String {
    let SignedParts { method, path, query, headers, payload } = parts;
    let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
    let (names, mut lines) = (names.join(";"), String::new());
    for (name, value) in *headers {
        // Writing to a `String` cannot fail.
        let _ = writeln!(lines, "{name}:{}", value.trim());
    }
    let request = format!("{method}\n{path}\n{query}\n{lines}\n{names}\n{payload}");
    let day = at.get(..8).unwrap_or(at);
    let scope = format!("{day}/{region}/s3/aws4_request");
    let text = format!("AWS4-HMAC-SHA256\n{at}\n{scope}\n{}", sha256_of(request.as_bytes()));
    let mut secret = mac(format!("AWS4{}", key.secret).as_bytes(), day);
    for part in [region, "s3", "aws4_request"] {
        secret = mac(&secret, part);
    }
    let signature = hexadecimal(&mac(&secret, &text));
    format!("AWS4-HMAC-SHA256 Credential={}/{scope},SignedHeaders={names},Signature={signature}", key.id)
}

fn mac(key: &[u8], text: &str) -> [u8; 32] {
    // HMAC accepts a key of any length.
    let Ok(mut mac) = <Hmac<Sha256> as Mac>::new_from_slice(key) else { return [0; 32] };
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().into()
}

/// The hash of some bytes, in hexadecimal digits.
pub(super) fn sha256_of(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a `String` cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Encodes a text for a path or a query. In a path, slashes stay.
pub(super) fn encoded(text: &str, slashes_stay: bool) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || (slashes_stay && byte == b'/') {
            out.push(char::from(byte));
        } else {
            // Writing to a `String` cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
        out
    })
}

/// The query of some pairs, in the order of their names.
pub(super) fn query(pairs: &[(&str, &str)]) -> String {
    let mut pairs: Vec<String> =
        pairs.iter().map(|(name, value)| format!("{}={}", encoded(name, false), encoded(value, false))).collect();
    pairs.sort();
    pairs.join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    const AT: &str = "20130524T000000Z";

    /// Signs as the examples in Amazon's description do.
    fn signature(method: &str, path: &str, query: &str, payload: &str, more: &[(&'static str, &str)]) -> String {
        let key = AccessKey {
            id: "AKIAIOSFODNN7EXAMPLE".to_owned(),
            secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned(),
        };
        let mut headers: Vec<(&str, String)> = vec![
            ("host", "examplebucket.s3.amazonaws.com".to_owned()),
            ("x-amz-content-sha256", payload.to_owned()),
            ("x-amz-date", AT.to_owned()),
        ];
        headers.extend(more.iter().map(|(name, value)| (*name, (*value).to_owned())));
        headers.sort();
        let parts = SignedParts { method, path, query, headers: &headers, payload };
        let text = authorization(&parts, &key, "us-east-1", AT);
        let begin =
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,SignedHeaders=";
        assert!(text.starts_with(begin), "{text}");
        text.rsplit('=').next().unwrap_or_default().to_owned()
    }

    #[test]
    fn signatures_are_those_of_the_examples() {
        let get = signature("GET", "/test.txt", "", EMPTY, &[("range", "bytes=0-9")]);
        assert_eq!(get, "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
        let body = sha256_of(b"Welcome to Amazon S3.");
        let more = [("date", "Fri, 24 May 2013 00:00:00 GMT"), ("x-amz-storage-class", "REDUCED_REDUNDANCY")];
        let put = signature("PUT", &encoded("/test$file.text", true), "", &body, &more);
        assert_eq!(put, "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
        let lifecycle = signature("GET", "/", &query(&[("lifecycle", "")]), EMPTY, &[]);
        assert_eq!(lifecycle, "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
        let list = signature("GET", "/", &query(&[("prefix", "J"), ("max-keys", "2")]), EMPTY, &[]);
        assert_eq!(list, "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
    }

    #[test]
    fn other_signs_are_encoded() {
        assert_eq!(encoded("/a b/ä~", true), "/a%20b/%C3%A4~");
        assert_eq!(query(&[("prefix", "a/b"), ("list-type", "2")]), "list-type=2&prefix=a%2Fb");
    }
}
