//! Mutations of texts and other bytes.

use super::Random;

/// The longest generated input, in bytes.
const LONGEST: usize = 1 << 16;
const NUMBERS: [&str; 14] = [
    "0",
    "-1",
    "1",
    "127",
    "256",
    "65535",
    "65536",
    "2147483648",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551616",
    "1e999",
    "NaN",
];

/// Returns one of `from` with a few changes. `words` are tokens that the parser under test knows.
pub fn changed(random: &mut Random, from: &[Vec<u8>], words: &[&str]) -> Vec<u8> {
    let mut bytes = match from.is_empty() {
        true => Vec::new(),
        false => from[random.below(from.len())].clone(),
    };
    for _ in 0..=random.below(6) {
        change(random, &mut bytes, from, words);
    }
    bytes.truncate(LONGEST);
    bytes
}

fn change(random: &mut Random, bytes: &mut Vec<u8>, from: &[Vec<u8>], words: &[&str]) {
    let at = random.below(bytes.len() + 1);
    let end = at + random.below((bytes.len() - at).min(64) + 1);
    match random.below(12) {
        0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
        1 if at < bytes.len() => bytes[at] = random.number().to_le_bytes()[0],
        2 => drop(bytes.drain(at..end)),
        3 => {
            let piece = bytes[at..end].to_vec();
            insert(bytes, at, &piece);
        }
        // Repetitions: depth and length.
        4 => {
            let piece = match random.chance(50) && !words.is_empty() {
                true => random.pick(words).as_bytes().to_vec(),
                false => bytes[at..end].to_vec(),
            };
            let times = [2, 10, 200, 5_000][random.below(4)];
            insert(bytes, at, &piece.repeat(times.min(LONGEST / piece.len().max(1))));
        }
        5 if !from.is_empty() => {
            let other = &from[random.below(from.len())];
            let begin = random.below(other.len() + 1);
            let length = random.below(other.len() - begin + 1);
            insert(bytes, at, &other[begin..begin + length]);
        }
        6 => number(random, bytes),
        7 => {
            insert(bytes, at, random.pick(&["\u{0}", "\u{feff}", "ß", "\u{202e}", "🦀", "\r\n", "\t", " "]).as_bytes());
        }
        8 => bytes.truncate(at),
        9 => insert(bytes, at, &[0xff, 0xc3, 0x28][..=random.below(3)]),
        _ if !words.is_empty() => {
            let word = random.pick(words).as_bytes().to_vec();
            if random.chance(50) {
                bytes.drain(at..end);
            }
            insert(bytes, at, &word);
        }
        _ => {}
    }
}

fn insert(bytes: &mut Vec<u8>, at: usize, piece: &[u8]) {
    if bytes.len() + piece.len() <= LONGEST {
        bytes.splice(at..at, piece.iter().copied());
    }
}

/// Replaces a number by another one.
fn number(random: &mut Random, bytes: &mut Vec<u8>) {
    let digits: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at].is_ascii_digit()).collect();
    let Some(&begin) = digits.get(random.below(digits.len().max(1))) else { return };
    let length = bytes[begin..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let new = random.pick(&NUMBERS).as_bytes().to_vec();
    bytes.splice(begin..begin + length, new);
}
