"""LightGBM on the rows that `cargo bench -p tracecast-predictors --bench trees -- 1000000 FOLDER` left: python lightgbm_same.py FOLDER."""

import sys
import time

import lightgbm
import numpy

COLUMNS = 20


def read(name):
    rows = numpy.fromfile(f"{sys.argv[1]}/{name}.x", dtype="<f4").reshape(-1, COLUMNS)
    return rows, numpy.fromfile(f"{sys.argv[1]}/{name}.y", dtype="<f4")


(train_x, train_y), (test_x, test_y) = read("train"), read("test")
options = {
    "objective": "regression", "num_leaves": 63, "learning_rate": 0.1, "min_data_in_leaf": 20, "lambda_l2": 0.0,
    "max_bin": 255, "num_threads": 1, "verbose": -1, "seed": 1,
}
began = time.process_time()
model = lightgbm.train(options, lightgbm.Dataset(train_x, train_y), 300)
fit = time.process_time() - began
began = time.process_time()
said = model.predict(test_x, num_threads=1)
predict = time.process_time() - began
r2 = 1 - ((test_y - said) ** 2).sum() / ((test_y - test_y.mean()) ** 2).sum()
print(f"LightGBM {lightgbm.__version__}, {len(train_y)} rows: fit {fit:.2f} s CPU, R² {r2:.4f}, {len(test_y) / predict:.0f} predictions/s")
