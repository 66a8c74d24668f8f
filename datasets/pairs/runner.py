"""One run: its jobs start, warm up, wait for each other, and are watched through one window of time.

A backend (`gpu.Gpu`, `simulated.Simulated`) has the clock, starts jobs and reads the GPU; everything else is here and
the same for both:

1. every job is started as a process of its own, builds its model, and runs for `warm_up_s`, unless it rests there;
2. when all are ready, all begin at one moment and run on for `settle_s`;
3. the window opens for `window_s`. The GPU is read every 100 ms. A job notes when each chunk of its steps was done;
4. a job runs on until every job has a mark after the window. So all of them ran throughout;
5. jobs end, or rest on the GPU where the backend keeps them for later runs (`keep`). One that rests is ready at once. If
   memory does not suffice beside jobs that rest, these are ended and the run is made again.

The rate is (steps between the last mark before the window and the first one after it) / (time between these two marks).
Worked number: marks at 9.9 s (200 steps) and 20.1 s (608 steps) around a window from 10 to 20 s are 408 / 10.2 = 40
steps a second.
"""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

# Time between two readings, seconds.
SAMPLE_S = 0.1
# From the word to all jobs until they begin, seconds.
LEAD_S = 0.2
# Longest that a job may take to be ready, and to have a mark after the window, seconds.
READY_S = 600.0
CLOSE_S = 300.0

Mark = Tuple[float, int]


class Unfit(Exception):
    """The measurement cannot begin or go on; the message says what to do."""


class DidNotFit(Exception):
    """GPU memory did not suffice."""


class Failed(Exception):
    """A run that says nothing: the job ended, stood still, or did not run throughout."""


class Times(NamedTuple):
    """Moments of a run, seconds on the backend's clock."""

    start: float
    open: float
    close: float


class Reading(NamedTuple):
    """The GPU at one moment; what it does not tell is `None`."""

    sm_util_pct: Optional[float]
    mem_util_pct: Optional[float]
    memory_mb: Optional[float]
    power_w: Optional[float]
    pcie_mb_s: Optional[float]
    sm_clock_mhz: Optional[float]
    temperature_c: Optional[float]


def rate(marks: Sequence[Mark], start: float, end: float) -> float:
    """Steps a second over a window, from the marks that enclose it."""
    before = [mark for mark in marks if mark[0] <= start]
    after = [mark for mark in marks if mark[0] >= end]
    if not before or not after:
        raise Failed("a job did not run throughout the window")
    (first, done), (last, more) = before[-1], after[0]
    return (more - done) / (last - first)


def drift(marks: Sequence[Mark], times: Times) -> float:
    """Rate of the second half of the window over that of the first, less 1: far from 0 where it is no steady state."""
    middle = (times.open + times.close) / 2.0
    first = rate(marks, times.open, middle)
    return rate(marks, middle, times.close) / first - 1.0 if first > 0.0 else 0.0


def watch(backend, times: Times) -> List[List[Optional[float]]]:
    """Readings through the window, each with the seconds since it opened.

    A tick that is over before the reading before it was done is passed over."""
    readings: List[List[Optional[float]]] = []
    tick = 0
    while times.open + tick * SAMPLE_S < times.close:
        backend.sleep_until(times.open + tick * SAMPLE_S)
        at = backend.now() - times.open
        readings.append([round(at, 4), *backend.read()])
        tick = max(tick + 1, int((backend.now() - times.open) / SAMPLE_S) + 1)
    backend.sleep_until(times.close)
    return readings


def idle_memory(backend) -> Optional[float]:
    """Memory in use before a run, MB, once what the run before it had is given back."""
    before = backend.read().memory_mb
    for _ in range(50):
        backend.sleep_until(backend.now() + SAMPLE_S)
        now = backend.read().memory_mb
        if now is None or before is None or now >= before:
            return now
        before = now
    return before


def measure(backend, run, settings: Dict) -> Dict:
    """Makes a run; whatever comes of it is a record for the journal."""
    record = attempt(backend, run, settings)
    if record["outcome"] == "did_not_fit" and backend.make_room():
        record = attempt(backend, run, settings)
    return record


def attempt(backend, run, settings: Dict) -> Dict:
    """Makes a run beside whatever rests on the GPU."""
    record: Dict = {"run": run.key, "began": backend.date(), "outcome": "ran"}
    workers, well = [], False
    try:
        record["idle_memory_mb"] = idle_memory(backend)
        for side, job in enumerate(run.jobs):
            workers.append(backend.start(job, side, run.key))
        record["rested"] = [worker.rested for worker in workers]
        limit = backend.now() + READY_S + settings["warm_up_s"]
        record["facts"] = [worker.ready(limit) for worker in workers]
        start = backend.now() + LEAD_S
        opened = start + settings["settle_s"]
        times = Times(start, opened, opened + settings["window_s"])
        for worker in workers:
            worker.go(times)
        readings = watch(backend, times)
        marks = [worker.marks(times.close + CLOSE_S) for worker in workers]
        record["steps_per_s"] = [rate(own, times.open, times.close) for own in marks]
        record["drift"] = [round(drift(own, times), 6) for own in marks]
        record["marks"] = [[[round(t - times.open, 6), steps] for t, steps in own] for own in marks]
        record["readings"] = readings
        if min(record["steps_per_s"]) <= 0.0:
            raise Failed("a job made no step in the window")
        well = True
    except DidNotFit as error:
        record.update(outcome="did_not_fit", why=str(error))
    except Failed as error:
        record.update(outcome="failed", why=str(error))
    finally:
        backend.leave(workers, well)
    return record
