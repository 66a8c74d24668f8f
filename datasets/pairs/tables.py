"""From the journal to the files that `tracecast` reads, and to the manifest beside them.

The **speed** of a job beside another is its rate there over its rate alone: exp(mean ln beside - mean ln alone) over
the repeats. Its 90 % interval takes the repeats as independent (Welch): ± t * sqrt(s²/n beside + s²/n alone) on the
scale of logs, with t the 95 % quantile of Student's distribution. With a single repeat there is none. A pair did not
fit if it did not in at least half of its repeats. What failed is left out and listed in the manifest.

Worked number: 9.8, 10.0 and 10.2 steps a second beside and 19.8, 20.0 and 20.2 alone are a speed of 0.4999. The logs
have s = 0.0200 and 0.0100, the difference of their means an error of sqrt(0.0200²/3 + 0.0100²/3) = 0.0129, with 2.9
degrees of freedom, counted as 2: t = 2.920. So the interval is 0.4999 * exp(± 0.0377) = 0.481 to 0.519.

Every file is written under another name in the same folder and then renamed: at any moment it is the old or the new
one, whole.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import os
from pathlib import Path
from typing import Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

from runner import Reading

# 95 % quantiles of Student's distribution with 1 to 30 degrees of freedom.
STUDENT95 = (
    6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812,
    1.796, 1.782, 1.771, 1.761, 1.753, 1.746, 1.740, 1.734, 1.729, 1.725,
    1.721, 1.717, 1.714, 1.711, 1.708, 1.706, 1.703, 1.701, 1.699, 1.697,
)  # fmt: skip
NORMAL95 = 1.6449
# `tracecast` takes a speed above this for a mistake in units.
FASTEST = 10.0
# As many as a group has jobs at most.
SIDES = "abcdefghijklmnop"
MODES = {"time-slicing": "time slicing", "mps": "MPS", "mig": "MIG"}


class Speed(NamedTuple):
    """A job beside one other or several."""

    job: str
    beside: str
    side: str
    repeats: int
    did_not_fit: int
    alone: Optional[float]
    rate: Optional[float]
    speed: Optional[float]
    low: Optional[float]
    high: Optional[float]
    drift: Optional[float]


def student95(freedom: float) -> float:
    """95 % quantile of Student's distribution; degrees of freedom are rounded down."""
    whole = max(1, int(freedom))
    if whole <= len(STUDENT95):
        return STUDENT95[whole - 1]
    return NORMAL95 + (NORMAL95**3 + NORMAL95) / (4.0 * whole)


def named(jobs: Iterable) -> str:
    """Jobs that run together, in one cell."""
    return " + ".join(job.name for job in jobs)


def _logs(rates: Sequence[float]) -> Tuple[float, float]:
    """Mean of logs, and the variance of that mean."""
    logs = [math.log(rate) for rate in rates]
    mean = math.fsum(logs) / len(logs)
    if len(logs) < 2:
        return mean, math.nan
    return mean, math.fsum((x - mean) ** 2 for x in logs) / (len(logs) - 1) / len(logs)


def ratio(beside: Sequence[float], alone: Sequence[float]) -> Tuple[float, Optional[float], Optional[float]]:
    """Speed and its 90 % interval."""
    (mean, noise), (base, base_noise) = _logs(beside), _logs(alone)
    speed, variance = math.exp(mean - base), noise + base_noise
    if math.isnan(variance):
        return speed, None, None
    if variance <= 0.0:
        return speed, speed, speed
    freedom = variance**2 / (noise**2 / (len(beside) - 1) + base_noise**2 / (len(alone) - 1))
    reach = student95(freedom) * math.sqrt(variance)
    return speed, speed * math.exp(-reach), speed * math.exp(reach)


