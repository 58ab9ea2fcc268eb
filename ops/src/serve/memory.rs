//! Gives freed memory back to the system while the server is idle.

use std::time::Duration;

const PERIOD: Duration = Duration::from_secs(1);

/// A block that mimalloc takes from its free ranges and returns to them at once. Smaller blocks come from pages that a
/// thread keeps.
const BLOCK: usize = 1 << 20;

/// mimalloc gives a range back a second after it was freed, but only when a thread takes or frees a large block. An idle
/// server does neither, so it would keep the seven megabytes of the last password hash.
pub(super) async fn give_back() {
    loop {
        tokio::time::sleep(PERIOD).await;
        drop(std::hint::black_box(Vec::<u8>::with_capacity(BLOCK)));
    }
}
