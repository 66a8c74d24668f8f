//! The file of a trained predictor.
//!
//! One line of JSON (format, version, sections with their sizes and SHA-256, what it was trained on), then the sections: history and
//! calibration as JSON, rows to train on again as numbers, and the trees as numbers, each compressed with zstd. An earlier program
//! refuses a later file by its version; of files of versions 1 and 2, this one says that they are to be trained again.
//!
//! O(bytes). Worked number: 50,000 rows of 60 features that are kept to train on again are 50,000 × 61 × 4 bytes = 12 MB before they are compressed.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use tracecast_analytics::ingest::sha256;

use super::{Kept, Predictor, State, Trained};
use crate::duration::forecast::OUTPUT_NAMES;
use crate::error::{Error, Result};
use crate::feature::Store;
use crate::model::boosted::FittedTrees;
use crate::model_file::Format;

/// The file.
const FORMAT: Format = Format {
    name: "tracecast-duration-model",
    version: 3,
    oldest: 3,
    longest: 8 << 30,
    of: "tracecast",
    command: "tracecast model train duration",
};
/// Name of the section of trees.
const TREES: &str = "trees";

/// Name of the section of rows to train on again: the label, then the features of each, as little-endian 32-bit numbers.
const ROWS: &str = "rows";

/// Facts of the training in the first line of the file.
#[derive(Debug, Serialize, Deserialize)]
struct Header {
    trained: Trained,
    /// SHA-256 of the names of all features: trees know them by their number.
    features: String,
}

impl Predictor {
    /// The predictor as the bytes of its file.
    ///
    /// # Errors
    /// If it cannot be written down.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let wrong = |reason: String| Error::ModelFile {
            file: "the model".to_owned(),
            found: reason,
            remedy: "report this; it should not happen".to_owned(),
        };
        let state = serde_json::to_vec(&self.state).map_err(|error| wrong(error.to_string()))?;
        let rows = pack(&self.state.kept);
        let trees = self.trees.encode();
        let named = [("state", &state), (ROWS, &rows), (TREES, &trees)].into_iter();
        let features = features_of(&self.state.store);
        let header = Header { trained: self.state.trained.clone(), features };
        FORMAT.write(header, named.map(|(name, bytes)| (name.to_owned(), bytes))).map_err(wrong)
    }

    /// The predictor from the bytes of a file; `file` is what to call it in messages.
    ///
    /// # Errors
    /// If it is no such file, is damaged, or of a later version.
    pub fn from_bytes(file: &str, bytes: &[u8]) -> Result<Self> {
        let mut opened = FORMAT.open::<Header>(file, bytes)?;
        let mut state: State = opened.take_json("state")?;
        if opened.fields.features != features_of(&state.store)
            || state.columns.iter().any(|column| *column as usize >= state.store.width())
        {
            let result = "the model looks at other features than this program has".to_owned();
            let remedy = "train it again (`tracecast model train duration`), or use the program that wrote it";
            return Err(opened.refusal.with(result, remedy));
        }
        state.kept = unpack(&opened.take(ROWS)?, state.store.width());
        let columns = state.columns.len();
        let trees = FittedTrees::decode(&opened.take(TREES)?)
            .filter(|trees| trees.width() == columns && trees.outputs() == OUTPUT_NAMES.len())
            .ok_or_else(|| opened.refusal.damaged("the trees are damaged".to_owned()))?;
        Ok(Self { state, trees })
    }

    /// The trees of one of `mean`, `p10`, `p50`, `p90` as XGBoost's JSON, and the names of their features.
    ///
    /// # Errors
    /// If there is no such model.
    pub fn xgboost_json(&self, which: &str) -> Result<(Vec<u8>, Vec<String>)> {
        let Some(output) = OUTPUT_NAMES.iter().position(|name| *name == which) else {
            let known = OUTPUT_NAMES.map(str::to_owned).to_vec();
            return Err(Error::Unknown { what: "model", found: format!("`{which}`"), known });
        };
        let trees = serde_json::to_vec_pretty(&self.trees.xgboost_json(output))
            .map_err(|error| Error::Defect(format!("write the trees as JSON: {error}")))?;
        let names = self.state.store.columns();
        let named =
            self.state.columns.iter().map(|column| names.get(*column as usize).cloned().unwrap_or_default()).collect();
        Ok((trees, named))
    }
}

fn pack(kept: &VecDeque<Kept>) -> Vec<u8> {
    let numbers = kept.iter().flat_map(|example| std::iter::once(&example.y).chain(&example.row));
    numbers.flat_map(|value| value.to_le_bytes()).collect()
}

fn unpack(bytes: &[u8], width: usize) -> VecDeque<Kept> {
    let number = |four: &[u8]| four.try_into().map_or(f32::NAN, f32::from_le_bytes);
    let row = |row: &[u8]| {
        let mut numbers = row.chunks_exact(4).map(number);
        Kept { y: numbers.next().unwrap_or(f32::NAN), row: numbers.collect() }
    };
    bytes.chunks_exact(4 * (width + 1)).map(row).collect()
}

fn features_of(store: &Store) -> String {
    sha256(store.columns().join("\n").as_bytes())
}