class Measured:
    """What the journal holds of a plan, in the order of job names."""

    def __init__(self, runs: Sequence, records: Dict[str, Dict]):
        self.records = [(run, records[run.key]) for run in runs if run.key in records]
        self.records.sort(key=lambda entry: ([job.name for job in entry[0].jobs], entry[0].repeat))
        self._groups: Dict[Tuple, List[Dict]] = {}
        for run, record in self.records:
            self._groups.setdefault(run.jobs, []).append(record)

    def ran(self, *jobs) -> List[Dict]:
        """Records of a job alone, or of several together, that say something of speed."""
        return [record for record in self._groups.get(jobs, []) if record["outcome"] == "ran"]

    def misfits(self, *jobs) -> int:
        """How often they did not fit."""
        return sum(record["outcome"] == "did_not_fit" for record in self._groups.get(jobs, []))

    def did_not_fit(self, *jobs) -> bool:
        """Whether they did not in at least half of the repeats."""
        return self.misfits(*jobs) > 0 and self.misfits(*jobs) >= len(self.ran(*jobs))

    def alone(self) -> List:
        """Jobs that ran alone."""
        return [jobs[0] for jobs in self._groups if len(jobs) == 1 and self.ran(*jobs)]

    def together(self) -> List[Tuple]:
        """Couples and larger groups of jobs that all ran alone, and that ran or did not fit."""
        known = set(self.alone())
        told = lambda jobs: self.ran(*jobs) or self.misfits(*jobs)
        return [jobs for jobs in self._groups if len(jobs) > 1 and known.issuperset(jobs) and told(jobs)]

    def speeds(self, *jobs) -> List[Speed]:
        """Every job of a couple or a larger group."""
        found = []
        gone = self.did_not_fit(*jobs)
        for side, own in enumerate(jobs):
            others = jobs[:side] + jobs[side + 1 :]
            alone = [record["steps_per_s"][0] for record in self.ran(own)]
            ran = [] if gone else self.ran(*jobs)
            rates = [record["steps_per_s"][side] for record in ran]
            names = (own.name, named(others), SIDES[side], len(self.ran(*jobs)), self.misfits(*jobs))
            base = math.exp(_logs(alone)[0])
            if not rates:
                found.append(Speed(*names, base, None, None, None, None, None))
                continue
            drift = max((record["drift"][side] for record in ran), key=abs)
            found.append(Speed(*names, base, math.exp(_logs(rates)[0]), *ratio(rates, alone), drift))
        return found

    def left_out(self) -> List[str]:
        """What the tables do not hold, and why."""
        told = [f"{run.key}: {record['why']}" for run, record in self.records if record["outcome"] == "failed"]
        for jobs in self._groups:
            ran, misfits = len(self.ran(*jobs)), self.misfits(*jobs)
            if len(jobs) == 1 and not ran and misfits:
                told.append(f"{named(jobs)}: did not fit alone, so it has no pairs")
            if len(jobs) > 1 and misfits and ran:
                told.append(f"{named(jobs)}: fitted in {ran} repeats, did not in {misfits}")
        for jobs in self.together():
            fast = [speed for speed in self.speeds(*jobs) if (speed.speed or 0.0) > FASTEST]
            told += [f"{s.job} beside {s.beside}: {s.speed:.3g} times its speed alone, a mistake" for s in fast]
        return told


def cell(value) -> str:
    """A number with six digits, an empty cell for what is unknown."""
    if value is None:
        return ""
    # Adding 0 takes the sign from a zero.
    return f"{value + 0.0:.6g}" if isinstance(value, float) else str(value)


def profile(job, measured: Measured) -> List:
    """What was seen of a job alone: means over all readings in its windows; memory at its most, less the idle GPU's.

    Of a job that rested on the GPU before, what it added to its memory is not known."""
    records = measured.ran(job)
    readings = [Reading(*reading[1:]) for record in records for reading in record["readings"]]

    def mean(name: str) -> Optional[float]:
        known = [getattr(reading, name) for reading in readings if getattr(reading, name) is not None]
        return math.fsum(known) / len(known) if known else None

    memories = [
        max(known) - record["idle_memory_mb"]
        for record in records
        if (known := [reading[3] for reading in record["readings"] if reading[3] is not None])
        and record["idle_memory_mb"] is not None
        and not record["rested"][0]
    ]
    rates = [record["steps_per_s"][0] for record in records]
    parameters = records[0]["facts"][0].get("parameters")
    return [
        mean("sm_util_pct"),
        mean("mem_util_pct"),
        max(0.0, max(memories)) if memories else None,
        mean("power_w"),
        mean("pcie_mb_s"),
        job.batch,
        parameters,
        job.precision_bits,
        math.exp(_logs(rates)[0]),
    ]


