//! Requests to any operation of any service, as `tests/golden/fuzz/requests` has them.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| chronova_tests::fuzz::requests::judge_kept(input));
