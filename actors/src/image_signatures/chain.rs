//! Links a certificate to a trusted root, by the rules of cursive's `CertificateVerificationContext`.
//!
//! All certificates of a chain except the verified one come from the list of trusted certificates. So the list must
//! have the root and all intermediate certificates. A trusted certificate counts only within its validity, and only if
//! it may sign certificates.

use chronova_events::envelope::Timestamp;

use super::certificate::SigningCertificate;

/// A certificate that the request or the configuration trusts.
#[derive(Debug, Clone)]
pub(super) struct TrustedCertificate {
    pub id: String,
    pub certificate: SigningCertificate,
}

/// Verifies `subject` against the trusted certificates at the time `now`. The error is cursive's message.
pub(super) fn verify(
    subject: &SigningCertificate,
    trusted: &[TrustedCertificate],
    now: Timestamp,
) -> Result<(), String> {
    if !subject.is_valid_at(now) {
        return Err("The certificate is outside its valid date range.".to_owned());
    }
    let usable: Vec<&TrustedCertificate> =
        trusted.iter().filter(|one| one.certificate.is_valid_at(now) && one.certificate.can_sign()).collect();
    check_lengths(&links(subject, &usable)?)
}

/// The chain from the verified certificate's issuer up to the root.
fn links<'a>(
    subject: &SigningCertificate,
    usable: &[&'a TrustedCertificate],
) -> Result<Vec<&'a TrustedCertificate>, String> {
    let mut chain: Vec<&TrustedCertificate> = Vec::new();
    loop {
        let last = chain.last().map_or(subject, |one| &one.certificate);
        let issuer = usable.iter().find(|candidate| candidate.certificate.has_issued(last));
        let Some(issuer) = issuer else { return Err(no_issuer(chain.last().map(|one| one.id.as_str()))) };
        if issuer.certificate == *last {
            return Ok(chain);
        }
        // Certificates that sign each other in a circle have no root.
        if chain.iter().any(|one| one.certificate == issuer.certificate) {
            return Err(no_issuer(Some(&issuer.id)));
        }
        chain.push(issuer);
    }
}

fn no_issuer(of: Option<&str>) -> String {
    let whose = of.map_or("the base certificate".to_owned(), |id| format!("certificate '{id}'"));
    format!(
        "Certificate chain building failed. Could not locate the signing certificate for {whose} in the set of trusted \
         certificates."
    )
}

/// Checks that each certificate allows the number of certificates between it and the verified one. A certificate
/// without a bound allows any number, as RFC 5280 says. cursive fails for such a certificate.
fn check_lengths(chain: &[&TrustedCertificate]) -> Result<(), String> {
    for (below, one) in chain.iter().enumerate() {
        if one.certificate.longest_path().is_some_and(|most| most < below) {
            return Err(format!(
                "Certificate validation failed. The signing certificate '{}' is not configured to support certificate \
                 chains of sufficient length.",
                one.id
            ));
        }
    }
    Ok(())
}
