//! Spot price history of AWS (`aws ec2 describe-spot-price-history`, saved as JSON).
//!
//! `{"SpotPriceHistory":[{"AvailabilityZone","InstanceType","ProductDescription","SpotPrice","Timestamp"}],"NextToken"}`;
//! several pages may follow one another in a file. Prices are text, order varies, and files overlap: a (zone, type, time)
//! that comes again is counted and used once. A price is a step: it holds from its time until the next row of the same
//! zone and type, and AWS returns the row before the time asked for as the opening price, so the first row of a series
//! may be older than the rest. Only prices of plain Linux are used. A row of the ledger is one entry, its line the number
//! of the entry in the file.
//!
//! GPUs per instance are pinned here from AWS's instance type pages, as the history does not tell them. A 1-GPU type is
//! priced per instance like all others. O(entries log entries).

use serde_json::Value;

use super::super::document::{self, Around, Sink};
use super::super::field::{self, GIB, Moment};
use super::super::options::ReadOptions;
use super::super::read::SeenKeys;
use super::super::reader::{Confidence, Reader};
use super::super::source::{Head, SourceFile};
use crate::error::{Error, Result};
use crate::quality::{Ledger, Reason, RowAudit, reason};
use crate::schema::PriceRow;
use crate::time::Zone;
use crate::trace::Trace;

/// A price for another operating system.
const OTHER_PRODUCT: Reason = Reason {
    id: "other_product",
    what: "the price is not for plain Linux",
    remedy: "ask for --product-descriptions Linux/UNIX",
};

/// Instance family, GPU, memory of one GPU (GiB), and the sizes with their GPUs.
type Family = (&'static str, &'static str, f64, &'static [(&'static str, f64)]);

const ONE_TO_EIGHT: &[(&str, f64)] = &[
    ("xlarge", 1.0),
    ("2xlarge", 1.0),
    ("4xlarge", 1.0),
    ("8xlarge", 1.0),
    ("16xlarge", 1.0),
    ("12xlarge", 4.0),
    ("24xlarge", 4.0),
    ("48xlarge", 8.0),
];
static FAMILIES: &[Family] = &[
    ("p2", "K80", 12.0, &[("xlarge", 1.0), ("8xlarge", 8.0), ("16xlarge", 16.0)]),
    ("p3", "V100", 16.0, &[("2xlarge", 1.0), ("8xlarge", 4.0), ("16xlarge", 8.0)]),
    ("p3dn", "V100-32GB", 32.0, &[("24xlarge", 8.0)]),
    ("p4d", "A100", 40.0, &[("24xlarge", 8.0)]),
    ("p4de", "A100-80GB", 80.0, &[("24xlarge", 8.0)]),
    ("p5", "H100", 80.0, &[("48xlarge", 8.0)]),
    (
        "g4dn",
        "T4",
        16.0,
        &[
            ("xlarge", 1.0),
            ("2xlarge", 1.0),
            ("4xlarge", 1.0),
            ("8xlarge", 1.0),
            ("16xlarge", 1.0),
            ("12xlarge", 4.0),
            ("metal", 8.0),
        ],
    ),
    ("g5", "A10G", 24.0, ONE_TO_EIGHT),
    ("g6", "L4", 24.0, ONE_TO_EIGHT),
];

/// GPU model, GPUs and memory of one GPU (bytes) of an instance type.
fn gpus_of(instance: &str) -> Option<(&'static str, f64, f64)> {
    let (family, size) = instance.split_once('.')?;
    let (_, gpu, gib, sizes) = FAMILIES.iter().find(|(name, ..)| *name == family)?;
    let (_, gpus) = sizes.iter().find(|(name, _)| *name == size)?;
    Some((gpu, *gpus, gib * GIB))
}

/// See the module.
pub(crate) struct AwsSpot;

