//! Random ids and numbers, from the operating system or from a seeded generator. Keys and tokens do not come from here.
//!
//! A reproducible test gives its thread a seed. All random values that this module gives to that thread then derive
//! from the seed. A control plane never sets a seed; it uses the machine's randomness.

use std::cell::Cell;

use uuid::Uuid;

thread_local! {
    static SEEDED: Cell<Option<SplitMix>> = const { Cell::new(None) };
}

/// Makes all later random values of this thread derive from `seed`; `None` returns to the machine's randomness.
pub fn seed_this_thread(seed: Option<u64>) {
    SEEDED.set(seed.map(SplitMix::new));
}

/// A pseudo-random generator (SplitMix64). It is small and fast, and gives the same numbers on every machine. The
/// numbers are not secret.
#[derive(Debug, Clone, Copy)]
pub struct SplitMix(u64);

impl SplitMix {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

fn drawn() -> Option<u64> {
    let mut numbers = SEEDED.get()?;
    let number = numbers.draw();
    SEEDED.set(Some(numbers));
    Some(number)
}

/// A random (version 4) UUID.
pub fn uuid() -> Uuid {
    let (Some(high), Some(low)) = (drawn(), drawn()) else { return Uuid::new_v4() };
    let bytes = (u128::from(high) << 64 | u128::from(low)).to_be_bytes();
    uuid::Builder::from_random_bytes(bytes).into_uuid()
}

/// A random number; 0 if the machine has no randomness.
pub fn number() -> u64 {
    drawn().unwrap_or_else(|| getrandom::u64().unwrap_or(0))
}

/// Fills `bytes` with random bytes. Returns whether the machine has randomness.
pub fn fill(bytes: &mut [u8]) -> bool {
    if SEEDED.get().is_none() {
        return getrandom::fill(bytes).is_ok();
    }
    for chunk in bytes.chunks_mut(8) {
        chunk.copy_from_slice(&drawn().unwrap_or_default().to_le_bytes()[..chunk.len()]);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw() -> (Uuid, u64, [u8; 11]) {
        let mut bytes = [0; 11];
        assert!(fill(&mut bytes));
        (uuid(), number(), bytes)
    }

    #[test]
    fn a_seed_determines_all_random_values_of_its_thread() {
        seed_this_thread(Some(7));
        let first = (draw(), draw());
        seed_this_thread(Some(7));
        assert_eq!((draw(), draw()), first);
        assert_ne!(first.0, first.1);
        seed_this_thread(Some(8));
        assert_ne!(draw(), first.0);
        assert_eq!(uuid().get_version_num(), 4);
        seed_this_thread(None);
        assert_ne!(draw(), draw());
    }
}
