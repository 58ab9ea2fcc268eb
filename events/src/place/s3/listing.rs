//! The answers of an object store in XML.

use roxmltree::Document;

/// One part of a listing.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ListedFiles {
    /// The names without the prefix, and the sizes in bytes.
    pub(super) files: Vec<(String, u64)>,
    /// Asks for the next part; `None` in the last one.
    pub(super) next: Option<String>,
}

/// Parses a part of a listing (`ListObjectsV2`). `prefix`: the beginning of all keys.
pub(super) fn listing(answer: &[u8], prefix: &str) -> Result<ListedFiles, String> {
    let text = std::str::from_utf8(answer).map_err(|error| error.to_string())?;
    let document = Document::parse(text).map_err(|error| error.to_string())?;
    let root = document.root_element();
    if root.tag_name().name() != "ListBucketResult" {
        return Err(format!("<{}> is no listing", root.tag_name().name()));
    }
    let value = |name: &str| root.children().find(|node| node.tag_name().name() == name).and_then(|node| node.text());
    let mut files = Vec::new();
    for entry in root.children().filter(|node| node.tag_name().name() == "Contents") {
        let value = |name: &str| {
            entry
                .children()
                .find(|node| node.tag_name().name() == name)
                .and_then(|node| node.text())
                .unwrap_or_default()
        };
        // A key that is the prefix itself marks a folder in the tools of some stores.
        let Some(name) = value("Key").strip_prefix(prefix).filter(|name| !name.is_empty()) else { continue };
        let size = value("Size").parse::<u64>().map_err(|_| format!("the size of {name} is no number"))?;
        files.push((name.to_owned(), size));
    }
    let next = match value("IsTruncated") {
        Some("true") => {
            Some(value("NextContinuationToken").ok_or("a part of a listing names no next part")?.to_owned())
        }
        _ => None,
    };
    Ok(ListedFiles { files, next })
}

/// The value of an element of an answer, `UploadId` for example.
pub(super) fn value(answer: &[u8], name: &str) -> Option<String> {
    let document = Document::parse(std::str::from_utf8(answer).ok()?).ok()?;
    let found = document.root_element().children().find(|node| node.tag_name().name() == name)?;
    found.text().map(str::to_owned)
}

/// The code and the message of a refusal; both empty if the answer is none.
pub(super) fn refusal(answer: &[u8]) -> (String, String) {
    let parse = || {
        let document = Document::parse(std::str::from_utf8(answer).ok()?).ok()?;
        let root = document.root_element();
        let value = |name: &str| {
            let found = root.children().find(|node| node.tag_name().name() == name).and_then(|node| node.text());
            found.unwrap_or_default().to_owned()
        };
        (root.tag_name().name() == "Error").then(|| (value("Code"), value("Message")))
    };
    parse().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_listing_has_names_and_its_next_part() {
        let text = r#"<?xml version="1.0" encoding="UTF-8"?>
            <ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>cold</Name><Prefix>a/</Prefix>
            <IsTruncated>true</IsTruncated><NextContinuationToken>t=1&amp;</NextContinuationToken>
            <Contents><Key>a/</Key><Size>0</Size></Contents>
            <Contents><Key>a/one &amp; two</Key><Size>7</Size></Contents>
            <Contents><Size>8</Size><Key>a/b.json</Key></Contents>
            </ListBucketResult>"#;
        let files = vec![("one & two".to_owned(), 7), ("b.json".to_owned(), 8)];
        assert_eq!(listing(text.as_bytes(), "a/"), Ok(ListedFiles { files, next: Some("t=1&".to_owned()) }));
        assert_eq!(value(text.as_bytes(), "Name").as_deref(), Some("cold"));
        assert_eq!(value(text.as_bytes(), "UploadId"), None);
        let last = text.replace("<IsTruncated>true", "<IsTruncated>false");
        assert_eq!(listing(last.as_bytes(), "a/").unwrap().next, None);
        let lost = text.replace("NextContinuationToken", "Other");
        assert!(listing(lost.as_bytes(), "a/").is_err());
        for wrong in ["", "<html/>", "<ListBucketResult>", &text.replace(">7<", ">seven<")] {
            assert!(listing(wrong.as_bytes(), "").is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_refusal_has_a_code() {
        let text = "<?xml version=\"1.0\"?><Error><Code>NoSuchBucket</Code><Message>no &lt;b&gt;</Message></Error>";
        assert_eq!(refusal(text.as_bytes()), ("NoSuchBucket".to_owned(), "no <b>".to_owned()));
        assert_eq!(refusal(b"<html/>"), (String::new(), String::new()));
    }
}
