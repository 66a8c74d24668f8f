//! Means by hour of the week.
//!
//! ```text
//! mean of what was seen at that hour of the week; where nothing was, at that hour of the day; where nothing was, of all
//! ```
//!
//! Hours count from midnight of Monday, in whatever zone whoever adds them counts. O(1) to add and to ask. Worked example: 100 at 0:00 and 500 at 1:00 of a Monday. So much is known of these two hours; at 0:00 of a Tuesday it is 100, and at
//! 2:00, of which nothing was seen, 300.

use tracecast_analytics::time::{DAY_HOURS, WEEK_HOURS};

/// A mean being taken.
#[derive(Debug, Clone, Copy, Default)]
struct Mean {
    sum: f64,
    count: f64,
}

impl Mean {
    fn add(&mut self, value: f64) {
        self.sum += value;
        self.count += 1.0;
    }

    fn value(self) -> Option<f64> {
        (self.count > 0.0).then(|| self.sum / self.count)
    }
}

/// Means by the hour of the week, by that of the day, and of all.
#[derive(Debug, Clone)]
pub struct WeekMeans {
    all: Mean,
    by_day: [Mean; DAY_HOURS],
    by_week: [Mean; WEEK_HOURS],
}

impl Default for WeekMeans {
    fn default() -> Self {
        Self { all: Mean::default(), by_day: [Mean::default(); DAY_HOURS], by_week: [Mean::default(); WEEK_HOURS] }
    }
}

impl WeekMeans {
    /// Adds what was seen in an hour of the week.
    pub fn add(&mut self, hour: usize, value: f64) {
        self.all.add(value);
        self.by_day.get_mut(hour % DAY_HOURS).into_iter().for_each(|mean| mean.add(value));
        self.by_week.get_mut(hour).into_iter().for_each(|mean| mean.add(value));
    }

    /// How many values were added.
    pub fn count(&self) -> f64 {
        self.all.count
    }

    /// The mean of all.
    pub fn of_all(&self) -> Option<f64> {
        self.all.value()
    }

    /// Returns the mean of an hour of the week; of that hour of the day, or of all, where nothing
    /// was seen.
    pub fn at(&self, hour: usize) -> Option<f64> {
        self.by_week.get(hour).and_then(|mean| mean.value()).or_else(|| self.at_time_of_day(hour))
    }

    /// Returns the mean of an hour of the day; of all where nothing was seen.
    pub fn at_time_of_day(&self, hour: usize) -> Option<f64> {
        self.by_day.get(hour % DAY_HOURS).and_then(|mean| mean.value()).or_else(|| self.of_all())
    }

    /// Hours of the week of which nothing was seen.
    pub fn missing(&self) -> usize {
        self.by_week.iter().filter(|mean| mean.value().is_none()).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_example() {
        let mut means = WeekMeans::default();
        assert_eq!((means.at(0), means.of_all()), (None, None));
        means.add(0, 100.0);
        means.add(1, 500.0);
        assert_eq!([0, 1, 24, 2].map(|hour| means.at(hour)), [100.0, 500.0, 100.0, 300.0].map(Some));
        means.add(24, 200.0);
        assert_eq!((means.at(24), means.at_time_of_day(24)), (Some(200.0), Some(150.0)));
        assert_eq!((means.missing(), means.count()), (WEEK_HOURS - 3, 3.0));
    }
}
