//! User data and names on their way to a config drive.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| (chronova_tests::fuzz::targets::USER_DATA.judge)(input));
