"""
Parquet files on a Dask cluster
===============================

When rows outgrow a machine, :class:`apportion.distributed.LPLLP` finds the same labels on a Dask
cluster. Each file is a partition that stays on its worker; only sums over rows travel. Here the
cluster is a thread of this process, and the files are small.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from distributed import Client

import apportion
from apportion import AnchorGraph, Totals
from apportion.distributed import LPLLP

# %%
# Files
# -----
#
# Rows of two kinds in 24 districts. The files are cut without regard to districts, so that many
# districts lie in several files.

rng = np.random.default_rng(0)
n_samples, n_files, n_districts = 6_000, 4, 24
district = np.sort(rng.integers(n_districts, size=n_samples))
district = district[np.argsort(np.arange(n_samples) + rng.normal(0, n_samples / 12, n_samples))]
second = rng.random(n_samples) < rng.uniform(0.1, 0.9, n_districts)[district]
kind = np.where(second, "b", "a")
X = rng.normal(size=(n_samples, 6)) + np.outer(second, [2.0, 1.5, 1.0, 0.0, 0.0, 0.0])
rows = pd.DataFrame(X, columns=[f"x{j}" for j in range(6)]).assign(district=district)
totals = Totals.from_labels(kind, district)

temporary = tempfile.TemporaryDirectory()
folder = Path(temporary.name) / "rows"
folder.mkdir()
for number, part in enumerate(np.array_split(np.arange(n_samples), n_files)):
    rows.iloc[part].to_parquet(folder / f"part-{number}.parquet")
print(*sorted(path.name for path in folder.iterdir()), sep=", ")

# %%
# Labels on the cluster
# ---------------------
#
# ``fit`` reads the folder, with the column of bags by its name. For a cluster of your own, pass its
# address to ``Client``. Labels are a Dask array; ``model.to_parquet`` would write them, one file
# per partition.

with Client(processes=False, n_workers=1, threads_per_worker=2, dashboard_address=":0") as client:
    model = LPLLP(random_state=0).fit(folder, bags="district", proportions=totals, client=client)
    labels = model.transduction_.compute()
temporary.cleanup()
print(f"{model.n_spanning_} of {n_districts} districts lie in several files")
print(f"{np.mean(labels == kind):.1%} of {n_samples:,} labels are right")
print(f"{model.n_requests_} requests of at most {model.bytes_per_request_:,} bytes per partition")

# %%
# The same on one machine
# -----------------------

alone = apportion.LPLLP(AnchorGraph(), random_state=0)
alone.fit(X, bags=district, proportions=totals)
print(f"{np.sum(alone.transduction_ != labels)} labels differ from those of one machine")

# %%
# Districts across files
# ----------------------
#
# On the left, where the rows of each district are; on the right, how many rows of each kind the
# districts were given and were assigned.

figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.8), layout="constrained")
files = np.repeat(np.arange(n_files), n_samples // n_files)
counts = np.zeros((n_files, n_districts), dtype=int)
np.add.at(counts, (files, district), 1)
picture = left.imshow(counts, aspect="auto", cmap="Blues")
left.set(xlabel="district", ylabel="file", yticks=range(n_files))
left.set_title("rows of each district in each file", fontsize=10, loc="left")
figure.colorbar(picture, ax=left, label="rows")
report = model.bag_report_
for h, (color, marker) in enumerate(zip(["#0072B2", "#E69F00"], "os", strict=True)):
    given, assigned = report.lower[:, h], report.assigned[report.decode][:, h]
    right.plot(given, assigned, marker, color=color, mew=0, label=report.classes[h])
right.axline((0, 0), slope=1, color="#7F7F7F", linewidth=1, zorder=0)
right.set(xlabel="given rows", ylabel="assigned rows")
right.set_title("totals of each kind and district", fontsize=10, loc="left")
right.spines[["top", "right"]].set_visible(False)
right.legend(frameon=False, title="kind")
plt.show()
