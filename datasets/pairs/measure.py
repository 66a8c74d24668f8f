"""Measures who slows whom on this machine's GPU, for `tracecast model backtest interference`.

    python3 datasets/pairs/measure.py --out our-pairs
    tracecast model backtest interference our-pairs/pairs.csv --profiles our-pairs/profiles.csv

Common training and inference loops run alone, in pairs, in larger groups where that is asked for, and beside loads of
one resource; `datasets/README.md` says what the files hold. The same command again goes on where an earlier one was
interrupted. Exit codes: 0 done, 1 failed, 2 wrong usage, 130 or 143 interrupted (what was measured is kept).
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shlex
import signal
import sys
from pathlib import Path
from typing import Dict, List, Optional

import plan
import tables
from journal import Journal, uninterrupted
from runner import Unfit
from runner import measure as make_run

# So many runs in a row that fail are no accident.
MOST_FAILURES = 3


class Interrupted(BaseException):
    """A signal that ends the measurement."""

    def __init__(self, number: int):
        super().__init__()
        self.code = 128 + number


def positive(text: str) -> float:
    """A number above 0."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0.0 < number < 1e6:
        raise argparse.ArgumentTypeError("write a number above 0, and below a million")
    return number


def count(text: str) -> int:
    """A whole number from 1."""
    number = int(text) if text.isdecimal() else 0
    if not 0 < number <= 1000:
        raise argparse.ArgumentTypeError("write a whole number from 1 to 1000")
    return number


def group_sizes(text: str) -> Dict[int, int]:
    """How many groups of each size: `3=24,4=12`."""
    sizes: Dict[int, int] = {}
    for part in text.split(","):
        size, _, number = part.strip().partition("=")
        size = int(size) if size.isdecimal() and len(size) < 4 else 0
        if not plan.FEWEST_TOGETHER <= size <= plan.MOST_TOGETHER or size in sizes:
            few, most = plan.FEWEST_TOGETHER, plan.MOST_TOGETHER
            raise argparse.ArgumentTypeError(f"write each number of jobs from {few} to {most} once: 3=24,4=12")
        sizes[size] = count(number)
    return sizes


def arguments() -> argparse.ArgumentParser:
    """The options."""
    parser = argparse.ArgumentParser(prog="measure.py", description=__doc__.split("\n", 1)[0], allow_abbrev=False)
    add = parser.add_argument
    add("--out", type=Path, metavar="FOLDER", help="where the files go; a folder with an earlier part is gone on with")
    backends = "a GPU with PyTorch, or made-up jobs in virtual time, to try the tool [torch]"
    add("--backend", choices=("torch", "simulated"), default="torch", help=backends)
    modes = "how jobs share the GPU; mig needs two instances that exist [time-slicing]"
    add("--mode", choices=tuple(tables.MODES), default="time-slicing", help=modes)
    add("--gpu", type=int, default=0, metavar="N", help="number of the GPU in nvidia-smi [0]")
    add("--gpu-type", metavar="NAME", help="name of the GPU type in the files [the driver's name, and the mode]")
    add("--families", metavar="A,B", help=f"loops to measure, of {', '.join(plan.FAMILIES)} [all]")
    add("--no-micro", action="store_true", help="leave out the loads of one resource")
    grouped = "how many groups of three jobs and more to draw and measure as well: 3=24,4=12 [none]"
    add("--groups", type=group_sizes, default={}, metavar="N=COUNT", help=grouped)
    repeats = "how often everything is measured; more may be asked for later [3]"
    add("--repeats", type=count, default=3, metavar="N", help=repeats)
    warm_up = "seconds that each job runs before it counts as ready [5]"
    add("--warm-up", type=positive, default=5.0, metavar="S", help=warm_up)
    settle = "seconds that jobs run together before the window opens [2]"
    add("--settle", type=positive, default=2.0, metavar="S", help=settle)
    add("--window", type=positive, default=10.0, metavar="S", help="seconds that are measured [10]")
    kept = "leave up to N jobs on the GPU between runs, where memory suffices: starts are what takes longest [0]"
    add("--keep", type=count, default=0, metavar="N", help=kept)
    add("--seed", type=int, default=1, help="of the order of runs and of the data [1]")
    stop_after = "begin no run later than that many minutes after the start; the same command goes on"
    add("--stop-after", type=positive, metavar="MIN", help=stop_after)
    only_plan = "say how much there is to measure and how long that takes, and measure nothing"
    add("--plan", action="store_true", help=only_plan)
    return parser


def families(asked: Optional[str], parser: argparse.ArgumentParser) -> List[str]:
    """The families that are measured, in their usual order."""
    if asked is None:
        return plan.FAMILIES
    names = {name.strip() for name in asked.split(",")}
    unknown = sorted(names - set(plan.FAMILIES))
    if unknown:
        parser.error(f"argument --families: {', '.join(unknown)} is none of {', '.join(plan.FAMILIES)}")
    return [family for family in plan.FAMILIES if family in names]


def open_backend(options, settings: Dict):
    """The backend that was asked for, looked at: it can begin."""
    if options.backend == "simulated":
        from simulated import Simulated

        return Simulated(settings)
    if importlib.util.find_spec("torch") is None:
        raise Unfit(
            f"PyTorch is not installed for {sys.executable}; install it (python3 -m pip install torch), "
            "or try the tool without it: --backend simulated"
        )
    from gpu import Gpu

    return Gpu(settings, options.out)


