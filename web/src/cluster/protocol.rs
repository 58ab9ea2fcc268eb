//! The version of the protocol between members: the paths and headers of [`super::headers`], and what they mean.
//!
//! Each question and each answer names the version that its sender speaks, and the oldest one that it understands. Two
//! members understand each other if each one speaks a version that the other understands. So the newer member decides
//! whether it still speaks with an older one. A message without the header comes from version 1.
//!
//! To change the protocol, raise [`SPEAKS`]. Raise [`UNDERSTANDS`] only if members of the version before cannot work
//! with this one: then operators have to stop all members for the upgrade.

use std::fmt;
use std::str::FromStr;

const SPEAKS: u16 = 1;
const UNDERSTANDS: u16 = 1;

/// The version that a member speaks, and the oldest one that it understands. As a header: `3/2`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PeerProtocol {
    speaks: u16,
    understands: u16,
}

impl PeerProtocol {
    pub(super) const OWN: Self = Self { speaks: SPEAKS, understands: UNDERSTANDS };
    const FIRST: Self = Self { speaks: 1, understands: 1 };

    /// The protocol of the member that sent this header.
    pub(super) fn of(header: Option<&str>) -> Option<Self> {
        header.map_or(Some(Self::FIRST), |header| header.parse().ok())
    }

    fn works_with(self, other: Self) -> bool {
        self.speaks >= other.understands && other.speaks >= self.understands
    }

    /// Why this member and the member that sent this header cannot work together. `None` if they can.
    pub(super) fn mismatch(header: Option<&str>) -> Option<String> {
        let other = Self::of(header);
        if other.is_some_and(|other| Self::OWN.works_with(other)) {
            return None;
        }
        let theirs = header.unwrap_or_default();
        Some(format!(
            "one member speaks protocol {} and another {theirs:?}: their versions are too far apart for an upgrade one \
             by one",
            Self::OWN
        ))
    }
}

impl fmt::Display for PeerProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.speaks, self.understands)
    }
}

impl FromStr for PeerProtocol {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (speaks, understands) = text.split_once('/').ok_or(())?;
        let number = |text: &str| text.parse().map_err(drop);
        Ok(Self { speaks: number(speaks)?, understands: number(understands)? })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn neighbouring_versions_work_together_and_distant_ones_do_not() {
        let protocol = |text: &str| text.parse::<PeerProtocol>().unwrap();
        for (one, other, works) in [
            ("1/1", "1/1", true),
            ("2/1", "1/1", true),
            ("3/2", "2/1", true),
            ("3/2", "1/1", false),
            ("9/9", "8/1", false),
        ] {
            assert_eq!(protocol(one).works_with(protocol(other)), works, "{one} {other}");
            assert_eq!(protocol(other).works_with(protocol(one)), works, "{other} {one}");
        }
    }

    #[test]
    fn a_member_without_the_header_speaks_the_first_version() {
        assert_eq!(PeerProtocol::of(None), Some(PeerProtocol::FIRST));
        assert_eq!(PeerProtocol::mismatch(Some(&PeerProtocol::OWN.to_string())), None);
        let newer = PeerProtocol { speaks: SPEAKS + 1, understands: SPEAKS + 1 };
        for refused in [newer.to_string().as_str(), "", "1", "a/b", "1/-1", "99999/1"] {
            assert!(PeerProtocol::mismatch(Some(refused)).unwrap().contains("too far apart"), "{refused}");
        }
    }
}
