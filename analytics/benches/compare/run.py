"""Measures `tracecast query --standard` and `tracecast query` against DuckDB and pandas and prints Markdown tables.

    python run.py --philly TRACES/philly/philly_jobs.csv.gz

Makes the tables with the `replicate` example, then runs every contender in turn, several rounds, each in a process of its
own on two cores, checks that all give the same answers (counts exactly, GPU time to 1e-9, quantiles within the bound that
the rollup states) and prints medians of CPU time (user + system), wall time and peak resident memory. `--scale` measures
the rollup's memory at other row counts. Needs Linux, GNU time, and a Python with duckdb, pandas and pyarrow.
"""

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
HOUR = 3_600_000
TEN = 600_000


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    traces = os.environ.get("TRACECAST_TRACES")
    parser.add_argument("--philly", default=traces and f"{traces}/philly/philly_jobs.csv.gz", help="philly_jobs.csv.gz")
    parser.add_argument(
        "--command",
        default=os.environ.get("TRACECAST_ROLLUP", "target/release/tracecast query --standard {source} --threads 2 --format json"),
        help="what prints the rollup of {source} as JSON, from the repository's root",
    )
    parser.add_argument("--replicate", default="target/release/examples/replicate", help="the replicate example")
    parser.add_argument("--rows", type=int, default=11_200_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", default="0,1", help="cores that everything runs on")
    parser.add_argument("--work", default="/tmp/tracecast-rollup", help="folder for the tables, 3 GB for 11.2 M rows")
    parser.add_argument("--scale", type=int, nargs="*", default=[], metavar="ROWS", help="measure memory at these too")
    parser.add_argument("--keep", action="store_true", help="keep the tables")
    options = parser.parse_args()
    if not options.philly:
        parser.error("--philly or TRACECAST_TRACES is needed")
    return options


def measure(command, work, output=None):
    """CPU seconds, wall seconds and peak resident bytes of a command, as GNU time saw them."""
    report = work / "time.txt"
    # A small process between: a child starts out with the peak of the process that started it.
    timed = ["/usr/bin/time", "-q", "-o", str(report), "-f", "%U %S %e %M", *command]
    with open(output or os.devnull, "wb") as stdout:
        subprocess.run(timed, check=True, cwd=ROOT, stdout=stdout)
    user, system, wall, peak = report.read_text(encoding="utf-8").split()
    return float(user) + float(system), float(wall), int(peak) * 1024


def ours(options, source):
    return shlex.split(options.command.replace("{source}", str(source)))


def answer_of_rollup(path):
    rollup = json.loads(path.read_text(encoding="utf-8"))
    arrivals, in_use = rollup["arrivals"], rollup["in_use"]
    return {
        "size": [
            [s["gpus"], s["jobs"], s["gpu_hours"], s["jobs_cdf_ratio"], s["gpu_time_cdf_ratio"]] for s in rollup["size"]
        ],
        "duration": [[s["gpus"], *(s["duration"][q] for q in ("p50_s", "p90_s", "p99_s"))] for s in rollup["size"]],
        "states": [[s["state"], s["jobs"], s["gpu_hours"]] for s in rollup["states"]],
        "users": [[u["user"], u["jobs"], u["gpu_hours"]] for u in rollup["users"]],
        "arrivals": [[arrivals["first_ms"] // HOUR + ix, n] for ix, n in enumerate(arrivals["jobs"])],
        "in_use": [[in_use["first_ms"] // TEN + ix, g] for ix, g in enumerate(in_use["gpus"])],
        "bound": rollup["duration_error_ratio"],
    }


def agree(name, mine, other, bound):
    """Stops the run where two answers differ."""

    def check(what, a, b, tolerance):
        if type(a) is str or tolerance == 0:
            same = a == b
        else:
            same = abs(a - b) <= tolerance * max(abs(a), abs(b)) + 1e-6
        if not same:
            sys.exit(f"{name}: {what} is {b!r} where the rollup says {a!r}")

    for question, tolerance in (("size", 1e-9), ("duration", bound), ("states", 1e-9), ("users", 1e-9)):
        a, b = (sorted(rows[question]) for rows in (mine, other))
        check(f"number of rows of {question}", len(a), len(b), 0)
        for left, right in zip(a, b):
            for ix, (x, y) in enumerate(zip(left, right)):
                exact = ix == 0 or (ix == 1 and question != "duration")
                check(f"{question} of {left[0]}", x, y, 0 if exact else tolerance)
    for question in ("arrivals", "in_use"):
        # Zeros between and around are told by some and left out by others.
        a, b = ({at: n for at, n in rows[question] if abs(n) > 1e-6} for rows in (mine, other))
        check(f"instants of {question}", sorted(a), sorted(b), 0)
        for at, n in a.items():
            check(f"{question} at {at}", n, b[at], 0 if question == "arrivals" else 1e-9)


def generate(options, work, rows, kinds=("parquet", "csv")):
    outputs = [work / f"jobs-{rows}.{kind}" for kind in kinds]
    missing = [str(path) for path in outputs if not path.exists()]
    if missing:
        subprocess.run([ROOT / options.replicate, options.philly, str(rows), *missing], check=True)
    return outputs


def mib(count):
    return f"{count / 2**20:,.0f}"


def compare(options, work):
    parquet, csv = generate(options, work, options.rows)
    duck = [sys.executable, str(HERE / "duckdb_rollup.py")]
    contenders = {
        ("tracecast", "Parquet"): (ours(options, parquet), None),
        ("tracecast query, exact quantiles", "Parquet"): ([sys.executable, str(HERE / "query_rollup.py"), str(parquet)], []),
        ("DuckDB", "Parquet"): ([*duck, str(parquet)], []),
        ("DuckDB, loaded into a table first", "Parquet"): ([*duck, str(parquet)], ["--load"]),
        ("DuckDB, approximate quantiles", "Parquet"): ([*duck, str(parquet)], ["--approx"]),
        ("pandas", "Parquet"): ([sys.executable, str(HERE / "pandas_rollup.py"), str(parquet)], []),
        ("tracecast", "CSV"): (ours(options, csv), None),
        ("DuckDB", "CSV"): ([*duck, str(csv)], []),
        ("DuckDB, approximate quantiles", "CSV"): ([*duck, str(csv)], ["--approx"]),
    }
    figures = {who: [] for who in contenders}
    answers = {}
    for _ in range(options.rounds):
        for number, (who, (command, extra)) in enumerate(contenders.items()):
            out = work / f"answer-{number}.json"
            if extra is None:
                figures[who].append(measure(command, work, out))
                answers[who] = answer_of_rollup(out)
            else:
                figures[who].append(measure([*command, str(out), *extra], work))
                answers[who] = json.loads(out.read_text(encoding="utf-8"))
    mine = answers["tracecast", "Parquet"]
    for who, answer in answers.items():
        # A digest promises no bound at all; what it says is only looked at for its other answers.
        agree(", ".join(who), mine, answer, 1.0 if "approximate quantiles" in who[0] else mine["bound"])
    print(f"{options.rows:,} rows; Parquet {mib(parquet.stat().st_size)} MiB, CSV {mib(csv.stat().st_size)} MiB; "
          f"two cores; medians of {options.rounds}. All answers agree.\n")
    print("| Input | Program | CPU s | ratio | Wall s | ratio | Peak MiB | ratio |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    median = {who: [statistics.median(column) for column in zip(*rows)] for who, rows in figures.items()}
    for (name, kind), (cpu, wall, peak) in median.items():
        base = median["tracecast", kind]
        print(f"| {kind} | {name} | {cpu:.2f} | {cpu / base[0]:.1f} | {wall:.2f} | {wall / base[1]:.1f} "
              f"| {mib(peak)} | {peak / base[2]:.1f} |")
    if not options.keep:
        parquet.unlink()
        csv.unlink()


def scale(options, work):
    print("\n| Rows | Input | File MiB | CPU s | Wall s | Peak MiB |")
    print("| ---: | --- | ---: | ---: | ---: | ---: |")
    for rows in options.scale:
        for kind in ("parquet", "csv"):
            [path] = generate(options, work, rows, [kind])
            out = work / "answer-scale.json"
            cpu, wall, peak = [
                statistics.median(column) for column in zip(*(measure(ours(options, path), work, out) for _ in range(3)))
            ]
            if json.loads(out.read_text(encoding="utf-8"))["rows"] != rows:
                sys.exit(f"{path}: not all rows were counted")
            name = {"parquet": "Parquet", "csv": "CSV"}[kind]
            print(f"| {rows:,} | {name} | {mib(path.stat().st_size)} | {cpu:.2f} | {wall:.2f} | {peak / 2**20:.1f} |", flush=True)
            if not options.keep:
                path.unlink()


def main():
    options = arguments()
    work = Path(options.work)
    work.mkdir(parents=True, exist_ok=True)
    os.sched_setaffinity(0, {int(core) for core in options.cores.split(",")})
    compare(options, work)
    if options.scale:
        scale(options, work)


if __name__ == "__main__":
    main()
