//! The models of spot and the simple rules beside them, by name: which can be chosen, and what each knows.
//!
//! Worked example: where zones are not known together and prices are not known, six can be chosen: three simple rules, and age alone, with memory, and with the week.

use schemars::JsonSchema;
use serde::Serialize;

use super::process::Circumstances;

/// A model of spot, or a baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SpotModel {
    /// The present state stays.
    Persistence,
    /// The present state stays with the share of cases in which it did.
    Shares,
    /// The long-run share.
    Climatology,
    /// Constant chances to change.
    Markov,
    /// Semi-Markov: chances by the age of the spell.
    Age,
    /// Age, and the spells before the present one.
    Memory,
    /// Age, memory and the hour of the week.
    Week,
    /// Age and memory, and the other zones.
    Crowd,
    /// Age and memory, and steps of the price.
    Price,
    /// Age, memory and all other circumstances.
    All,
    /// Two hidden phases with and two without, and the hour of the day: what `plan rent job` decides with. It is compared, and not chosen.
    Phases,
}

impl SpotModel {
    /// Baselines.
    pub const BASELINES: [Self; 4] = [Self::Persistence, Self::Shares, Self::Climatology, Self::Markov];

    /// Models to choose from, where zones are known together or not, and prices are known or not:
    /// the baselines that state a chance, then the models. Persistence that says 0 or 1 has no log
    /// loss, so it cannot be chosen.
    pub fn choices(together: bool, priced: bool) -> Vec<Self> {
        let mut choices: Vec<Self> = Self::BASELINES.into_iter().filter(|model| *model != Self::Persistence).collect();
        choices.extend([Self::Age, Self::Memory, Self::Week]);
        choices.extend(together.then_some(Self::Crowd));
        choices.extend(priced.then_some(Self::Price));
        choices.extend((together || priced).then_some(Self::All));
        choices
    }

    /// Whether it is compared with the others, and cannot be chosen.
    pub fn is_only_compared(self) -> bool {
        matches!(self, Self::Persistence | Self::Phases)
    }

    /// Circumstances that the process of a model knows; None for a baseline, and for phases.
    pub fn circumstances(self) -> Option<Circumstances> {
        let memory = Circumstances { memory: true, ..Circumstances::AGE };
        match self {
            Self::Persistence | Self::Shares | Self::Climatology | Self::Markov | Self::Phases => None,
            Self::Age => Some(Circumstances::AGE),
            Self::Memory => Some(memory),
            Self::Week => Some(Circumstances { week: true, ..memory }),
            Self::Crowd => Some(Circumstances { crowd: true, ..memory }),
            Self::Price => Some(Circumstances { price: true, ..memory }),
            Self::All => Some(Circumstances { memory: true, week: true, crowd: true, price: true }),
        }
    }

    /// Model in use, in words: a model with what it knows, or the simple rule.
    pub fn in_use(self) -> String {
        match self.circumstances() {
            Some(_) => format!("a model that knows {}", self.in_words()),
            None => {
                format!("the simple rule {}, which no model surpassed on forecasts within the record", self.in_words())
            }
        }
    }

    /// Name of the model in words.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Persistence => "persistence (0 or 1)",
            Self::Shares => "persistence (share)",
            Self::Climatology => "climatology",
            Self::Markov => "Markov",
            Self::Age => "age",
            Self::Memory => "age, memory",
            Self::Week => "age, memory, week",
            Self::Crowd => "age, memory, zones",
            Self::Price => "age, memory, price",
            Self::All => "all of these",
            Self::Phases => "hidden phases, hour",
        }
    }
}
