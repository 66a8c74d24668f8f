//! One record batch as the bytes of a file of its own: Parquet (zstd) or Arrow IPC.
//!
//! No clock time and no machine name: the same rows give the same bytes.

use arrow::array::RecordBatch;
use arrow::ipc::writer::FileWriter;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

use crate::error::{Error, Result};

/// `batch` as a Parquet file; `name` is what an error calls it.
///
/// # Errors
/// When Parquet has no form for a column.
pub fn parquet(name: &str, batch: &RecordBatch) -> Result<Vec<u8>> {
    let failed = |source| Error::Parquet { action: "write", path: name.into(), source };
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_created_by(format!("tracecast {}", env!("CARGO_PKG_VERSION")))
        .build();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).map_err(failed)?;
    writer.write(batch).map_err(failed)?;
    writer.into_inner().map_err(failed)
}

/// `batch` as an Arrow IPC file; `name` is what an error calls it.
///
/// # Errors
/// When the writer fails.
pub fn arrow_ipc(name: &'static str, batch: &RecordBatch) -> Result<Vec<u8>> {
    let failed = |source| Error::Arrow { table: name, source };
    let mut writer = FileWriter::try_new(Vec::new(), &batch.schema()).map_err(failed)?;
    writer.write(batch).map_err(failed)?;
    writer.finish().map_err(failed)?;
    writer.into_inner().map_err(failed)
}
