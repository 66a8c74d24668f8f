//! Published power of GPU models: the most a board is built for, and what it draws when idle. Each figure names where and when it was
//! published or read, or is marked as assumed.
//!
//! A name is brought to its model, form and memory: vendors, series and memory types go (`NVIDIA`, `Tesla`, `HBM3`), letters become small,
//! and what is left has to be the model's name **and nothing else**: `A10G` is not `A10`, `GH200` is not `H200`, and a name that the table
//! does not hold is unknown. A name without its form is rated as the hottest form, so that the upper bound holds.
//!
//! O(models) for a name. Worked numbers: `NVIDIA A100-SXM4-80GB` is the A100, form SXM4, 80 GB: 400 W. `NVIDIA A100X` is unknown.

/// Source of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A publication, and its date or the day on which it was read.
    Published(&'static str, &'static str),
    /// Recalled or taken over from a like model, without a publication at hand.
    Assumed(&'static str),
}

impl Source {
    /// Source in words, with the date.
    #[must_use]
    pub fn words(self) -> String {
        match self {
            Self::Published(what, date) => format!("{what}, {date}"),
            Self::Assumed(why) => format!("assumed: {why}"),
        }
    }

    /// Whether the figure is only an assumption.
    #[must_use]
    pub fn is_assumed(self) -> bool {
        matches!(self, Self::Assumed(_))
    }
}

/// Power of a GPU model without telemetry.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rating {
    /// The model's name, small letters and digits.
    pub model: &'static str,
    /// Forms it stands for; an empty one stands for a name without a form.
    pub forms: &'static [&'static str],
    /// Memory it stands for, GB; any if not stated.
    pub gb: Option<u32>,
    /// Thermal design power (highest sustained board power), watts.
    pub tdp_w: f64,
    /// Source of the TDP.
    pub tdp_source: Source,
    /// Power when idle, watts, and where that is from.
    pub idle: Option<(f64, Source)>,
}

const READ: &str = "read 2026-11-21";
const RECALLED: Source = Source::Assumed("recalled, not checked against a data sheet");
/// Forms of a model that is only sold as a card.
const CARD: &[&str] = &["", "pcie"];
/// Idle power of the A100 SXM4. The lowest quarter of the published distribution lies between 57 and 66 W.
const ACME: Option<(f64, Source)> = Some((
    60.0,
    Source::Published(
        "github.com/InternLM/AcmeTrace, distribution of GPU power of Seren and Kalos (Hu et al., NSDI 2024)",
        "2024",
    ),
));
const LIKE_ACME: Option<(f64, Source)> = Some((60.0, Source::Assumed("as A100 SXM4")));

