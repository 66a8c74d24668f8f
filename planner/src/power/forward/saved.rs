//! A power plan in a file, for a loop that asks it slot by slot.
//!
//! The file is a [model file](tracecast_predictors::model_file): one line of JSON with format, version, program and the window learned from, then
//! sections with sizes and SHA-256. It holds, of each pool, the rule with its parameters fitted on all days, the newest slots that the rule looks back
//! on, what was promised and until when, and the trees of a learned rule. Files of version 1 had trees of another form,
//! and are to be made again.
//!
//! O(slots kept) to read. Worked number: the plan of Philly's 420 nodes keeps the newest 15 days, 2,160 slots of ten minutes.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tracecast_analytics::time::DAY_MS;
use tracecast_predictors::demand::{Series, Slot, Unit};
use tracecast_predictors::model_file::Format;

use crate::error::{Error, Result};
use crate::power::rule::Setting;
use crate::power::score::boot::slots_booting;
use crate::power::score::service::Service;
use crate::power::study::promise::{Guard, guarded_by};
use tracecast_predictors::demand::reach::{Reach, horizons};

/// The file.
const FORMAT: Format = Format {
    name: "tracecast-power-plan",
    version: 2,
    oldest: 2,
    longest: 1 << 28,
    of: "power",
    command: "tracecast plan power --save",
};
/// Days of slots that are kept for rules to look back on: as far as any fact of a level does.
pub(in crate::power) const KEPT_DAYS: i64 = 15;
/// Days for which a service is promised, from the end of the data on.
pub const PERIOD_DAYS: i64 = 14;

/// The promised service.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SavedPromise {
    /// Limits of the service.
    pub service: Service,
    /// How it is kept.
    pub guard: Guard,
    /// Beginning of the promise, milliseconds since the epoch.
    pub from_ms: i64,
    /// End of the promise, milliseconds since the epoch.
    pub until_ms: i64,
}

/// The rule of one pool.
#[derive(Debug, Clone)]
pub struct SavedPool {
    /// The slots that the rule looks back on, in nodes.
    pub series: Series,
    /// The rule and its parameters.
    pub setting: Setting,
    /// Slots that a boot takes, such as 0.5.
    pub boot_slots: f64,
    /// Whether what waits is in the peaks, up to the nodes there are: the plan was made with `--pending`. `None` in a file that does not say.
    pub pending_in_peaks: Option<bool>,
    /// The promised service, if any.
    pub promise: Option<SavedPromise>,
    /// What whoever follows it must know, told with every decision.
    pub note: Option<String>,
    /// Chances of levels, fitted on all days; of nothing, for a rule that does not learn.
    pub reach: Arc<Reach>,
}

/// The window that a plan was learned from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Learned {
    /// Beginning of the window, milliseconds since the epoch.
    pub learned_from_ms: i64,
    /// End of the window, milliseconds since the epoch.
    pub learned_to_ms: i64,
}

/// A plan that can be asked.
#[derive(Debug, Clone)]
pub struct SavedPlan {
    /// Data that it was learned from.
    pub learned: Learned,
    /// Rules by pool.
    pub pools: Vec<SavedPool>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    name: String,
    zone: String,
    counts_pending: bool,
    start_ms: i64,
    slot_ms: i64,
    setting: Setting,
    boot_slots: f64,
    #[serde(default)]
    pending_in_peaks: Option<bool>,
    promise: Option<SavedPromise>,
    #[serde(default)]
    note: Option<String>,
    reach: Vec<(usize, usize)>,
    most: usize,
}

/// A slot in the file: peak, last, mean, pending, total, and whether it was counted.
type Row = (f64, f64, f64, f64, f64, bool);

