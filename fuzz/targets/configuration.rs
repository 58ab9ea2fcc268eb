//! Configuration files.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| (chronova_tests::fuzz::targets::CONFIGURATION.judge)(input));
