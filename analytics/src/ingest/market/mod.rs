//! Market data from outside a cluster: instance prices, spot availability, carbon intensity of the
//! grid.

mod aws_spot;
mod azure_spot;
mod cloud_gpus;
mod electricity_maps;
mod sky_catalog;
mod sky_trace;
mod spot_log;

pub(super) use aws_spot::AwsSpot;
pub(super) use azure_spot::AzureSpot;
pub(super) use cloud_gpus::CloudGpus;
pub(super) use electricity_maps::ElectricityMaps;
pub(super) use sky_catalog::SkyCatalog;
pub(super) use sky_trace::SkyTrace;
pub(super) use spot_log::SpotLog;
