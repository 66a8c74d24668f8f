//! The predictor as the server's [`OnlineModel`]: it predicts, learns, trains again on another thread, and is written down with what it has learned.
//!
//! Worked example: after 10,000 ended jobs the server asks for a [`OnlineModel::trainer`]; the trees it gives are taken up between two requests.

use super::predictor::{Predictor, Retrained};
use crate::job::{Event, Prediction, Submission};
use crate::serve::{OnlineModel, Task};

impl OnlineModel for Predictor {
    type Model = Retrained;

    fn predict(&mut self, jobs: &[Submission], now_ms: Option<i64>) -> Vec<Prediction> {
        // The rows are built here and have the width the trees were grown on, so they are never refused.
        Predictor::predict(self, jobs, now_ms).unwrap_or_default()
    }

    fn observe(&mut self, event: &Event) -> Result<(), String> {
        // What clients send must not fill the memory.
        self.bound();
        Predictor::observe(self, event)
    }

    fn cluster_gpus(&self) -> Option<f64> {
        self.trained().cluster_gpus
    }

    fn ended_since_training(&self) -> u64 {
        Predictor::ended_since_training(self)
    }

    fn trained_ms(&self) -> Option<i64> {
        Some(self.trained().to_ms)
    }

    fn trainer(&self) -> Task<Retrained> {
        let task = Predictor::trainer(self);
        Box::new(move || task().map_err(|error| error.to_string()))
    }

    fn adopt(&mut self, model: Retrained) {
        Predictor::adopt(self, model);
    }

    fn snapshot(&self) -> Task<Vec<u8>> {
        let copy = self.clone();
        Box::new(move || copy.to_bytes().map_err(|error| error.to_string()))
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<(), String> {
        *self = Self::from_bytes("the snapshot", snapshot).map_err(|error| error.to_string())?;
        Ok(())
    }
}