impl Reader for AwsSpot {
    fn id(&self) -> &'static str {
        "aws-spot"
    }

    fn describes(&self) -> &'static str {
        "AWS spot price history (describe-spot-price-history, JSON)"
    }

    fn sniff(&self, head: &Head) -> Confidence {
        if !head.text.trim_start().starts_with(['{', '[']) {
            return Confidence::No;
        }
        let has = |word: &str| head.text.contains(word);
        let entry = has("\"SpotPrice\"") && has("\"AvailabilityZone\"") && has("\"InstanceType\"");
        if has("\"SpotPriceHistory\"") || entry { Confidence::Sure } else { Confidence::No }
    }

    fn read(&self, files: &[SourceFile], options: &ReadOptions<'_>, trace: &mut Trace) -> Result<()> {
        let mut seen = SeenKeys::default();
        let mut steps: Vec<Step> = Vec::new();
        for file in files {
            let mut pages = Pages { file, number: 0, seen: &mut seen, steps: &mut steps, trace: &mut *trace };
            let remedy = "save the history again, as JSON";
            let whole = document::read(file, options, &["SpotPriceHistory"], "JSON", remedy, &mut pages)?;
            if whole == 0 && pages.number == 0 && trace.ledger.damage.iter().all(|damage| damage.file != file.name()) {
                return Err(Error::format(file.name(), "the file is empty", remedy));
            }
        }
        steps.sort_by(|a, b| (a.ts, &a.zone, &a.instance).cmp(&(b.ts, &b.zone, &b.instance)));
        for step in &steps {
            let gpus = gpus_of(&step.instance);
            trace.prices.push(PriceRow {
                provider: Some("aws".into()),
                zone: Some(step.zone.as_str().into()),
                instance: Some(step.instance.as_str().into()),
                gpu_type: gpus.map(|(gpu, ..)| gpu.into()),
                gpus: gpus.map(|(_, gpus, _)| gpus),
                gpu_mem_bytes: gpus.map(|(.., bytes)| bytes),
                ts: Some(step.ts),
                usd_per_h: step.usd_per_h,
                kind: Some("spot".into()),
            });
        }
        trace.note(
            "A spot price holds from its time until the next one of the same zone and instance type. Zone names are the \
             account's own: another account's `us-east-1a` may be another zone. A price says nothing of how often \
             instances are taken away.",
        );
        Ok(())
    }
}

/// The pages of one file.
struct Pages<'a> {
    file: &'a SourceFile,
    number: u64,
    seen: &'a mut SeenKeys,
    steps: &'a mut Vec<Step>,
    trace: &'a mut Trace,
}

impl Sink for Pages<'_> {
    fn element(&mut self, entry: Value) {
        self.number += 1;
        read_entry(self.file, self.number, &entry, self.seen, self.steps, self.trace);
    }

    fn document(&mut self, around: &Around) -> Result<()> {
        // `--query SpotPriceHistory` leaves the bare list.
        if around.rest.get("SpotPriceHistory").unwrap_or(&around.rest) == &Value::Bool(true) {
            return Ok(());
        }
        let result = "there is no SpotPriceHistory list";
        Err(Error::format(self.file.name(), result, "save the history again, as JSON"))
    }

    fn ledger(&mut self) -> &mut Ledger {
        &mut self.trace.ledger
    }
}

struct Step {
    ts: i64,
    zone: String,
    instance: String,
    usd_per_h: Option<f64>,
}

fn read_entry(
    file: &SourceFile,
    number: u64,
    entry: &Value,
    seen: &mut SeenKeys,
    steps: &mut Vec<Step>,
    trace: &mut Trace,
) {
    let mut row = RowAudit::new(file.name(), number);
    let word = |key: &str| field::text(entry.get(key).and_then(Value::as_str));
    let (Some(zone), Some(instance)) = (word("AvailabilityZone"), word("InstanceType")) else {
        trace.ledger.quarantine(&row, reason::NO_KEY, "AvailabilityZone", &entry.to_string());
        return;
    };
    let product = word("ProductDescription");
    if product.is_some_and(|product| product != "Linux/UNIX" && product != "Linux/UNIX (Amazon VPC)") {
        trace.ledger.quarantine(&row, OTHER_PRODUCT, "ProductDescription", &entry.to_string());
        return;
    }
    let Some(ts) = Moment::Local(&Zone::utc()).read(word("Timestamp"), "Timestamp", &mut row) else {
        trace.ledger.quarantine(&row, reason::NOT_A_TIME, "Timestamp", &entry.to_string());
        return;
    };
    if !seen.is_new(&format!("{zone}|{instance}|{ts}")) {
        trace.ledger.quarantine(&row, reason::DUPLICATE, "", &entry.to_string());
        return;
    }
    let text = match entry.get("SpotPrice") {
        Some(Value::String(text)) => Some(text.clone()),
        Some(Value::Null) | None => None,
        Some(other) => Some(other.to_string()),
    };
    let mut usd_per_h = field::amount(text.as_deref(), "SpotPrice", &mut row);
    if usd_per_h == Some(0.0) {
        row.repair(reason::OUT_OF_RANGE, "SpotPrice", "0");
        usd_per_h = None;
    }
    steps.push(Step { ts, zone: zone.to_owned(), instance: instance.to_owned(), usd_per_h });
    trace.ledger.keep(row);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_of_instance_types() {
        assert_eq!(gpus_of("p3.8xlarge"), Some(("V100", 4.0, 17_179_869_184.0)));
        assert_eq!(gpus_of("g5.48xlarge"), Some(("A10G", 8.0, 25_769_803_776.0)));
        assert_eq!(gpus_of("m5.large"), None);
        assert_eq!(gpus_of("p3"), None);
    }
}
