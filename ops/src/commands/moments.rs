//! Times as operators type them: `2026-01-31T12:00:00Z`, `2026-01-31 12:00`, `2026-01-31`, or `15m` (ago).

use std::str::FromStr;

use chrono::{DateTime, NaiveDate, NaiveDateTime};
use chronova_events::envelope::Timestamp;
use thiserror::Error;

const SECOND: i64 = 1_000_000;

/// A time on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MomentArg {
    At(Timestamp),
    /// Microseconds before now.
    Ago(i64),
}

/// A moment of the log on the command line: a time, or a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AsOf {
    Position(u64),
    Time(MomentArg),
}

impl FromStr for AsOf {
    type Err = NoTime;

    fn from_str(text: &str) -> Result<Self, NoTime> {
        match text.parse() {
            Ok(position) => Ok(Self::Position(position)),
            Err(_) => text.parse().map(Self::Time),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "`{0}` is not a time: give 2026-01-31T12:00:00Z, 2026-01-31 12:00, 2026-01-31 (UTC), or 90s, 15m, 2h, 3d for so \
     long ago"
)]
pub struct NoTime(String);

impl MomentArg {
    pub fn resolve(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::Ago(micros) => Timestamp(now.0.saturating_sub(micros)),
        }
    }
}

impl FromStr for MomentArg {
    type Err = NoTime;

    fn from_str(text: &str) -> Result<Self, NoTime> {
        absolute(text).map(Self::At).or_else(|| ago(text).map(Self::Ago)).ok_or_else(|| NoTime(text.to_owned()))
    }
}

fn absolute(text: &str) -> Option<Timestamp> {
    if let Ok(at) = DateTime::parse_from_rfc3339(text) {
        return Some(Timestamp(at.timestamp_micros()));
    }
    let text = text.replacen('T', " ", 1);
    let utc = ["%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%d %H:%M"]
        .iter()
        .find_map(|form| NaiveDateTime::parse_from_str(&text, form).ok())
        .or_else(|| NaiveDate::parse_from_str(&text, "%Y-%m-%d").ok().and_then(|day| day.and_hms_opt(0, 0, 0)))?;
    Some(Timestamp(utc.and_utc().timestamp_micros()))
}

fn ago(text: &str) -> Option<i64> {
    let unit = match text.chars().last()? {
        's' => SECOND,
        'm' => 60 * SECOND,
        'h' => 3_600 * SECOND,
        'd' => 86_400 * SECOND,
        _ => return None,
    };
    let number: u32 = text.get(..text.len() - 1)?.parse().ok()?;
    i64::from(number).checked_mul(unit)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn forms() {
        let noon = Timestamp(1_769_860_800 * SECOND);
        for text in ["2026-01-31T12:00:00Z", "2026-01-31T13:00:00+01:00", "2026-01-31 12:00", "2026-01-31 12:00:00.000"]
        {
            assert_eq!(text.parse::<MomentArg>().unwrap(), MomentArg::At(noon), "{text}");
        }
        let midnight: MomentArg = "2026-01-31".parse().unwrap();
        assert_eq!(midnight.resolve(noon), Timestamp(noon.0 - 12 * 3_600 * SECOND));
        assert_eq!("90s".parse::<MomentArg>().unwrap().resolve(noon), Timestamp(noon.0 - 90 * SECOND));
        assert_eq!(
            ("17".parse(), "90s".parse()),
            (Ok(AsOf::Position(17)), Ok(AsOf::Time(MomentArg::Ago(90 * SECOND))))
        );
        assert!("soon".parse::<AsOf>().is_err());
        assert!(
            "soon".parse::<MomentArg>().is_err()
                && "5".parse::<MomentArg>().is_err()
                && "".parse::<MomentArg>().is_err()
        );
    }
}
