//! Code shared by the fuzz targets: the macro that makes one of them.

pub use libfuzzer_sys;
pub use tracecast_tests::bytes;

/// A target that gives its input to one reader as if it were a file of that format.
#[macro_export]
macro_rules! target {
    ($reader:literal) => {
        $crate::libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
            $crate::bytes::read_bytes(Some($reader), bytes);
        });
    };
}
