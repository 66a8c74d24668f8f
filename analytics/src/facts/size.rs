//! Classes of job sizes, by which waits, failures and predictions are grouped.
//!
//! Worked number: jobs of 0, 0.22, 1, 3, 8 and 9 GPUs are of the six classes, in their order.

/// A class of job sizes, as most papers group them.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
pub enum SizeClass {
    /// No GPU.
    #[serde(rename = "0")]
    Cpu,
    /// Less than one GPU.
    #[serde(rename = "<1")]
    Fraction,
    /// One GPU.
    #[serde(rename = "1")]
    One,
    /// More than one, up to four.
    #[serde(rename = "2-4")]
    Few,
    /// More than four, up to eight.
    #[serde(rename = "5-8")]
    Node,
    /// More than eight.
    #[serde(rename = ">8")]
    Many,
}

impl SizeClass {
    /// All classes, smallest first.
    pub const ALL: [Self; 6] = [Self::Cpu, Self::Fraction, Self::One, Self::Few, Self::Node, Self::Many];

    /// The class of a job with `gpus` GPUs.
    pub fn new(gpus: f64) -> Self {
        if gpus <= 0.0 {
            Self::Cpu
        } else if gpus < 1.0 {
            Self::Fraction
        } else if gpus <= 1.0 {
            Self::One
        } else if gpus <= 4.0 {
            Self::Few
        } else if gpus <= 8.0 {
            Self::Node
        } else {
            Self::Many
        }
    }

    /// Short name, as in JSON and in queries.
    pub fn id(self) -> &'static str {
        match self {
            Self::Cpu => "0",
            Self::Fraction => "<1",
            Self::One => "1",
            Self::Few => "2-4",
            Self::Node => "5-8",
            Self::Many => ">8",
        }
    }

    /// Name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "no GPU",
            Self::Fraction => "under 1 GPU",
            Self::One => "1 GPU",
            Self::Few => "2–4 GPUs",
            Self::Node => "5–8 GPUs",
            Self::Many => "over 8 GPUs",
        }
    }
}
