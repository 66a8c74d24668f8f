//! The first byte selects a reader (or sniffing), the rest is its file.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    tracecast_fuzz::bytes::read_any(bytes);
});
