//! Requests to any operation of any service, in the form of the files in `tests/golden/fuzz/requests`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| chronova_tests::fuzz::requests::judge_kept(input));
