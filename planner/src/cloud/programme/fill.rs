//! The values of the programme, filled in from no work left upwards.
//!
//! What a step leads to from a cell is asked for by two others, one with a step more of work and one with a step more of spare time, both with as much left until the deadline and so at the same hour of the day. So the expected values
//! of a cell ([`Led`]) are worked out once when it is filled, for all beliefs at a time, and kept until both have asked: those of the row below, and of the cell before. What a changeover of whole steps leads to is asked for once.
//!
//! O(works × spare times × beliefs). Worked example: one step of work, two spare, and no belief but one: cell (1, 1) asks (0, 1) for a step that works, and (1, 0) for one that waits.

use super::{AXIS, IDLE, NEVER, ON_DEMAND, Onward, Programme, SPOT};

/// Values of a line: a power of two, so that a place in it is taken without a check.
const WIDTH: usize = 16;
/// A value for each point of belief.
type Line = [f32; WIDTH];
/// What stands past the last point counts for nothing: no branch leads there.
const _: () = assert!(AXIS < WIDTH);

/// The branches of all points of belief, one kind to another.
#[derive(Debug, Clone, Copy, Default)]
struct Leads {
    chance: Line,
    point: [u8; WIDTH],
    part: Line,
}

impl Leads {
    /// The expected of `values`, from every point.
    #[inline]
    fn of(&self, values: &Line) -> Line {
        let mut line = [0.0; WIDTH];
        for (at, value) in line.iter_mut().enumerate().take(AXIS) {
            let point = usize::from(self.point[at]);
            let (low, high) = (values[point % WIDTH], values[(point + 1) % WIDTH]);
            *value = self.chance[at] * (low + (high - low) * self.part[at]);
        }
        line
    }
}

/// All branches over a time, by what is up before it, and of `any` by what is up after it; with spot held, where it is lost or kept.
#[derive(Debug, Clone, Copy, Default)]
struct AllOnward {
    any: [[Leads; 2]; 2],
    lost: [Leads; 2],
    kept: Leads,
}

impl AllOnward {
    fn set(&mut self, (kind, point): (usize, usize), onward: &Onward) {
        let set = |leads: &mut Leads, branch: &super::Branch| {
            leads.chance[point] = branch.chance;
            leads.point[point] = branch.point as u8;
            leads.part[point] = branch.part;
        };
        for (leads, branch) in self.any[kind].iter_mut().zip(&onward.any) {
            set(leads, branch);
        }
        if kind == 1 {
            for (leads, branch) in self.lost.iter_mut().zip(&onward.lost) {
                set(leads, branch);
            }
            set(&mut self.kept, &onward.kept);
        }
    }

    /// Expected values of a state that is down or up, from a kind.
    fn any(&self, kind: usize, [down, up]: &[Line; 2]) -> Line {
        let [if_down, if_up] = &self.any[kind];
        sum(&if_down.of(down), &if_up.of(up))
    }

    fn lost(&self, [down, up]: &[Line; 2]) -> Line {
        let [if_down, if_up] = &self.lost;
        sum(&if_down.of(down), &if_up.of(up))
    }
}

#[inline]
fn sum(a: &Line, b: &Line) -> Line {
    each(|at| a[at] + b[at])
}

#[inline]
fn each(of: impl Fn(usize) -> f32) -> Line {
    let mut line = [0.0; WIDTH];
    for (at, value) in line.iter_mut().enumerate().take(AXIS) {
        *value = of(at);
    }
    line
}

/// What a cell is worth to one a step before it, from every belief of that: on-demand and idle by what is up there, and with spot held, lost or kept.
#[derive(Debug, Clone, Copy, Default)]
struct Led {
    on_demand: [Line; 2],
    idle: [Line; 2],
    lost: Line,
    kept: Line,
}

/// The values of a cell: idle and on-demand by what is up, and on spot.
#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    idle: [Line; 2],
    on_demand: [Line; 2],
    spot: Line,
}

impl Cell {
    fn led(&self, step: &AllOnward) -> Led {
        Led {
            on_demand: [step.any(0, &self.on_demand), step.any(1, &self.on_demand)],
            idle: [step.any(0, &self.idle), step.any(1, &self.idle)],
            lost: step.lost(&self.idle),
            kept: step.kept.of(&self.spot),
        }
    }
}

/// What a cell asks of others.
struct Asked<'a> {
    /// Steps of its own work.
    work: usize,
    /// What follows from a step less of work.
    worked: &'a Led,
    /// What follows from a step less of spare time.
    waited: &'a Led,
    /// What follows from a changeover of whole steps less of spare time.
    begun: &'a Cell,
    /// Over that.
    setup: &'a AllOnward,
}

impl Programme {
    fn all_onward(&self) -> Vec<[AllOnward; 2]> {
        let of = |over: &(super::PhaseMatrix, super::PhaseMatrix)| {
            let mut all = AllOnward::default();
            for (kind, up) in [false, true].into_iter().enumerate() {
                for point in 0..self.beliefs {
                    all.set((kind, point), &self.onward(&self.belief(up, point), over));
                }
            }
            all
        };
        self.over.iter().map(|[step, setup]| [of(step), of(setup)]).collect()
    }

    fn cell(&self, work: usize, spare: usize) -> Cell {
        let line = |state: usize| {
            let place = self.place(work, spare, state);
            let mut line = [0.0; WIDTH];
            line[..self.beliefs].copy_from_slice(&self.values[place..place + self.beliefs]);
            line
        };
        Cell { idle: IDLE.map(line), on_demand: ON_DEMAND.map(line), spot: line(SPOT) }
    }

