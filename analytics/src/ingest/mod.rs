//! From files to a [`Trace`]: opening, sniffing, parsing, and an account of every row.
//!
//! A format is one file here that implements [`Reader`], plus one line in [`READERS`] and fixtures. Readers differ only
//! in parsing: opening, decompression, line ends, null spellings and bookkeeping are shared.
//!
//! Complexity: one pass over each file, O(bytes), plus a sort of the jobs by submit time.

mod delimited;
pub(crate) mod field;
mod read;
mod reader;
pub mod slurm;
mod source;
mod swf;

pub use delimited::{Delimited, Record};
pub use field::Moment;
pub use read::{Observer, Progress, ReadOptions, Seen, check_job, read, readers, sniff};
pub use reader::{Confidence, Head, Reader};
pub use source::{Lines, SourceFile, expand};

/// Every reader, in the order they are asked; among equal confidences the first wins.
pub static READERS: &[&dyn Reader] = &[&slurm::SacctText, &slurm::SacctJson, &swf::Swf];
