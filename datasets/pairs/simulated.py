"""A backend without a GPU, to try the tool and to test it: **nothing that it says was measured**.

Each job has made-up demands: the share of its time alone in which it holds each resource (`sm`, `dram`, `l2`, `pcie`),
its memory, and its steps a second. Time is virtual, so hours pass in seconds. What two jobs lose beside each other:

* `time-slicing`: a GPU works for one job at a time, so a job demands the largest of its shares of `sm`, `dram` and
  `l2`, and of PCIe by itself. A resource is divided by max-min: nobody gets more than it demands, and what is left goes
  in equal parts to those that demand more. A job runs at the least share of its demands that it gets; changing over
  takes 3 % of both;
* `mps`: the same with `sm`, `dram` and `l2` each divided by itself, and no changing over;
* `mig`: each job has half of `sm`, `dram`, `l2` and memory for itself, alone as well as beside another; PCIe is
  divided.

A job alone has 1 % of noise in its rate, and so has a job beside another; noise depends on seed, run and job only.
Worked number: by time slicing, jobs that demand 0.9 and 0.3 get 0.7 and 0.3; they run at 0.97 * 0.7 / 0.9 = 0.754 and
at 0.97.
"""

from __future__ import annotations

import datetime
import hashlib
from typing import Dict, List, NamedTuple, Sequence

from runner import DidNotFit, Mark, Reading, Times

MEMORY_MB, IDLE_MB = 16_384.0, 400.0
IDLE_W, FULL_W = 55.0, 300.0
PCIE_MB_S = 25_000.0
START_S = 10.0
CHANGING_OVER = 0.03
NOISE = 0.01
# Time between two marks, seconds.
CHUNK_S = 0.05
RESOURCES = ("sm", "dram", "l2", "pcie")


class Demand(NamedTuple):
    """What a job takes alone: shares of time, MB, steps a second."""

    sm: float
    dram: float
    l2: float
    pcie: float
    memory_mb: float
    steps_per_s: float


DEMANDS = {
    "cnn-train (batch size 32)": Demand(0.84, 0.52, 0.46, 0.04, 3_900.0, 12.0),
    "cnn-train (batch size 128)": Demand(0.97, 0.63, 0.55, 0.03, 11_800.0, 3.4),
    "cnn-infer (batch size 1)": Demand(0.22, 0.11, 0.12, 0.03, 900.0, 420.0),
    "cnn-infer (batch size 64)": Demand(0.86, 0.48, 0.43, 0.12, 1_700.0, 31.0),
    "encoder-train (batch size 8)": Demand(0.72, 0.44, 0.38, 0.02, 3_600.0, 14.0),
    "encoder-train (batch size 32)": Demand(0.94, 0.51, 0.45, 0.02, 6_900.0, 4.6),
    "lstm-train (batch size 20)": Demand(0.46, 0.29, 0.27, 0.02, 1_500.0, 38.0),
    "lstm-train (batch size 80)": Demand(0.68, 0.41, 0.36, 0.02, 2_300.0, 19.0),
    "recommender-train (batch size 1024)": Demand(0.31, 0.37, 0.18, 0.09, 2_100.0, 160.0),
    "recommender-train (batch size 16384)": Demand(0.58, 0.81, 0.33, 0.21, 4_200.0, 26.0),
    "decode-infer (batch size 1)": Demand(0.38, 0.66, 0.22, 0.01, 1_900.0, 72.0),
    "decode-infer (batch size 16)": Demand(0.55, 0.88, 0.31, 0.01, 4_900.0, 41.0),
    "micro-compute": Demand(1.0, 0.06, 0.20, 0.0, 700.0, 95.0),
    "micro-dram": Demand(0.42, 0.98, 0.35, 0.0, 1_600.0, 680.0),
    "micro-l2": Demand(0.55, 0.08, 0.98, 0.0, 600.0, 9_000.0),
    "micro-pcie": Demand(0.04, 0.10, 0.06, 0.98, 800.0, 90.0),
}


def even(*parts: object) -> float:
    """A number from -1 to 1 that depends on the parts alone."""
    told = hashlib.sha256("/".join(map(str, parts)).encode()).digest()
    return int.from_bytes(told[:8], "big") / (1 << 63) - 1.0


def divide(demands: Sequence[float]) -> List[float]:
    """A resource divided by max-min among demands: the share of its demand that each gets."""
    left, got = 1.0, [0.0] * len(demands)
    order = sorted(range(len(demands)), key=lambda at: demands[at])
    for place, at in enumerate(order):
        got[at] = min(demands[at], left / (len(order) - place))
        left -= got[at]
    return [1.0 if demand <= 0.0 else part / demand for part, demand in zip(got, demands)]


def speeds(mode: str, demands: Sequence[Demand]) -> List[float]:
    """Speeds of jobs that run together, shares of their speed alone on the whole GPU."""
    if mode == "mig":
        own = [min(1.0, *(0.5 / max(demand[at], 0.5) for at in range(3))) for demand in demands]
        bus = divide([demand.pcie * speed for demand, speed in zip(demands, own)])
        return [speed * part for speed, part in zip(own, bus)]
    if mode == "mps":
        columns = [[demand[at] for demand in demands] for at in range(len(RESOURCES))]
        cost = 0.0
    else:
        columns = [[max(demand[:3]) for demand in demands], [demand.pcie for demand in demands]]
        cost = CHANGING_OVER if len(demands) > 1 else 0.0
    parts = zip(*(divide(column) for column in columns))
    return [min(part) * (1.0 - cost) for part in parts]