PROFILE = [
    "sm_util_pct",
    "mem_util_pct",
    "memory_mb",
    "power_w",
    "pcie_mb_s",
    "batch",
    "parameters",
    "precision_bits",
    "steps_per_s",
]


def sheets(gpu_type: str, measured: Measured) -> Dict[str, List[List]]:
    """The rows of every CSV, its columns first."""
    pairs = [["gpu_type", "job_a", "job_b", "speed_a", "speed_b"]]
    micro = [list(pairs[0])]
    each = [
        [
            "gpu_type",
            *Speed._fields[:5],
            "steps_per_s_alone",
            "steps_per_s",
            "speed",
            "speed_low",
            "speed_high",
            "drift",
        ]
    ]
    groups = [["gpu_type", "group", "job", "speed"]]
    for jobs in measured.together():
        all_speeds = measured.speeds(*jobs)
        each += [[gpu_type, *speed] for speed in all_speeds]
        if any((speed.speed or 0.0) > FASTEST for speed in all_speeds):
            continue
        if len(jobs) > 2:
            groups += [[gpu_type, named(jobs), speed.job, speed.speed] for speed in all_speeds]
        else:
            into = micro if jobs[1].is_micro else pairs
            into.append([gpu_type, *(job.name for job in jobs), *(speed.speed for speed in all_speeds)])
    profiles = [["gpu_type", "job", "family", *PROFILE]]
    # Micro-loads stand apart, or a model of the jobs would take them for job types.
    micro_profiles = [list(profiles[0])]
    for job in measured.alone():
        row = [gpu_type, job.name, job.family, *profile(job, measured)]
        micro_profiles.append(row)
        if not job.is_micro:
            profiles.append(row)
    samples = [["gpu_type", "job_a", "job_b", "repeat", "t_s", *Reading._fields]]
    for run, record in measured.records:
        names = [gpu_type, run.jobs[0].name, named(run.jobs[1:]) or None, run.repeat]
        samples += [[*names, *reading] for reading in record.get("readings", [])]
    return {
        "pairs.csv": pairs,
        "profiles.csv": profiles,
        "micro.csv": micro,
        "micro_profiles.csv": micro_profiles,
        "speeds.csv": each,
        "samples.csv": samples,
        # A measurement without groups has no such file.
        **({"groups.csv": groups} if len(groups) > 1 else {}),
    }


def replace(path: Path, content: bytes) -> None:
    """Puts a file in place, whole."""
    beside = path.with_name(f".{path.name}.new")
    with open(beside, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)


def as_csv(rows: Iterable[Sequence]) -> bytes:
    """Rows as CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([cell(value) for value in row] for row in rows)
    return text.getvalue().encode()


def write(folder: Path, gpu_type: str, runs: Sequence, journal, manifest: Dict) -> Dict:
    """Writes all files of a measurement; returns the manifest."""
    measured = Measured(runs, journal.runs)
    files = {}
    for name, rows in sheets(gpu_type, measured).items():
        content = as_csv(rows)
        replace(folder / name, content)
        files[name] = {"rows": len(rows) - 1, "sha256": hashlib.sha256(content).hexdigest()}
    outcomes = [record["outcome"] for _, record in measured.records]
    counted = {outcome: outcomes.count(outcome) for outcome in ("ran", "did_not_fit", "failed")}
    whole = {
        **manifest,
        "gpu_type": gpu_type,
        "sessions": journal.sessions,
        "runs": {"planned": len(runs), **counted},
        "left_out": measured.left_out(),
        "files": files,
    }
    replace(folder / "manifest.json", json.dumps(whole, indent=2).encode() + b"\n")
    return whole
