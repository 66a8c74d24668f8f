"""The six questions of `tracecast rollup`, asked of DuckDB: `duckdb_rollup.py SOURCE OUT.json [--load] [--approx]`.

Six SQL statements over a Parquet file (each reads only its columns) or over a table loaded from CSV (parsed once, types
given so that nothing is guessed). `--load` loads Parquet into a table first too. Quantiles are exact (`quantile_disc`);
`--approx` uses DuckDB's t-digest instead. Two threads.
"""

import argparse
import json

import duckdb

TEN = 600_000
HOUR = 3_600_000

parser = argparse.ArgumentParser()
parser.add_argument("source")
parser.add_argument("out")
parser.add_argument("--load", action="store_true")
parser.add_argument("--approx", action="store_true")
args = parser.parse_args()

db = duckdb.connect()
db.execute("SET threads = 2; SET TimeZone = 'UTC'; SET preserve_insertion_order = false")
if args.source.endswith(".csv"):
    types = "{'submit': 'BIGINT', 'start': 'BIGINT', 'end': 'BIGINT', 'req_gpus': 'DOUBLE', 'state': 'VARCHAR', 'user': 'VARCHAR', 'vc': 'VARCHAR'}"
    db.execute(
        f"""CREATE TABLE jobs AS SELECT submit, start, "end", req_gpus, state, user
            FROM read_csv('{args.source}', header = true, delim = ',', columns = {types})"""
    )
else:
    kind = "TABLE" if args.load else "VIEW"
    db.execute(
        f"""CREATE {kind} jobs AS SELECT epoch_ms(submit) AS submit, epoch_ms(start) AS start, epoch_ms("end") AS "end",
            req_gpus, state, "user" FROM read_parquet('{args.source}')"""
    )

run_s = '("end" - start) / 1e3'
quantiles = (
    [f"approx_quantile({run_s}, {q})" for q in (0.5, 0.9, 0.99)]
    if args.approx
    else [f"quantile_disc({run_s}, [0.5, 0.9, 0.99])"]
)


def rows(sql):
    return db.execute(sql).fetchall()


size = rows(
    f"""WITH s AS (SELECT req_gpus AS gpus, count(*) AS jobs, sum(req_gpus * ("end" - start)) / {HOUR} AS hours
                   FROM jobs GROUP BY 1)
        SELECT gpus, jobs, hours, sum(jobs) OVER w / sum(jobs) OVER (), sum(hours) OVER w / sum(hours) OVER ()
        FROM s WINDOW w AS (ORDER BY gpus) ORDER BY gpus"""
)
duration = rows(f"SELECT req_gpus, {', '.join(quantiles)} FROM jobs GROUP BY 1 ORDER BY 1")
states = rows(f"""SELECT state, count(*), sum(req_gpus * ("end" - start)) / {HOUR} FROM jobs GROUP BY 1 ORDER BY 1""")
users = rows(
    f"""SELECT "user", count(*), sum(req_gpus * ("end" - start)) / {HOUR} AS hours FROM jobs GROUP BY 1
        ORDER BY hours DESC, 1 LIMIT 20"""
)
arrivals = rows(f"SELECT submit // {HOUR} AS hour, count(*) FROM jobs GROUP BY 1 ORDER BY 1")
in_use = rows(
    f"""WITH e AS (SELECT (start + {TEN - 1}) // {TEN} AS instant, req_gpus AS change FROM jobs
                   UNION ALL SELECT ("end" + {TEN - 1}) // {TEN}, -req_gpus FROM jobs),
             d AS (SELECT instant, sum(change) AS change FROM e GROUP BY 1),
             g AS (SELECT unnest(generate_series((SELECT min(instant) FROM d), (SELECT max(instant) FROM d))) AS instant)
        SELECT g.instant, sum(coalesce(d.change, 0)) OVER (ORDER BY g.instant) FROM g LEFT JOIN d USING (instant) ORDER BY 1"""
)
answer = {
    "size": [list(row) for row in size],
    "duration": [[row[0], *(row[1:] if args.approx else row[1])] for row in duration],
    "states": [list(row) for row in states],
    "users": [list(row) for row in users],
    "arrivals": [list(row) for row in arrivals],
    "in_use": [list(row) for row in in_use],
}
with open(args.out, "w", encoding="utf-8") as file:
    json.dump(answer, file)
