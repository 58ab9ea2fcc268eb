//! Microversions: their order, and how a request names the requested version.
//!
//! Compute takes `OpenStack-API-Version: compute X.Y` and the older `X-OpenStack-Nova-API-Version: X.Y`; Placement
//! takes `OpenStack-API-Version: placement X.Y`, and Volume `OpenStack-API-Version: volume X.Y`.
//! `OpenStack-API-Version` may hold versions of several services, separated by commas. `latest` is the newest version
//! served; no header means the oldest.
//!
//! Invariant: negotiation happens once per request, in the dispatcher. Afterwards only tables (of routes, schemas,
//! fields and filters), functions in `versions` modules and the form of errors depend on the version.

use std::fmt;

use actix_web::http::header::HeaderMap;

use crate::fault::Fault;
use crate::service::Service;

/// `OpenStack-API-Version`, the header that all services with microversions share.
pub const HEADER: &str = "OpenStack-API-Version";
/// The header that only Compute understands.
pub const LEGACY_HEADER: &str = "X-OpenStack-Nova-API-Version";

/// An API version, ordered as numbers: 2.9 is older than 2.10.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Microversion {
    pub major: u16,
    pub minor: u16,
}

/// Short for `Microversion::new`, for tables.
pub const fn v(major: u16, minor: u16) -> Microversion {
    Microversion::new(major, minor)
}

impl Microversion {
    /// The version of services without microversions.
    pub const NONE: Self = Self::new(0, 0);

    pub const fn new(major: u16, minor: u16) -> Self {
        Self { major, minor }
    }

    /// `self >= other`, usable in constants.
    pub const fn at_least(self, other: Self) -> bool {
        self.major > other.major || (self.major == other.major && self.minor >= other.minor)
    }

    /// Whether this version is at least `since` and at most `until`. `None` means no upper limit.
    pub const fn within(self, since: Self, until: Option<Self>) -> bool {
        self.at_least(since)
            && match until {
                Some(last) => last.at_least(self),
                None => true,
            }
    }

    /// The next minor version.
    pub const fn next(self) -> Self {
        Self::new(self.major, self.minor.saturating_add(1))
    }
}

impl fmt::Display for Microversion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl fmt::Debug for Microversion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The versions a service answers.
#[derive(Debug, Clone, Copy)]
pub struct VersionSpan {
    /// The name that the header uses.
    pub service_type: &'static str,
    pub min: Microversion,
    pub max: Microversion,
}

/// Compute 2.1 to 2.104.
pub const COMPUTE: VersionSpan = VersionSpan { service_type: "compute", min: v(2, 1), max: v(2, 104) };
/// Placement 1.0 to 1.39.
pub const PLACEMENT: VersionSpan = VersionSpan { service_type: "placement", min: v(1, 0), max: v(1, 39) };

/// Volume 3.0 to 3.67.
pub const VOLUME: VersionSpan = VersionSpan { service_type: "volume", min: v(3, 0), max: v(3, 67) };

/// The versions of `service`, if it has any.
pub const fn span(service: Service) -> Option<VersionSpan> {
    match service {
        Service::Compute => Some(COMPUTE),
        Service::Placement => Some(PLACEMENT),
        Service::Volume => Some(VOLUME),
        Service::Identity | Service::Image | Service::Network | Service::Metadata | Service::Chronova => None,
    }
}

/// The version that the request wants, or the service's refusal.
pub fn negotiate(service: Service, headers: &HeaderMap) -> Result<Microversion, Fault> {
    match service {
        Service::Compute => negotiate_compute(headers),
        Service::Placement => negotiate_placement(headers),
        Service::Volume => negotiate_volume(headers),
        Service::Identity | Service::Image | Service::Network | Service::Metadata | Service::Chronova => {
            Ok(Microversion::NONE)
        }
    }
}

/// Negotiates as Nova does: a malformed version is 400, a version outside the range 406. A header that names only
/// another service is ignored.
fn negotiate_compute(headers: &HeaderMap) -> Result<Microversion, Fault> {
    let wanted = listed(headers, COMPUTE.service_type).or_else(|| {
        headers.get(LEGACY_HEADER).and_then(|value| value.to_str().ok()).map(|text| text.trim().to_owned())
    });
    let Some(wanted) = wanted else { return Ok(COMPUTE.min) };
    if wanted == "latest" {
        return Ok(COMPUTE.max);
    }
    // Nova's grammar: no sign, no leading zeros, exactly two numbers.
    let version = strict(&wanted).ok_or_else(|| {
        Fault::bad_request(format!(
            "API Version String {wanted} is of invalid format. Must be of format MajorNum.MinorNum."
        ))
    })?;
    if version.within(COMPUTE.min, Some(COMPUTE.max)) {
        return Ok(version);
    }
    Err(Fault::not_acceptable(format!(
        "Version {wanted} is not supported by the API. Minimum is {} and maximum is {}.",
        COMPUTE.min, COMPUTE.max
    )))
}

