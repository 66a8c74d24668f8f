"""The six questions of `tracecast rollup`, asked of `tracecast query`: `query_rollup.py SOURCE.parquet OUT.json [--command target/release/tracecast]`.

Six SQL statements over a Parquet file, each a process of its own that reads only its columns. Quantiles are exact. Two threads. The bundled sample is
named beside the file, as a query is always about a trace.
"""

import argparse
import json
import subprocess

TEN = 600_000
HOUR = 3_600_000

parser = argparse.ArgumentParser()
parser.add_argument("source")
parser.add_argument("out")
parser.add_argument("--command", default="target/release/tracecast")
args = parser.parse_args()

BEGIN, END, SUBMIT = (f'cast("{column}" as bigint)' for column in ("start", "end", "submit"))
RUN_S = f"({END} - {BEGIN}) / 1000.0"
GPU_HOURS = f"sum(req_gpus * ({END} - {BEGIN})) / {HOUR}"


def rows(sql):
    command = [args.command, "query", "datasets/sample", sql, "--with", f"big={args.source}", "--threads", "2", "--format", "jsonl"]
    found = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return [list(json.loads(line).values()) for line in found.splitlines()]


def sums(column):
    return f"select {column}, count(*) as jobs, {GPU_HOURS} as hours from big group by {column}"


sizes = rows(f"{sums('req_gpus')} order by req_gpus")
jobs, hours = (sum(size[ix] for size in sizes) for ix in (1, 2))
size, so_far = [], [0, 0]
for gpus, count, gpu_hours in sizes:
    so_far = [so_far[0] + count, so_far[1] + gpu_hours]
    size.append([gpus, count, gpu_hours, so_far[0] / jobs, so_far[1] / hours])
quantiles = ", ".join(f"quantile_disc({RUN_S}, {q}) as q{ix}" for ix, q in enumerate((0.5, 0.9, 0.99)))
duration = rows(f"select req_gpus, {quantiles} from big group by req_gpus order by req_gpus")
states = rows(f"{sums('state')} order by state")
users = rows(f'{sums("user")} order by hours desc, "user" limit 20')
arrivals = rows(f"select {SUBMIT} // {HOUR} as hour, count(*) as jobs from big group by {SUBMIT} // {HOUR} order by hour")
changes = rows(
    f"""select instant, sum(gpus) as gpus from (
          select ({BEGIN} + {TEN - 1}) // {TEN} as instant, req_gpus as gpus from big
          union all select ({END} + {TEN - 1}) // {TEN} as instant, -req_gpus as gpus from big
        ) as changes group by instant order by instant"""
)
in_use, gpus, at = [], 0.0, None
for instant, change in changes:
    if at is not None:
        in_use.extend([between, gpus] for between in range(at, instant))
    gpus, at = gpus + change, instant
answer = {"size": size, "duration": duration, "states": states, "users": users, "arrivals": arrivals, "in_use": in_use + [[at, gpus]]}
with open(args.out, "w", encoding="utf-8") as file:
    json.dump(answer, file)
