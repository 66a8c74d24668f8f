"""The six questions of `tracecast rollup`, asked of pandas: `pandas_rollup.py SOURCE.parquet OUT.json`.

The columns needed are read at once (pyarrow, two threads), texts as categories so that grouping does not compare
strings. Quantiles are exact (`interpolation="lower"`).
"""

import json
import sys

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

TEN = 600_000
HOUR = 3_600_000

source, out = sys.argv[1:]
pa.set_cpu_count(2)
pa.set_io_thread_count(2)
columns = ["submit", "start", "end", "req_gpus", "state", "user"]
jobs = pq.read_table(source, columns=columns, read_dictionary=["state", "user"]).to_pandas(self_destruct=True)
submit, start, end = (jobs[name].astype("int64") for name in ("submit", "start", "end"))
run = end - start
gpus = jobs["req_gpus"]
hours = gpus * run / HOUR

by_size = hours.groupby(gpus).agg(["count", "sum"])
cdf = by_size.cumsum() / by_size.sum()
size = [
    [float(g), int(n), float(h), float(a), float(b)]
    for g, n, h, a, b in zip(by_size.index, by_size["count"], by_size["sum"], cdf["count"], cdf["sum"])
]
quantiles = (run / 1e3).groupby(gpus).quantile([0.5, 0.9, 0.99], interpolation="lower").unstack()
duration = [[float(g), *(float(value) for value in row)] for g, row in zip(quantiles.index, quantiles.to_numpy())]
by_state = hours.groupby(jobs["state"], observed=True).agg(["count", "sum"])
by_user = hours.groupby(jobs["user"], observed=True).agg(["count", "sum"]).sort_values("sum", ascending=False).head(20)
arrivals = (submit // HOUR).value_counts(sort=False).sort_index()
up = gpus.groupby((start + TEN - 1) // TEN).sum()
down = gpus.groupby((end + TEN - 1) // TEN).sum()
change = up.sub(down, fill_value=0)
grid = range(int(change.index.min()), int(change.index.max()) + 1)
in_use = change.reindex(grid, fill_value=0).cumsum()

answer = {
    "size": size,
    "duration": duration,
    "states": [[str(name), int(n), float(h)] for name, n, h in by_state.itertuples()],
    "users": [[str(name), int(n), float(h)] for name, n, h in by_user.itertuples()],
    "arrivals": [[int(hour), int(n)] for hour, n in arrivals.items()],
    "in_use": [[int(at), float(g)] for at, g in in_use.items()],
}
with open(out, "w", encoding="utf-8") as file:
    json.dump(answer, file)