const fn rating(model: &'static str, forms: &'static [&'static str], tdp_w: f64, tdp_source: Source) -> Rating {
    Rating { model, forms, gb: None, tdp_w, tdp_source, idle: None }
}

const fn idling(rating: Rating, idle: Option<(f64, Source)>) -> Rating {
    Rating { idle, ..rating }
}

/// Table of models; the first that fits a name is taken.
pub const RATINGS: &[Rating] = &[
    rating(
        "gb300",
        &[""],
        1_400.0,
        Source::Published(
            "default and maximum power limit, github.com/facebookexperimental/triton/pull/2023",
            "2026-07-14",
        ),
    ),
    rating(
        "gb200",
        &[""],
        1_200.0,
        Source::Published("rated power, github.com/facebookexperimental/triton/pull/2023", "2026-07-14"),
    ),
    rating("b200", &["", "sxm", "sxm6"], 1_000.0, RECALLED),
    rating("gh200", &[""], 1_000.0, Source::Assumed("recalled, of CPU, GPU and memory together")),
    rating("h200", &["", "sxm", "sxm5"], 700.0, Source::Published("huggingface.co/hardware/h200", READ)),
    rating("h200", &["nvl"], 600.0, RECALLED),
    rating("h20", &["", "sxm", "sxm5"], 400.0, Source::Published("huggingface.co/hardware/h20", READ)),
    rating(
        "h100",
        &["pcie"],
        350.0,
        Source::Published("NVIDIA H100 PCIe GPU product brief PB-11133-001_v02", "November 2022"),
    ),
    rating(
        "h100",
        &["nvl"],
        400.0,
        Source::Published("gpu.blog/gpus/nvidia-h100-nvl (350 to 400 W, configurable)", READ),
    ),
    rating(
        "h100",
        &["", "sxm", "sxm5"],
        700.0,
        Source::Published("hawkvelt.id.au/post/2024-08-04-nvidia-h100 (SXM5)", "2024-08-04"),
    ),
    rating("h800", &["pcie"], 350.0, Source::Assumed("as H100 PCIe")),
    rating("h800", &["", "sxm", "sxm5"], 700.0, Source::Assumed("as H100 SXM5")),
    Rating {
        gb: Some(40),
        ..idling(
            rating(
                "a100",
                &["pcie"],
                250.0,
                Source::Published("thundercompute.com/blog/nvidia-a100-specs-full-guide (PCIe, 40 GB)", READ),
            ),
            LIKE_ACME,
        )
    },
    idling(
        rating(
            "a100",
            &["pcie"],
            300.0,
            Source::Published("thundercompute.com/blog/nvidia-a100-specs-full-guide (PCIe)", READ),
        ),
        LIKE_ACME,
    ),
    idling(
        rating(
            "a100",
            &["", "sxm", "sxm4"],
            400.0,
            Source::Published("techpowerup.com/gpu-specs/a100-sxm4-40-gb.c3506", READ),
        ),
        ACME,
    ),
    rating("a800", &["pcie"], 300.0, Source::Assumed("as A100 PCIe")),
    idling(rating("a800", &["", "sxm", "sxm4"], 400.0, Source::Assumed("as A100 SXM4")), LIKE_ACME),
    rating("a40", CARD, 300.0, Source::Published("hmc-tech.com/gpu/nvidia-l40-vs-nvidia-a40", READ)),
    rating("a30", CARD, 165.0, Source::Published("sysrqmts.com, NVIDIA A30 PCIe", READ)),
    rating("a16", CARD, 250.0, Source::Assumed("recalled, of the board with four GPUs")),
    rating("a10", CARD, 150.0, Source::Published("zestb.com/101846.html (T4 and A10)", READ)),
    rating("a10g", CARD, 300.0, Source::Assumed("recalled: cards of AWS g5 report a power limit of 300 W")),
    rating("l40s", CARD, 350.0, Source::Published("mullet.se, product 355414 (L40, L40S)", READ)),
    rating("l40", CARD, 300.0, Source::Published("mullet.se, product 355414 (L40, L40S)", READ)),
    rating("l4", CARD, 72.0, Source::Published("grokipedia.com/page/NVIDIA_L4_vs_L40S", READ)),
    rating("v100", &["pcie"], 250.0, Source::Published("hmc-tech.com/gpu/nvidia_v100-vs-nvidia_t40 (PCIe)", READ)),
    rating("v100", &["sxm3"], 350.0, RECALLED),
    rating(
        "v100",
        &["", "sxm", "sxm2"],
        300.0,
        Source::Published("power limit of a V100-SXM2, github.com/zai-org/GLM-130B/issues/32", "2022-10-21"),
    ),
    rating("v100m16", &[""], 300.0, Source::Assumed("as V100 SXM2 with 16 GB")),
    rating("v100m32", &[""], 300.0, Source::Assumed("as V100 SXM2 with 32 GB")),
    rating("p100", &["pcie"], 250.0, RECALLED),
    rating("p100", &["", "sxm", "sxm2"], 300.0, Source::Assumed("recalled, of the SXM2")),
    rating(
        "p40",
        CARD,
        250.0,
        Source::Published("Tesla P40 GPU accelerator product brief PB-08338-001_v01", "November 2016"),
    ),
    rating("k80", CARD, 150.0, Source::Assumed("recalled: half of a board of 300 W with two GPUs")),
    rating("t4", CARD, 70.0, Source::Published("sysrqmts.com, NVIDIA Tesla T4", READ)),
    rating(
        "rtx6000ada",
        CARD,
        300.0,
        Source::Published("huggingface.co/datasets/ohdoking/gpu_spec, nvidia_gpu.csv", READ),
    ),
    rating(
        "rtx6000",
        CARD,
        300.0,
        Source::Assumed("recalled: Turing 295 W with USB-C, and names without `Ada` may mean the Ada's 300 W"),
    ),
    rating(
        "rtxa6000",
        CARD,
        300.0,
        Source::Published("huggingface.co/datasets/ohdoking/gpu_spec, nvidia_gpu.csv", READ),
    ),
    rating(
        "a6000",
        CARD,
        300.0,
        Source::Published("huggingface.co/datasets/ohdoking/gpu_spec, nvidia_gpu.csv (RTX A6000)", READ),
    ),
    rating(
        "rtx4090",
        CARD,
        450.0,
        Source::Published("huggingface.co/datasets/ohdoking/gpu_spec, nvidia_gpu.csv", READ),
    ),
    rating(
        "rtx3090",
        CARD,
        350.0,
        Source::Published("huggingface.co/datasets/ohdoking/gpu_spec, nvidia_gpu.csv", READ),
    ),
    rating("mi300x", &["", "oam"], 750.0, Source::Published("huggingface.co/hardware/mi300", READ)),
    rating("mi250x", &["", "oam"], 560.0, Source::Assumed("recalled: peak of a module with two dies")),
];

/// Words of a name that tell neither model nor form.
const VOID: &[&str] = &[
    "nvidia",
    "amd",
    "tesla",
    "instinct",
    "geforce",
    "quadro",
    "radeon",
    "gpu",
    "tensor",
    "core",
    "accelerator",
    "graphics",
    "card",
    "corporation",
    "generation",
    "hbm2",
    "hbm2e",
    "hbm3",
    "hbm3e",
    "gddr5",
    "gddr6",
    "gddr6x",
];

/// A GPU's name, taken apart.
#[derive(Debug, Default, PartialEq, Eq)]
struct Name {
    model: String,
    form: String,
    gb: Option<u32>,
}

fn taken_apart(name: &str) -> Name {
    let name = name.to_ascii_lowercase();
    let mut result = Name::default();
    let mut words = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).peekable();
    while let Some(word) = words.next() {
        // What follows is the slice of the board, and not the board.
        if word == "mig" {
            break;
        }
        let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit = word.get(digits.len()..).unwrap_or_default();
        let is_unit = |unit: &str| ["g", "gb", "gi", "gib"].contains(&unit);
        let number = if digits.bytes().all(|byte| byte.is_ascii_digit()) { digits.parse::<u32>().ok() } else { None };
        if let Some(number) = number.filter(|_| is_unit(unit)) {
            result.gb = Some(number);
        } else if let Some(number) =
            number.filter(|_| unit.is_empty() && words.peek().is_some_and(|next| is_unit(next)))
        {
            result.gb = Some(number);
            words.next();
        } else if word.starts_with("sxm") || word == "nvl" || word == "oam" {
            word.clone_into(&mut result.form);
        } else if word.starts_with("pcie") {
            "pcie".clone_into(&mut result.form);
        } else if !VOID.contains(&word) {
            result.model.push_str(word);
        }
    }
    result
}

