//! Reads files into a [`Trace`](crate::Trace): opening, sniffing, parsing, and an account of every
//! row.
//!
//! A format is one file here that implements [`Reader`], plus one line in the registry below and fixtures. Readers differ only
//! in parsing: opening, decompression, line ends, null spellings and bookkeeping are shared.
//!
//! Complexity: one pass over each file, O(bytes), plus a sort of the jobs by submit time.

mod acme;
mod alibaba_spot;
mod batch;
mod clustercockpit;
mod delimited;
mod document;
mod expand;
pub(crate) mod field;
mod helios;
mod helios_activity;
mod kubernetes;
mod line_end;
mod live;
mod mapping;
mod market;
mod misspelt;
mod openb;
mod options;
mod pai;
mod philly;
mod pipe;
mod plain_json;
mod progress;
mod read;
mod reader;
mod short_lines;
pub mod slurm;
mod source;
mod supercloud;
mod swf;
mod telemetry;
mod unit;
mod utf16;

pub use delimited::{Delimited, Record};
pub use expand::expand;
pub use field::Moment;
pub use kubernetes::quantity;
pub use misspelt::misspelt;
pub use options::{MOST_EXPANSION, ReadOptions, SourceMapping, SourceMetric};
pub use progress::{Observer, Progress};
pub use read::{
    MAPPING_FILE, METRICS_FILE, SeenKeys, check_job, check_strict, check_usable, no_rows, read, readers, sniff,
};
pub use reader::{Clock, Confidence, Reader};
pub use short_lines::ShortLines;
pub use source::{Head, Lines, Passed, SourceFile, TableHeaders, sha256};

/// Every reader, in the order they are asked; among equal confidences the first wins.
#[rustfmt::skip]
static READERS: &[&dyn Reader] = &[
    &acme::Acme,
    &philly::PhillyJoined,
    &openb::Openb,
    &alibaba_spot::AlibabaSpot,
    &helios::Helios,
    &helios_activity::HeliosActivity,
    &philly::Philly,
    &philly::PhillyNodes,
    &supercloud::Supercloud,
    &telemetry::Dcgm,
    &telemetry::Prometheus,
    &telemetry::NvidiaSmi,
    &telemetry::NvidiaSmiQ,
    &telemetry::NvidiaSmiXml,
    &telemetry::RocmSmi,
    &telemetry::AmdSmi,
    &telemetry::Redfish,
    &telemetry::Ipmi,
    &telemetry::Sonar,
    &market::SkyCatalog,
    &market::CloudGpus,
    &market::AwsSpot,
    &market::AzureSpot,
    &market::ElectricityMaps,
    &market::SkyTrace,
    &market::SpotLog,
    &slurm::SacctText,
    &slurm::SacctJson,
    &batch::Pbs,
    &batch::Lsf,
    &batch::Sge,
    &batch::SgeJson,
    &batch::Flux,
    &batch::HtCondor,
    &clustercockpit::ClusterCockpit,
    &kubernetes::Kubernetes,
    &swf::Swf,
    &pai::Pai,
    &mapping::MappingReader,
];

/// Checks the table of metrics in a file.
///
/// # Errors
/// If it is wrong, or cannot be read.
fn check_metrics(path: &std::path::Path) -> crate::error::Result<()> {
    telemetry::check_table(path)
}