    fn set(&mut self, work: usize, spare: usize, cell: &Cell) {
        let states = IDLE.into_iter().zip(&cell.idle).chain(ON_DEMAND.into_iter().zip(&cell.on_demand));
        for (state, line) in states.chain([(SPOT, &cell.spot)]) {
            let place = self.place(work, spare, state);
            self.values[place..place + self.beliefs].copy_from_slice(&line[..self.beliefs]);
        }
    }

    /// Fills all values that can come about.
    pub(super) fn fill(&mut self) {
        self.values = vec![0.0; (self.works + 1) * (self.spares + 1) * super::STATES * self.beliefs];
        let onward = self.all_onward();
        let mut below = vec![Led::default(); self.spares + 1];
        for work in 0..=self.works {
            let chances = (self.alive(work as f64) as f32, self.worked(work as f64, work.min(1) as f64) as f32);
            let mut waited = Led::default();
            let spares = self.spares.min(self.most.saturating_sub(work));
            for (spare, below) in below.iter_mut().enumerate().take(spares + 1) {
                // In the middle of the step, and of the one before it.
                let hour = |middle: f64| onward.get(self.hour(work as f64 + middle, spare as f64));
                let (Some([_, setup]), Some([before, _])) = (hour(-0.5), hour(0.5)) else { continue };
                let begun = if self.setup > 0 && spare >= self.setup {
                    self.cell(work, spare - self.setup)
                } else {
                    Cell::default()
                };
                let request = Asked { work, worked: below, waited: &waited, begun: &begun, setup };
                let cell = match work {
                    0 => self.least_begun(spare, chances.0, &request),
                    _ => self.least(spare, chances, &request),
                };
                waited = cell.led(before);
                *below = waited;
                self.set(work, spare, &cell);
            }
        }
    }

    /// Least expected cost of being idle with next to no work left, in steps of spot: what beginning an instance costs, and no more.
    fn least_begun(&self, spare: usize, alive: f32, request: &Asked<'_>) -> Cell {
        let begins = self.begins() as f32 * alive;
        let mut cell = Cell::default();
        for (kind, line) in cell.idle.iter_mut().enumerate() {
            let on_demand = if spare >= self.reserve { self.price_ratio * begins } else { NEVER };
            *line = [on_demand; WIDTH];
            if spare > self.reserve {
                let waits = &request.waited.idle[kind];
                *line = each(|at| line[at].min(waits[at]));
            }
            if kind == 1 && spare >= self.setup + self.reserve.max(1) {
                let lost = match self.setup {
                    0 => each(|at| self.setup_part * request.waited.lost[at]),
                    _ => request.setup.lost(&request.begun.idle),
                };
                *line = each(|at| line[at].min(begins + lost[at]));
            }
        }
        cell
    }

    /// Least expected costs of being idle, on-demand and on spot, in steps of spot. The job runs with the chance `alive`, and works `worked` of the next step.
    fn least(&self, spare: usize, (alive, worked): (f32, f32), request: &Asked<'_>) -> Cell {
        let (price, part) = (self.price_ratio, self.setup_part);
        // Waiting, or losing a step, must leave what on-demand needs.
        let bears = spare > self.reserve;
        let mut cell = Cell::default();
        for kind in 0..2 {
            let goes_on = each(|at| price * worked + request.worked.on_demand[kind][at]);
            let mut idle = match (self.setup, part) {
                (0, 0.0) => goes_on,
                (0, _) if spare > 0 => {
                    each(|at| part * (price * alive + request.waited.on_demand[kind][at]) + (1.0 - part) * goes_on[at])
                }
                (whole, _) if spare >= whole && whole > 0 => {
                    let begun = request.setup.any(kind, &request.begun.on_demand);
                    each(|at| price * whole as f32 * alive + begun[at])
                }
                _ => [NEVER; WIDTH],
            };
            if bears {
                idle = each(|at| idle[at].min(request.waited.idle[kind][at]));
            }
            if kind == 1 {
                let mut spot = [NEVER; WIDTH];
                if spare >= self.setup + self.reserve.max(1) {
                    let begun = self.spot_begun(alive, worked, request);
                    idle = each(|at| idle[at].min(begun[at]));
                }
                if spare >= self.reserve {
                    // What is lost with its work done costs nothing more.
                    let late = if request.work > 1 { request.worked.lost } else { [0.0; WIDTH] };
                    let (waited, kept) = (&request.waited.lost, &request.worked.kept);
                    let lost = if bears { each(|at| 0.5 * (late[at] + waited[at])) } else { late };
                    spot = each(|at| worked + lost[at] + kept[at]);
                }
                cell.spot = each(|at| spot[at].min(idle[at]));
            }
            cell.on_demand[kind] = each(|at| goes_on[at].min(idle[at]));
            cell.idle[kind] = idle;
        }
        cell
    }

    fn spot_begun(&self, alive: f32, worked: f32, request: &Asked<'_>) -> Line {
        let part = self.setup_part;
        match self.setup {
            0 => {
                let paid = alive + (1.0 - part) * (worked - alive);
                let (lost, waited, kept) = (&request.waited.lost, &request.waited.kept, &request.worked.kept);
                each(|at| paid + lost[at] + part * waited[at] + (1.0 - part) * kept[at])
            }
            whole => {
                let (lost, kept) =
                    (request.setup.lost(&request.begun.idle), request.setup.kept.of(&request.begun.spot));
                each(|at| whole as f32 * alive + lost[at] + kept[at])
            }
        }
    }
}