/// Negotiates as Cinder does: only `OpenStack-API-Version` is read. The rest is as in Nova.
fn negotiate_volume(headers: &HeaderMap) -> Result<Microversion, Fault> {
    let Some(wanted) = listed(headers, VOLUME.service_type) else { return Ok(VOLUME.min) };
    if wanted == "latest" {
        return Ok(VOLUME.max);
    }
    let version = strict(&wanted).ok_or_else(|| {
        Fault::bad_request(format!(
            "API Version String {wanted} is of invalid format. Must be of format MajorNum.MinorNum."
        ))
    })?;
    if version.within(VOLUME.min, Some(VOLUME.max)) {
        return Ok(version);
    }
    Err(Fault::not_acceptable(format!(
        "Version {wanted} is not supported by the API. Minimum is {} and maximum is {}.",
        VOLUME.min, VOLUME.max
    )))
}

/// Negotiates as Placement does: a malformed version is 400, an unsupported version 406.
fn negotiate_placement(headers: &HeaderMap) -> Result<Microversion, Fault> {
    let Some(wanted) = listed(headers, PLACEMENT.service_type) else { return Ok(PLACEMENT.min) };
    if wanted == "latest" {
        return Ok(PLACEMENT.max);
    }
    let pair = wanted
        .split_once('.')
        .and_then(|(major, minor)| Some((major.trim().parse::<u32>().ok()?, minor.trim().parse::<u32>().ok()?)));
    let Some((major, minor)) = pair else {
        return Err(Fault::bad_request(format!("Invalid microversion: invalid version string: {wanted}")));
    };
    let version = u16::try_from(major).ok().zip(u16::try_from(minor).ok()).map(|(major, minor)| v(major, minor));
    match version {
        Some(version) if version.within(PLACEMENT.min, Some(PLACEMENT.max)) => Ok(version),
        _ => Err(Fault::not_acceptable(format!("Invalid microversion: Unacceptable version header: {wanted}"))),
    }
}

/// The version that `OpenStack-API-Version` gives for one service; if there are several, the last of them.
fn listed(headers: &HeaderMap, service_type: &str) -> Option<String> {
    headers
        .get_all(HEADER)
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|entry| {
            let mut words = entry.split_whitespace();
            let name = words.next()?;
            let version = words.next()?;
            name.eq_ignore_ascii_case(service_type).then(|| version.to_owned())
        })
        .last()
}

pub(crate) fn strict(text: &str) -> Option<Microversion> {
    let (major, minor) = text.split_once('.')?;
    Some(v(number(major, false)?, number(minor, true)?))
}

fn number(text: &str, zero: bool) -> Option<u16> {
    let leading_zero = text.starts_with('0') && (text.len() > 1 || !zero);
    if leading_zero || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    // A number too large for `u16` is well formed but out of range.
    if text.is_empty() { None } else { Some(text.parse().unwrap_or(u16::MAX)) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use actix_web::http::header::{HeaderName, HeaderValue};

    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(HeaderName::try_from(*name).unwrap(), HeaderValue::from_str(value).unwrap());
        }
        map
    }

    fn compute(pairs: &[(&str, &str)]) -> Result<Microversion, u16> {
        negotiate(Service::Compute, &headers(pairs)).map_err(|fault| fault.status)
    }

    fn placement(pairs: &[(&str, &str)]) -> Result<Microversion, u16> {
        negotiate(Service::Placement, &headers(pairs)).map_err(|fault| fault.status)
    }

    #[test]
    fn orders_as_numbers() {
        assert!(v(2, 9) < v(2, 10));
        assert!(v(2, 104).within(v(2, 1), None));
        assert!(!v(2, 36).within(v(2, 1), Some(v(2, 35))));
    }

    #[test]
    fn compute_takes_both_headers_and_lists() {
        assert_eq!(compute(&[]), Ok(v(2, 1)));
        assert_eq!(compute(&[(HEADER, "compute 2.79")]), Ok(v(2, 79)));
        assert_eq!(compute(&[(HEADER, "placement 1.3, compute 2.80")]), Ok(v(2, 80)));
        assert_eq!(compute(&[(HEADER, "placement 1.3")]), Ok(v(2, 1)));
        assert_eq!(compute(&[(LEGACY_HEADER, "2.53")]), Ok(v(2, 53)));
        assert_eq!(compute(&[(LEGACY_HEADER, "latest")]), Ok(v(2, 104)));
        assert_eq!(compute(&[(LEGACY_HEADER, "2.2"), (HEADER, "compute 2.3")]), Ok(v(2, 3)));
    }

    #[test]
    fn compute_refuses_malformed_and_unknown() {
        for bad in ["2", "2.", "2.x", "2.01", "2.1.1", "02.1", "-2.1", "abc"] {
            assert_eq!(compute(&[(LEGACY_HEADER, bad)]), Err(400), "{bad}");
        }
        for unknown in ["2.105", "3.1", "2.0", "1.9", "2.99999999"] {
            assert_eq!(compute(&[(LEGACY_HEADER, unknown)]), Err(406), "{unknown}");
        }
    }

    #[test]
    fn placement_defaults_to_the_oldest() {
        assert_eq!(placement(&[]), Ok(v(1, 0)));
        assert_eq!(placement(&[(HEADER, "placement latest")]), Ok(v(1, 39)));
        assert_eq!(placement(&[(HEADER, "placement 1.40")]), Err(406));
        assert_eq!(placement(&[(HEADER, "placement 0.9")]), Err(406));
        assert_eq!(placement(&[(HEADER, "placement pizza")]), Err(400));
    }
}
