//! SkyPilot's catalog of instances and list prices (`catalogs/<version>/<cloud>/vms.csv`).
//!
//! `Price` and `SpotPrice` are US dollars per hour of the **instance**; blank means that it is not offered so, as does
//! the 0 that some marketplaces write. Column order and presence differ by cloud. `GpuInfo` is a Python literal with
//! single quotes; of it only `SizeInMiB` is used, the memory of one GPU, which some clouds give in GiB: no GPU has less
//! than 1 GiB, so a smaller number is taken as GiB. The cloud is not in the file: it is the name of the folder that holds
//! it, else the beginning of the file's name, where either is a cloud that SkyPilot knows, else unknown.
//!
//! A row without `InstanceType` prices the accelerator alone, to which a host is to be rented: its prices are of the kinds
//! `accelerator` and `accelerator_spot`.
//!
//! Worked number: `SizeInMiB: 16384` is 17,179,869,184 bytes, and `SizeInMiB: 24` is 24 GiB = 25,769,803,776 bytes.
//! O(bytes).

use std::path::Path;

use super::super::delimited::{Delimited, Record};
use super::super::options::ReadOptions;
use super::super::read::SeenKeys;
use super::super::reader::Reader;
use super::super::source::{SourceFile, TableHeaders};
use crate::error::Result;
use crate::quality::{Reason, RowAudit, reason};
use crate::schema::PriceRow;
use crate::trace::Trace;

/// Clouds that SkyPilot has a catalog of.
const CLOUDS: [&str; 24] = [
    "aws",
    "azure",
    "cudo",
    "do",
    "fluidstack",
    "gcp",
    "hyperbolic",
    "ibm",
    "lambda",
    "mithril",
    "nebius",
    "novita",
    "oci",
    "paperspace",
    "primeintellect",
    "runpod",
    "scp",
    "seeweb",
    "shadeform",
    "slurm",
    "ssh",
    "vast",
    "verda",
    "vsphere",
];
/// Less memory than any GPU has, MiB: the number must be in GiB.
const LEAST_MIB: f64 = 1024.0;

/// A price of zero.
const NOT_OFFERED: Reason = Reason {
    id: "zero_price",
    what: "a price is zero, which the catalog's source writes for what it does not offer; it is set to unknown",
    remedy: "nothing to do, unless the instance is really free",
};
/// A GPU memory size in GiB in a field for MiB.
const GIB_AS_MIB: Reason = Reason {
    id: "gib_as_mib",
    what: "the GPU memory is given in GiB in a field for MiB; it is taken as GiB",
    remedy: "check GpuInfo in the catalog",
};
/// A row without any price.
const NO_PRICE: Reason = Reason {
    id: "no_price",
    what: "the instance has neither an on-demand nor a spot price there",
    remedy: "nothing to do: it is not offered in that region",
};

/// See the module.
pub(crate) struct SkyCatalog;

impl Reader for SkyCatalog {
    fn id(&self) -> &'static str {
        "sky-catalog"
    }

    fn describes(&self) -> &'static str {
        "SkyPilot catalog of instances and prices (vms.csv)"
    }

    fn columns(&self) -> TableHeaders {
        &[(',', &["instancetype", "acceleratorname", "acceleratorcount", "price", "region"])]
    }

    fn read(&self, files: &[SourceFile], options: &ReadOptions<'_>, trace: &mut Trace) -> Result<()> {
        let mut seen = SeenKeys::default();
        for file in files {
            read_file(file, options, &mut seen, trace)?;
        }
        Ok(())
    }
}

