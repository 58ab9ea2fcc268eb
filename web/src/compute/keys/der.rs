//! Writes and reads the parts of DER (ITU-T X.690) that a certificate and a PKCS#12 file need.

pub(super) const NULL: [u8; 2] = [5, 0];

pub(super) fn tagged(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    let length = content.len().to_be_bytes();
    let significant = &length[length.iter().position(|byte| *byte != 0).unwrap_or(length.len())..];
    match significant {
        [] => out.push(0),
        [short] if *short < 0x80 => out.push(*short),
        long => {
            // The length has at most eight bytes, so one byte holds their number.
            out.push(0x80 | long.len().to_le_bytes()[0]);
            out.extend_from_slice(long);
        }
    }
    out.extend_from_slice(content);
    out
}

pub(super) fn sequence(parts: &[&[u8]]) -> Vec<u8> {
    tagged(0x30, &parts.concat())
}

pub(super) fn set(parts: &[&[u8]]) -> Vec<u8> {
    tagged(0x31, &parts.concat())
}

/// Encodes a number that is not negative. Its most significant byte comes first.
pub(super) fn integer(bytes: &[u8]) -> Vec<u8> {
    let from = bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len().saturating_sub(1));
    let digits = &bytes[from..];
    match digits.first() {
        Some(first) if *first < 0x80 => tagged(2, digits),
        _ => tagged(2, &[&[0], digits].concat()),
    }
}

pub(super) fn octets(content: &[u8]) -> Vec<u8> {
    tagged(4, content)
}

/// Encodes a bit string of whole bytes.
pub(super) fn bits(content: &[u8]) -> Vec<u8> {
    tagged(3, &[&[0], content].concat())
}

pub(super) fn utf8(text: &str) -> Vec<u8> {
    tagged(12, text.as_bytes())
}

/// Encodes `[number] EXPLICIT`.
pub(super) fn context(number: u8, content: &[u8]) -> Vec<u8> {
    tagged(0xA0 | number, content)
}

pub(super) fn oid(arcs: &[u64]) -> Vec<u8> {
    let mut out = Vec::new();
    let (first, rest) = arcs.split_at(arcs.len().min(2));
    let head = first.first().copied().unwrap_or(0) * 40 + first.get(1).copied().unwrap_or(0);
    for arc in std::iter::once(&head).chain(rest) {
        let mut groups = vec![(arc & 0x7F).to_le_bytes()[0]];
        let mut left = arc >> 7;
        while left > 0 {
            groups.push(0x80 | (left & 0x7F).to_le_bytes()[0]);
            left >>= 7;
        }
        groups.reverse();
        out.extend(groups);
    }
    tagged(6, &out)
}

/// The content of the first element of `bytes` if it has this tag, and the bytes after the element.
pub(super) fn read(tag: u8, bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (found, rest) = bytes.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = if *first < 0x80 {
        (usize::from(*first), rest)
    } else {
        let count = usize::from(first & 0x7F);
        if count == 0 || count > 4 {
            return None;
        }
        let (digits, rest) = rest.split_at_checked(count)?;
        (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
    };
    let (content, rest) = rest.split_at_checked(length)?;
    (*found == tag).then_some((content, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_written_as_x690_says() {
        assert_eq!(tagged(4, &[]), [4, 0]);
        assert_eq!(tagged(4, &[7; 200])[..3], [4, 0x81, 200]);
        assert_eq!(tagged(4, &[7; 300])[..4], [4, 0x82, 1, 44]);
        assert_eq!(integer(&[0, 0x80]), [2, 2, 0, 0x80]);
        assert_eq!(integer(&[0, 0, 5]), [2, 1, 5]);
        assert_eq!(oid(&[1, 2, 840, 113_549]), [6, 6, 0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D]);
        let nested = sequence(&[&integer(&[1]), &octets(&[9; 200])]);
        let (content, rest) = read(0x30, &nested).unwrap_or_default();
        assert!(rest.is_empty() && read(2, content).is_some());
        assert_eq!(read(0x30, &nested[..50]), None, "cut off");
    }
}
