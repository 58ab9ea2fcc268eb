//! Properties of the images that are made of servers.

use chronova_events::instance::Pairs;

/// What images made of servers do not take over from the image that the server was made from: Nova's
/// `non_inheritable_image_properties`, and what says how an image is signed.
pub(super) const NOT_INHERITED: [&str; 6] = [
    "cache_in_nova",
    "bittorrent",
    "img_signature_hash_method",
    "img_signature",
    "img_signature_key_type",
    "img_signature_certificate_uuid",
];

pub(super) fn set(pairs: &mut Pairs, key: &str, value: &str) {
    match pairs.iter_mut().find(|(known, _)| known == key) {
        Some((_, known)) => value.clone_into(known),
        None => pairs.push((key.to_owned(), value.to_owned())),
    }
}