fn read_file(file: &SourceFile, options: &ReadOptions<'_>, seen: &mut SeenKeys, trace: &mut Trace) -> Result<()> {
    let provider = provider(file.path());
    if provider.is_none() {
        trace.note(format!(
            "{} lies in no folder named after a cloud, so the provider of its prices is unknown.",
            file.name()
        ));
    }
    let mut table = Delimited::open(file, b',', options.observer)?;
    let region = Some(table.require("region")?);
    let list_price = Some(table.require("price")?);
    let (instance, gpu, gpus) =
        (table.column("instancetype"), table.column("acceleratorname"), table.column("acceleratorcount"));
    let (info, spot_price, zone) =
        (table.column("gpuinfo"), table.column("spotprice"), table.column("availabilityzone"));
    let (mut same, mut bare) = (0_u64, 0_u64);
    while let Some(mut record) = table.next_row(&mut trace.ledger) {
        let raw = record.raw();
        if !seen.is_new(&format!("{}|{raw}", provider.as_deref().unwrap_or(""))) {
            trace.ledger.quarantine(&record.audit, reason::DUPLICATE, "", raw);
            continue;
        }
        let row = PriceRow {
            provider: provider.as_deref().map(Into::into),
            zone: record.text(zone).or(record.text(region)).map(Into::into),
            instance: record.text(instance).map(Into::into),
            gpu_type: record.text(gpu).map(Into::into),
            gpus: record.amount(gpus, "AcceleratorCount"),
            gpu_mem_bytes: record.field(info).and_then(|info| gpu_mem_bytes(info, &mut record.audit)),
            ..PriceRow::default()
        };
        if row.instance.is_none() && row.gpu_type.is_none() {
            trace.ledger.quarantine(&record.audit, reason::NO_KEY, "InstanceType", raw);
            continue;
        }
        let ondemand = price(&mut record, list_price, "Price");
        let spot = price(&mut record, spot_price, "SpotPrice");
        if ondemand.is_none() && spot.is_none() {
            trace.ledger.quarantine(&record.audit, NO_PRICE, "Price", raw);
            continue;
        }
        same += u64::from(ondemand.is_some() && ondemand == spot);
        let is_bare = row.instance.is_none();
        bare += u64::from(is_bare);
        let kinds = if is_bare { ["accelerator", "accelerator_spot"] } else { ["ondemand", "spot"] };
        for (usd_per_h, kind) in [ondemand, spot].into_iter().zip(kinds) {
            if usd_per_h.is_some() {
                trace.prices.push(PriceRow { usd_per_h, kind: Some(kind.into()), ..row.clone() });
            }
        }
        trace.ledger.keep(record.audit);
    }
    table.finish(&mut trace.ledger);
    if same > 0 {
        trace.note(format!("{}: {same} rows have a spot price equal to the on-demand price.", file.name()));
    }
    if bare > 0 {
        trace.note(format!(
            "{}: {bare} rows name no instance type: they price the accelerator alone, to which the host's price is to be \
             added.",
            file.name()
        ));
    }
    Ok(())
}

/// A price, US dollars per hour; zero is unknown and counted.
fn price(record: &mut Record<'_>, column: Option<usize>, name: &str) -> Option<f64> {
    let price = record.amount(column, name)?;
    if price == 0.0 {
        let text = record.field(column).unwrap_or_default();
        record.audit.repair(NOT_OFFERED, name, text);
        return None;
    }
    Some(price)
}

/// The cloud whose catalog the file is, by its folder or the beginning of its name.
fn provider(path: &Path) -> Option<String> {
    let known =
        |name: &str| CLOUDS.iter().find(|cloud| name.eq_ignore_ascii_case(cloud)).map(|cloud| (*cloud).to_owned());
    let folder = path.parent().and_then(Path::file_name).and_then(|name| known(&name.to_string_lossy()));
    folder.or_else(|| {
        let name = path.file_name()?.to_string_lossy().into_owned();
        known(name.split(['-', '_', '.']).next()?)
    })
}

/// Memory of one GPU as `GpuInfo` gives it, bytes. What is not in the form of a Python or JSON dictionary tells nothing.
fn gpu_mem_bytes(info: &str, row: &mut RowAudit<'_>) -> Option<f64> {
    let (_, after) = info.split_once("SizeInMiB")?;
    let number: String = after
        .trim_start_matches(['\'', '"', ':', ' '])
        .chars()
        .take_while(|c| c.is_ascii_digit() || *c == '.')
        .collect();
    let size: f64 = number.parse().ok().filter(|size: &f64| size.is_finite() && *size > 0.0)?;
    let mib = if size < LEAST_MIB {
        row.repair(GIB_AS_MIB, "GpuInfo", &number);
        size * 1024.0
    } else {
        size
    };
    Some(mib * 1_048_576.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpu_memory_is_per_gpu_and_gib_are_recognised() {
        let mut row = RowAudit::new("f", 1);
        let info = "{'Gpus': [{'Name': 'V100', 'Count': 8.0, 'MemoryInfo': {'SizeInMiB': 16384}}], 'TotalGpuMemoryInMiB': 131072}";
        assert_eq!(gpu_mem_bytes(info, &mut row), Some(17_179_869_184.0));
        assert_eq!(gpu_mem_bytes("{'MemoryInfo': {'SizeInMiB': 24}}", &mut row), Some(25_769_803_776.0));
        assert_eq!(gpu_mem_bytes("{\"SizeInMiB\": \"81920\"}", &mut row), Some(85_899_345_920.0));
        for nothing in ["", "V100", "{'SizeInMiB': None}", "SizeInMiB", "{'SizeInMiB': 0}"] {
            assert_eq!(gpu_mem_bytes(nothing, &mut row), None, "{nothing}");
        }
    }

    #[test]
    fn the_cloud_comes_from_folder_or_name() {
        assert_eq!(provider(Path::new("catalogs/v8/RunPod/vms.csv")).as_deref(), Some("runpod"));
        assert_eq!(provider(Path::new("x/lambda_vms.csv")).as_deref(), Some("lambda"));
        assert_eq!(provider(Path::new("x/vms.csv")), None);
    }
}
