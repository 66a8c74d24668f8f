//! Lucid's measurements (ASPLOS 2023): training jobs alone and in pairs on one RTX 3090, as its simulator has them in two CSV files.
//!
//! `colocate_info.csv` has a pair a line: `model1,dataset1,batchsize1,amp1,speed1`, the same with 2, and readings of the pair that are passed over. Speeds are shares of the speed alone. `single_data.csv` has the jobs alone:
//! `model,dataset,batchsize,amp`, utilisations in percent (`gpu_util`, `gmem_util`) and memory in MiB (`gmem`). `amp` is 1 where a job computes in mixed precision, and then counts as one of 16 bits. A model is a family.
//!
//! What the files do not say: 51 pairs of the published table hardly ran at the same time, as their memory is that of one job; the two models of reinforcement learning have a speed of 1 in every pair. All of that is read as it is.
//!
//! O(bytes). Worked example: `VGG,CIFAR-10,64,1` is the job type `VGG on CIFAR-10, mixed precision (batch size 64)`.

use super::table::{JobProfile, Quantity, SharedPair, SharingTable, Speeds};
use crate::error::Result;
use crate::sheet::{Sheet, SheetRow};

/// GPU type of Lucid's tables, which name none.
pub const LUCID_GPU: &str = "rtx3090";
/// Columns that tell a job alone.
pub(super) const JOB: [&str; 4] = ["model", "dataset", "batchsize", "amp"];

/// Facts in the name of a job type: its family and name, its batch size, and the bits of its
/// numbers.
pub(super) struct LucidJob {
    pub(super) family: String,
    pub(super) name: String,
    batch: f64,
    bits: f64,
}

impl LucidJob {
    /// The job of the columns whose names end so.
    ///
    /// # Errors
    /// If a cell is missing, or no number where it has to be one.
    pub(super) fn new(row: &SheetRow<'_>, end: &str) -> Result<Self> {
        let column = |name: &str| format!("{name}{end}");
        let (family, dataset) = (row.name(&column("model"))?, row.name(&column("dataset"))?);
        let amp = column("amp");
        let (mixed, bits) = match row.name(&amp)? {
            "0" => ("", 32.0),
            "1" => (", mixed precision", 16.0),
            other => {
                let problem = format!("column `{amp}` holds `{other}`");
                return Err(row.wrong(problem, "write 1 for mixed precision, else 0"));
            }
        };
        let batchsize = column("batchsize");
        let written = row.name(&batchsize)?;
        let batch = row.number(&batchsize)?.unwrap_or_default();
        let name = format!("{family} on {dataset}{mixed} (batch size {written})");
        Ok(Self { family: family.to_owned(), name, batch, bits })
    }

    /// Profile known without a measurement.
    pub(super) fn profile(&self) -> JobProfile {
        JobProfile::default().with(Quantity::Batch, self.batch).with(Quantity::PrecisionBits, self.bits)
    }
}

/// Whether a sheet holds Lucid's pairs.
pub(super) fn has_pairs(sheet: &Sheet<'_>) -> bool {
    sheet.has(&["model1", "dataset1", "batchsize1", "amp1", "speed1"])
        && sheet.has(&["model2", "dataset2", "batchsize2", "amp2", "speed2"])
}

/// Adds pairs to a table.
///
/// # Errors
/// If a cell is not what it should be; with its line.
pub(super) fn pairs(sheet: Sheet<'_>, table: &mut SharingTable) -> Result<()> {
    let gpu = table.gpu_type(LUCID_GPU);
    let mut result = Vec::new();
    sheet.rows(|row| {
        let mut place = |end: &str| -> Result<usize> {
            let job = LucidJob::new(row, end)?;
            let at = table.job_of_family(&job.name, &job.family);
            table.set_profile(gpu, at, &job.profile());
            Ok(at)
        };
        let (a, b) = (place("1")?, place("2")?);
        let speeds = Speeds::of(row, ["speed1", "speed2"])?;
        result.push(SharedPair { gpu, a, b, speeds });
        Ok(())
    })?;
    table.add_pairs(result);
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::read::sharing;
    use super::*;
    use crate::sheet::tests::file;

    /// The form of the published files; the numbers are made up.
    const PAIRS: &str = "\
        ,model1,dataset1,gpu_num1,batchsize1,amp1,speed1,model2,dataset2,gpu_num2,batchsize2,amp2,speed2,gpu_util,gmem_util,gmem\n\
        0,ShuffleNet,Food,1,32,0,0.9,UNet,Cells,1,16,1,0.8,64.0,29.0,5000\n\
        1,ShuffleNet,Food,1,32,0,0.7,ShuffleNet,Food,1,32,0,0.7,90.0,29.0,5000\n";
    const ALONE: &str = "model,dataset,batchsize,amp,speed,gpu_util,gmem_util,gmem,label\n\
        ShuffleNet,Food,32,0,900.5,57.5,20.0,2400.0,1\nUNet,Cells,16,1,300.0,34.0,11.0,2700.5,0\n";

    #[test]
    fn pairs_and_jobs_alone_are_joined() {
        let table = sharing(file(PAIRS).path(), Some(file(ALONE).path())).unwrap();
        let names = ["ShuffleNet on Food (batch size 32)", "UNet on Cells, mixed precision (batch size 16)"];
        assert_eq!((table.jobs(), table.gpu_types()), (&names.map(str::to_owned)[..], &["rtx3090".to_owned()][..]));
        assert_eq!(table.families(), ["ShuffleNet", "UNet"]);
        let speeds: Vec<Option<Speeds>> = table.pairs().iter().map(|pair| pair.speeds).collect();
        assert_eq!(speeds, [Some(Speeds { a: 0.7, b: 0.7 }), Some(Speeds { a: 0.9, b: 0.8 })]);
        let of = |job: usize| {
            [Quantity::SmUtilPct, Quantity::MemUtilPct, Quantity::MemoryMb, Quantity::Batch, Quantity::PrecisionBits]
                .map(|quantity| table.profile(0, job).get(quantity))
        };
        assert_eq!(of(0), [57.5, 20.0, 2400.0, 32.0, 32.0].map(Some));
        assert_eq!(of(1), [34.0, 11.0, 2700.5, 16.0, 16.0].map(Some));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let told = |text: &str| sharing(file(text).path(), None).unwrap_err().to_string();
        let line = |from: &str, to: &str| told(&PAIRS.replacen(from, to, 1));
        assert!(line("UNet,Cells,1,16,1", "UNet,Cells,1,16,2").contains("line 2: column `amp2` holds `2`; write 1"));
        assert!(line("Food,1,32,0,0.9", "Food,1,many,0,0.9").contains("line 2: column `batchsize1` holds `many`"));
        assert!(line("0,0.9", "0,90").contains("shares of the speed alone"));
        assert!(line("0,0.9", "0,").contains("line 2: one of the two speeds is empty"));
        assert!(line("UNet", "").contains("line 2: column `model2` is empty"));
    }
}