impl SavedPool {
    /// Fits a rule on all slots of a series, which counts nodes, for the days after them.
    ///
    /// # Errors
    /// If a learner fails.
    pub fn fit(series: &Series, setting: Setting, service: Option<&Service>, boot_slots: f64) -> Result<Self> {
        let count = series.slots.len();
        // The rule is known by now, so nothing is learned that it does not ask for.
        let ahead = setting.asks(&horizons(series.slot_ms, slots_booting(boot_slots)));
        let reach = Reach::fit(series, 0..count, &ahead)?;
        let need: Vec<f64> = series.slots.iter().map(|slot| slot.peak.min(slot.total)).collect();
        let total: Vec<f64> = series.slots.iter().map(|slot| slot.total).collect();
        let from_ms = series.time_ms(count);
        let promise = service.map(|service| {
            let period = usize::try_from(PERIOD_DAYS * DAY_MS / series.slot_ms.max(1)).unwrap_or(1);
            let lengths = (guarded_by(&setting, series.slot_ms), boot_slots);
            let guard = Guard::learn((&need, &total), 0..count, lengths, period, series.slot_ms);
            SavedPromise { service: *service, guard, from_ms, until_ms: from_ms + PERIOD_DAYS * DAY_MS }
        });
        let kept = usize::try_from(KEPT_DAYS * DAY_MS / series.slot_ms.max(1)).unwrap_or(count);
        let dropped = count.saturating_sub(kept);
        let newest = Series {
            start_ms: series.time_ms(dropped),
            slots: series.slots.get(dropped..).unwrap_or_default().to_vec(),
            ..series.clone()
        };
        Ok(Self {
            series: newest,
            setting,
            boot_slots,
            pending_in_peaks: Some(false),
            promise,
            note: None,
            reach: Arc::new(reach),
        })
    }
}

impl SavedPlan {
    /// The file.
    ///
    /// # Errors
    /// If trees cannot be written.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let wrong = |what: String| Error::Power(format!("the plan cannot be written: {what}"));
        let mut entries = Vec::new();
        let mut parts = Vec::new();
        for (at, pool) in self.pools.iter().enumerate() {
            let series = &pool.series;
            entries.push(Entry {
                name: series.name.clone(),
                zone: series.zone.clone(),
                counts_pending: series.counts_pending,
                start_ms: series.start_ms,
                slot_ms: series.slot_ms,
                setting: pool.setting,
                boot_slots: pool.boot_slots,
                pending_in_peaks: pool.pending_in_peaks,
                promise: pool.promise,
                note: pool.note.clone(),
                reach: pool.reach.shape(),
                most: pool.reach.most(),
            });
            let row = |slot: &Slot| (slot.peak, slot.last, slot.mean, slot.pending, slot.total, slot.counted);
            let rows: Vec<Row> = series.slots.iter().map(row).collect();
            let rows = serde_json::to_vec(&rows).map_err(|error| wrong(error.to_string()))?;
            parts.push((format!("slots-{at}"), rows));
            for (place, bytes) in pool.reach.encoded().into_iter().enumerate() {
                parts.push((format!("chances-{at}-{place}"), bytes));
            }
        }
        let state = serde_json::to_vec(&entries).map_err(|error| wrong(error.to_string()))?;
        parts.insert(0, ("state".to_owned(), state));
        FORMAT.write(self.learned, parts).map_err(wrong)
    }

    /// The plan from the bytes of a file; `file` is what to call it in messages.
    ///
    /// # Errors
    /// If it is no such file, is damaged, or of a later version.
    pub fn from_bytes(file: &str, bytes: &[u8]) -> Result<Self> {
        let mut opened = FORMAT.open::<Learned>(file, bytes)?;
        let entries: Vec<Entry> = opened.take_json("state")?;
        let mut pools = Vec::new();
        for (at, entry) in entries.into_iter().enumerate() {
            let rows: Vec<Row> = opened.take_json(&format!("slots-{at}"))?;
            let slot = |(peak, last, mean, pending, total, counted)| Slot { peak, last, mean, pending, total, counted };
            let count: usize = entry.reach.iter().map(|(_, classifiers)| classifiers).sum();
            let mut encoded = Vec::new();
            for place in 0..count {
                encoded.push(opened.take(&format!("chances-{at}-{place}"))?);
            }
            let damaged = |what: String| Error::from(opened.refusal.damaged(what));
            pools.push(SavedPool {
                series: Series {
                    name: entry.name,
                    unit: Unit::Nodes,
                    counts_pending: entry.counts_pending,
                    start_ms: entry.start_ms,
                    slot_ms: entry.slot_ms.max(1),
                    zone: entry.zone,
                    slots: rows.into_iter().map(slot).collect(),
                },
                setting: entry.setting,
                boot_slots: entry.boot_slots,
                pending_in_peaks: entry.pending_in_peaks,
                promise: entry.promise,
                note: entry.note,
                reach: Arc::new(Reach::decoded(&entry.reach, &encoded, entry.most).map_err(damaged)?),
            });
        }
        Ok(Self { learned: opened.fields, pools })
    }
}