class Worker:
    """A job of the model, with the same face as a process."""

    def __init__(self, backend: "Simulated", job, side: int, run: str):
        self._backend = backend
        self.name = job.name
        self.rested = False
        self.demand = DEMANDS[job.name]
        self.side = side
        self.token = (run, job.name, side)
        self._times: Times = Times(0.0, 0.0, 0.0)

    def ready(self, limit: float) -> Dict:
        """Passes the time of its start."""
        self._backend.fits()
        self._backend.begin()
        return {"parameters": None, "chunk": 1}

    def go(self, times: Times) -> None:
        """Keeps its times."""
        self._times = times

    def marks(self, limit: float) -> List[Mark]:
        """Its marks around the window."""
        rate = self._backend.rate(self)
        chunk = max(1, round(CHUNK_S * rate))
        start, opened, close = self._times
        number = max(0, int((opened - start) * rate / chunk) - 1)
        marks: List[Mark] = []
        while not marks or marks[-1][0] < close:
            marks.append((start + number * chunk / rate, number * chunk))
            number += 1
        return marks


class Simulated:
    """The backend."""

    NOTE = (
        "simulated: nothing in these files was measured; "
        "a made-up model of contention computed them (datasets/pairs/simulated.py)"
    )

    def __init__(self, settings: Dict):
        self._mode, self._seed, self._warm_up = settings["mode"], settings["seed"], settings["warm_up_s"]
        self._keep = settings["keep"]
        self._now = 0.0
        self._here: List[Worker] = []
        # Names of jobs that rest on the GPU, the one used last at the end.
        self._resting: List[str] = []
        self._begun = False
        # Readings since the first job of the run began.
        self._readings = 0

    def check(self) -> None:
        """Needs nothing."""

    def open(self, runs: Sequence) -> None:
        """Starts nothing."""

    def close(self) -> None:
        """Stops nothing."""

    def about(self) -> Dict:
        """What it stands for."""
        gpu = {"gpu_name": "simulated GPU", "gpu_uuid": "simulated", "memory_mb": int(MEMORY_MB)}
        return {**gpu, "driver": "simulated", "versions": {"contention_model": 1}}

    def now(self) -> float:
        """Virtual seconds."""
        return self._now

    def date(self) -> str:
        """Virtual time of day: every session begins with the year 2000."""
        moment = datetime.datetime(2000, 1, 1) + datetime.timedelta(seconds=int(self._now))
        return moment.strftime("%Y-%m-%dT%H:%M:%SZ")

    def sleep_until(self, moment: float) -> None:
        """Passes time."""
        self._now = max(self._now, moment)

    def start(self, job, side: int, run: str) -> Worker:
        """Puts a job on the GPU."""
        self._here.append(Worker(self, job, side, run))
        rests = self._here[-1].rested = job.name in self._resting
        if rests:
            self._resting.remove(job.name)
        # Those that rest have begun; one that does not makes both wait.
        self._begun, self._readings = rests and (side == 0 or self._begun), 0
        return self._here[-1]

    def fits(self) -> None:
        """Refuses jobs that together need more memory than there is."""
        room = MEMORY_MB - IDLE_MB
        needs = [worker.demand.memory_mb for worker in self._here]
        resting = sum(DEMANDS[name].memory_mb for name in self._resting)
        short = max(needs) > room / 2.0 if self._mode == "mig" else sum(needs) + resting > room
        if short:
            raise DidNotFit("simulated: out of memory")

    def begin(self) -> None:
        """Passes the time in which all jobs of a run start and warm up, once."""
        if not self._begun:
            self._now += START_S + self._warm_up
            self._begun = True

    def rate(self, worker: Worker) -> float:
        """Steps a second of one of the jobs that are here."""
        demands = [other.demand for other in self._here]
        speed = speeds(self._mode, demands)[self._here.index(worker)]
        return worker.demand.steps_per_s * speed * (1.0 + NOISE * even(self._seed, *worker.token))

    def leave(self, workers: Sequence[Worker], well: bool) -> None:
        """Takes jobs off the GPU, or lets them rest on it."""
        self._here = []
        if well:
            self._resting += [worker.name for worker in workers]
        self._resting = self._resting[len(self._resting) - min(len(self._resting), self._keep) :]

    def make_room(self) -> bool:
        """Ends all jobs that rest; whether there were any."""
        there = bool(self._resting)
        self._resting = []
        return there

    def read(self) -> Reading:
        """The GPU now: the demands of all jobs that are here, at the speeds at which they run."""
        self._readings += 1
        demands = [worker.demand for worker in self._here]
        tokens = [worker.token for worker in self._here]
        running: List[float] = speeds(self._mode, demands) if demands else []

        def used(at: int) -> float:
            wobble = 0.02 * even(self._seed, RESOURCES[at], self._readings, *tokens)
            return max(
                0.0, min(1.0, sum(demand[at] * speed for demand, speed in zip(demands, running)) * (1.0 + wobble))
            )

        sm, dram, pcie = used(0), used(1), used(3)
        memory = IDLE_MB + sum(demand.memory_mb for demand in demands)
        memory += sum(DEMANDS[name].memory_mb for name in self._resting)
        power = IDLE_W + (FULL_W - IDLE_W) * (0.7 * sm + 0.3 * dram)
        untold = self._mode == "mig"
        return Reading(
            None if untold else round(100.0 * sm),
            None if untold else round(100.0 * dram),
            memory,
            round(power, 3),
            round(PCIE_MB_S * pcie, 3),
            1_400.0,
            round(35.0 + 40.0 * sm),
        )
