//! Replaces parts of a definition. The rest stays byte for byte as libvirt wrote it.

use std::ops::Range;

/// The text with each range replaced. The ranges do not overlap.
pub(super) fn splice(xml: &str, mut cuts: Vec<(Range<usize>, String)>) -> String {
    cuts.sort_by_key(|(range, _)| (range.start, range.end));
    let (mut out, mut at) = (String::with_capacity(xml.len() + 512), 0);
    for (range, text) in cuts {
        out.push_str(&xml[at..range.start]);
        out.push_str(&text);
        at = range.end;
    }
    out.push_str(&xml[at..]);
    out
}