def told(seconds: float) -> str:
    """A length of time for people."""
    return f"{seconds / 3600.0:.1f} h" if seconds >= 5400.0 else f"{max(1, round(seconds / 60.0))} min"


def go_through(backend, runs: List, journal: Journal, settings: Dict, stop_after: Optional[float]) -> None:
    """Makes the runs that the journal does not hold."""
    todo = [run for run in runs if journal.runs.get(run.key, {}).get("outcome", "failed") == "failed"]
    backend.open(todo)
    # What does not run alone runs with nobody. The same command tries one that failed again, alone first.
    alone = (run for run in runs if len(run.jobs) == 1)
    unfit = {run.jobs[0].name for run in alone if journal.runs.get(run.key, {}).get("outcome") == "did_not_fit"}
    began, failures = backend.now(), 0
    for number, run in enumerate(todo, start=1):
        if stop_after is not None and backend.now() - began > 60.0 * stop_after:
            print(f"stopped after {told(backend.now() - began)}; the same command goes on", file=sys.stderr)
            return
        if any(job.name in unfit for job in run.jobs):
            continue
        record = make_run(backend, run, settings)
        journal.add(record)
        if record["outcome"] != "ran" and len(run.jobs) == 1:
            unfit.add(run.jobs[0].name)
        if record["outcome"] == "ran":
            said = " and ".join(f"{rate:.4g}" for rate in record["steps_per_s"]) + " steps/s"
        else:
            said = f"{record['outcome'].replace('_', ' ')}: {record['why']}"
        left = (backend.now() - began) / number * (len(todo) - number)
        print(f"[{number}/{len(todo)}] {run.key}: {said}; about {told(left)} left", file=sys.stderr)
        failures = failures + 1 if record["outcome"] == "failed" else 0
        if failures == MOST_FAILURES:
            raise Unfit(f"{failures} runs in a row failed; the last one: {record['why']}")


def name_of(about: Dict, options) -> str:
    """The GPU type in the files. It tells the mode, so that files of two modes can be put together.

    It also tells what was not measured."""
    name = options.gpu_type or f"{about['gpu_name']} ({tables.MODES[options.mode]})"
    is_told = options.backend != "simulated" or name.startswith("simulated")
    return name if is_told else f"simulated {name}"


def run(options, parser: argparse.ArgumentParser) -> None:
    """Does what was asked for."""
    chosen = families(options.families, parser)
    settings = {
        "mode": options.mode,
        "gpu": options.gpu,
        "families": chosen,
        "micro": not options.no_micro,
        "warm_up_s": options.warm_up,
        "settle_s": options.settle,
        "window_s": options.window,
        "keep": options.keep,
        "seed": options.seed,
    }
    if options.groups:
        if options.mode == "mig":
            parser.error("argument --groups: with --mode mig jobs run on two instances, one on each")
        # A journal that began without groups has no such entry.
        settings["groups"] = {str(size): number for size, number in sorted(options.groups.items())}
    runs = plan.runs(chosen, settings["micro"], options.repeats, options.seed, options.groups)
    if options.plan:
        made = f"{len(runs)} runs ({options.repeats} repeats of {len(runs) // options.repeats})"
        print(f"{made}, about {told(plan.seconds(runs, settings))} with {plan.START_S:.0f} s for each start")
        return
    if options.out is None:
        parser.error("--out is needed: the folder for the files")
    options.out.mkdir(parents=True, exist_ok=True)
    # Held before anything is looked at, as what an earlier measurement left is stopped, and what another one uses is not.
    journal = Journal(options.out)
    try:
        backend = open_backend(options, settings)
        try:
            backend.check()
            device = backend.about()
            name = name_of(device, options)
            head = {"backend": options.backend, "settings": settings, "device": device, "gpu_type": name}
            journal.resume(head)
            session(backend, runs, journal, head, options)
        finally:
            backend.close()
    finally:
        journal.close()


def session(backend, runs: List, journal: Journal, head: Dict, options) -> None:
    """One sitting: runs, and the files of all runs so far, whatever ends it."""
    command = " ".join(map(shlex.quote, ["python3", *sys.argv]))
    journal.add({"session": {"began": backend.date(), "ended": None, "command": command}})
    try:
        go_through(backend, runs, journal, head["settings"], options.stop_after)
    finally:
        with uninterrupted():
            journal.add({"ended": backend.date()})
            made_by = {"format": 1, "made_by": "datasets/pairs/measure.py", "note": backend.NOTE}
            manifest = {**made_by, **head, "repeats": options.repeats}
            manifest = tables.write(options.out, head["gpu_type"], runs, journal, manifest)
    counts = manifest["runs"]
    done = f"{counts['ran'] + counts['did_not_fit']} of {counts['planned']} runs are in {options.out}"
    print(f"{done}: {', '.join(manifest['files'])}, manifest.json", file=sys.stderr)
    for line in manifest["left_out"]:
        print(f"left out: {line}", file=sys.stderr)


def interrupt(number: int, _) -> None:
    """Answers a signal."""
    raise Interrupted(number)


def main() -> int:
    parser = arguments()
    options = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)
    try:
        run(options, parser)
    except Interrupted as ended:
        print("interrupted: what was measured is kept, and the same command goes on", file=sys.stderr)
        return ended.code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except (Unfit, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
