//! The file with an access key, in the form that the programs of Amazon read.

use std::io;
use std::path::Path;

/// The key that signs requests.
#[derive(PartialEq, Eq)]
pub(super) struct AccessKey {
    pub(super) id: String,
    pub(super) secret: String,
}

impl std::fmt::Debug for AccessKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AccessKey").field("id", &self.id).finish_non_exhaustive()
    }
}

impl AccessKey {
    /// Reads the key. Each request does so, so that an operator can exchange the key of a running server.
    pub(super) fn read(path: &Path) -> io::Result<Self> {
        let told = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let text = std::fs::read_to_string(path).map_err(told)?;
        Self::parse(&text).ok_or_else(|| {
            let what = format!(
                "{}: an access key has the lines `aws_access_key_id = ...` and `aws_secret_access_key = ...`",
                path.display()
            );
            io::Error::new(io::ErrorKind::InvalidData, what)
        })
    }

    fn parse(text: &str) -> Option<Self> {
        let value = |name: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once('='));
            let value = lines.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned());
            value.filter(|value| !value.is_empty() && !value.contains(char::is_control))
        };
        Some(Self { id: value("aws_access_key_id")?, secret: value("aws_secret_access_key")? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_from_the_first_lines_with_its_names() {
        let text = "[default]\n# of the archive\naws_access_key_id = A1\naws_secret_access_key=s/e=c+\n";
        let key = AccessKey { id: "A1".to_owned(), secret: "s/e=c+".to_owned() };
        assert!(!format!("{key:?}").contains("s/e"));
        assert_eq!(AccessKey::parse(text), Some(key));
        for wrong in ["", "A1:s", "aws_access_key_id = A1", "aws_access_key_id =\naws_secret_access_key = s"] {
            assert_eq!(AccessKey::parse(wrong), None, "{wrong}");
        }
    }
}
