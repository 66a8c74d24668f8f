"""What is measured, and in which order.

A **job type** is a loop with a batch size; a **micro-load** takes one resource of the GPU and little else. Each job
type and micro-load runs alone, every two job types run together (a job type also beside itself), and each job type runs
beside each micro-load. All of that is one **repeat**. Runs of a repeat are in an order drawn from the seed, those alone
first; a measurement that stops early therefore has whole repeats, or a whole first one with some pairs missing.

**Groups** of three jobs and more are drawn from the seed, each multiset of job types as likely as any other, and every
repeat has the same. They come before the other pairs, each after the couples that are in it: where a measurement stops
early, what was measured of a group can still be compared with what its couples say.

Worked number: 12 job types and 4 micro-loads are 16 runs alone, 12 * 13 / 2 = 78 pairs and 12 * 4 = 48 runs beside
micro-loads: 142 runs a repeat. 24 groups of three and 12 of four make it 178.
"""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from typing import Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

# What starting a process, PyTorch and CUDA is taken to last, seconds. On an H100 with 16 cores it was 3 to 10.
START_S = 15.0
# Fewest jobs of a group, and most: so many does `tracecast` forecast together.
FEWEST_TOGETHER, MOST_TOGETHER = 3, 16


class Job(NamedTuple):
    """A job type or a micro-load."""

    name: str
    family: str
    # Function of `loops` that builds it.
    loop: str
    # Samples of a step; none of a micro-load.
    batch: Optional[int]
    precision_bits: int
    is_micro: bool


class Run(NamedTuple):
    """One measurement: a job alone, or several together."""

    jobs: Tuple[Job, ...]
    repeat: int

    @property
    def key(self) -> str:
        """What tells it from all others."""
        return f"{' + '.join(job.name for job in self.jobs)} #{self.repeat}"


# Family, function of `loops`, batch sizes, bits of most numbers.
LOOPS = [
    ("cnn-train", "cnn_train", (32, 128), 32),
    ("cnn-infer", "cnn_infer", (1, 64), 16),
    ("encoder-train", "encoder_train", (8, 32), 16),
    ("lstm-train", "lstm_train", (20, 80), 32),
    ("recommender-train", "recommender_train", (1024, 16384), 32),
    ("decode-infer", "decode_infer", (1, 16), 16),
]
MICRO = [
    ("micro-compute", "micro_compute"),
    ("micro-dram", "micro_dram"),
    ("micro-l2", "micro_l2"),
    ("micro-pcie", "micro_pcie"),
]
FAMILIES = [family for family, *_ in LOOPS]


def jobs(families: Sequence[str]) -> List[Job]:
    """Job types of some families. `tracecast` reads the batch size from such a name as well."""
    return [
        Job(f"{family} (batch size {batch})", family, loop, batch, bits, False)
        for family, loop, batches, bits in LOOPS
        if family in families
        for batch in batches
    ]


def micro_loads() -> List[Job]:
    """All micro-loads."""
    return [Job(name, name, loop, None, 32, True) for name, loop in MICRO]


def groups(loops: Sequence[Job], sizes: Dict[int, int], seed: int) -> List[Tuple[Job, ...]]:
    """So many groups of each size; all that there are where these are fewer."""
    found: Dict[Tuple[Job, ...], None] = {}
    for size, count in sorted(sizes.items()):
        draw = random.Random(f"{seed}/groups of {size}")
        # `size` of so many places without replacement, each less the number of those before it, are a multiset.
        places = range(len(loops) + size - 1)
        most = len(found) + min(count, math.comb(len(places), size))
        while len(found) < most:
            drawn = sorted(draw.sample(places, size))
            found.setdefault(tuple(loops[place - before] for before, place in enumerate(drawn)))
    return list(found)


def runs(families: Sequence[str], with_micro: bool, repeats: int, seed: int, sizes: Dict[int, int]) -> List[Run]:
    """All runs in the order in which they are made; `sizes` says how many groups there are of each size."""
    loops = jobs(families)
    micro = micro_loads() if with_micro else []
    together = list(itertools.combinations_with_replacement(loops, 2)) + list(itertools.product(loops, micro))
    drawn = groups(loops, sizes, seed)
    ordered: List[Run] = []
    for repeat in range(1, repeats + 1):
        draw = random.Random(f"{seed}/{repeat}")
        alone = [Run((job,), repeat) for job in loops + micro]
        shared = [Run(couple, repeat) for couple in together]
        draw.shuffle(alone)
        draw.shuffle(shared)
        grouped = list(drawn)
        draw.shuffle(grouped)
        first: List[Run] = []
        for group in grouped:
            first += [Run(couple, repeat) for couple in itertools.combinations(group, 2)]
            first.append(Run(group, repeat))
        # Each run once, where it comes first.
        ordered += dict.fromkeys(alone + first + shared)
    return ordered


def by_name(job: Job, _: int) -> str:
    """Takes processes of a job for each other, whichever side of a run they are."""
    return job.name


def processes(runs: Iterable[Run], key: Callable[[Job, int], str] = by_name) -> Counter:
    """How many processes of each job some runs need at once, where these stay between runs."""
    needed: Counter = Counter()
    for run in runs:
        needed |= Counter(key(job, side) for side, job in enumerate(run.jobs))
    return needed


def seconds(runs: Sequence[Run], settings: Dict) -> float:
    """How long some runs are expected to last. Jobs are taken to start for every run, unless all may be kept."""
    needed = sum(processes(runs).values())
    starts = needed if settings["keep"] >= needed else len(runs)
    return starts * (START_S + settings["warm_up_s"]) + len(runs) * (settings["settle_s"] + settings["window_s"])