/// The published rating of a GPU model; `None` if the table does not hold just this model and form.
#[must_use]
pub fn rating_of(gpu_type: &str) -> Option<&'static Rating> {
    let name = taken_apart(gpu_type);
    RATINGS.iter().find(|rating| {
        rating.model == name.model
            && rating.forms.contains(&name.form.as_str())
            && rating.gb.is_none_or(|gb| name.gb == Some(gb))
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn names_are_matched_whole() {
        let tdp = |name: &str| rating_of(name).map(|rating| rating.tdp_w);
        assert_eq!(tdp("NVIDIA A100-SXM4-80GB"), Some(400.0));
        assert_eq!((tdp("NVIDIA A100-PCIE-40GB"), tdp("NVIDIA A100 80GB PCIe")), (Some(250.0), Some(300.0)));
        assert_eq!((tdp("NVIDIA A10"), tdp("NVIDIA A10G"), tdp("a10g")), (Some(150.0), Some(300.0), Some(300.0)));
        assert_eq!((tdp("NVIDIA L4"), tdp("NVIDIA L40"), tdp("NVIDIA L40S")), (Some(72.0), Some(300.0), Some(350.0)));
        assert_eq!((tdp("NVIDIA H100 80GB HBM3"), tdp("NVIDIA H100 PCIe")), (Some(700.0), Some(350.0)));
        assert_eq!((tdp("H100 NVL"), tdp("H100-SXM"), tdp("nvidia_h100_nvl")), (Some(400.0), Some(700.0), Some(400.0)));
        assert_eq!(
            (tdp("NVIDIA H200"), tdp("NVIDIA H200 NVL"), tdp("NVIDIA H20")),
            (Some(700.0), Some(600.0), Some(400.0))
        );
        assert_eq!(
            (tdp("Tesla V100-SXM2-32GB"), tdp("Tesla V100-SXM3-32GB"), tdp("V100 32 GB")),
            (Some(300.0), Some(350.0), Some(300.0))
        );
        assert_eq!((tdp("Tesla T4"), tdp("a100"), tdp("V100M32")), (Some(70.0), Some(400.0), Some(300.0)));
        assert_eq!((tdp("NVIDIA GH200 480GB"), tdp("NVIDIA RTX 6000 Ada Generation")), (Some(1_000.0), Some(300.0)));
        assert_eq!(tdp("NVIDIA A100-SXM4-40GB MIG 1g.5gb"), Some(400.0));
        // Like a model of the table, and another.
        for other in [
            "A100X",
            "NVIDIA A10M",
            "T400",
            "T4G",
            "A2",
            "L20",
            "V100S-PCIE-32GB",
            "GeForce GTX 1080",
            "H100 OAM",
            "MISC",
            "",
        ] {
            assert_eq!(tdp(other), None, "{other}");
        }
    }

    #[test]
    fn every_figure_has_a_source_with_a_date_or_is_assumed() {
        for rating in RATINGS {
            for source in std::iter::once(rating.tdp_source).chain(rating.idle.map(|idle| idle.1)) {
                let said = source.words();
                assert!(source.is_assumed() || said.contains("20"), "{}: {said}", rating.model);
            }
            assert!(rating.idle.is_none_or(|(idle_w, _)| idle_w < rating.tdp_w));
            // What the table says of a model is found under its own name.
            let name = format!(
                "{} {} {}",
                rating.model,
                rating.forms[0],
                rating.gb.map_or(String::new(), |gb| format!("{gb}GB"))
            );
            assert_eq!(rating_of(&name).unwrap(), rating, "{name}");
        }
    }
}
