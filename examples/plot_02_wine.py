"""
Wine in crates
==============

Bottles of wine from three growers are packed in crates. For each crate we know how many bottles
come from each grower; for a single bottle we know only its chemistry. Which bottle is whose?
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA
from sklearn.preprocessing import scale

from apportion import LPLLP
from apportion.datasets import make_bags
from apportion.plotting import BagReportDisplay

plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False})

# %%
# Crates and their totals
# -----------------------
#
# The bottles are dealt to six crates at random. ``totals`` holds the counts of growers per crate.
# Your own totals can be a dataframe with one row per bag and one column per class.

X, number = load_wine(return_X_y=True)
grower = np.array(["grower A", "grower B", "grower C"])[number]
crates, totals = make_bags(X, grower, n_bags=6, random_state=0)
print(totals)

# %%
# A label for every bottle
# ------------------------
#
# Features have units of their own, so they are scaled first: the graph sees only distances.

model = LPLLP(random_state=0).fit(scale(X), bags=crates, proportions=totals)
right = model.transduction_ == grower
print(model.bag_report_)
print(f"right: {right.mean():.1%} of {len(X)} bottles")

# %%
# Every crate gets what was packed. The display shows the given totals above the assigned ones.

BagReportDisplay.from_estimator(model)
plt.show()

# %%
# Where it goes wrong
# -------------------
#
# On the first two principal components, the three growers are three clouds. The wrong labels are
# bottles on the border between two of them, exchanged within a crate: such an exchange changes no
# total.

figure, ax = plt.subplots(figsize=(6.5, 4.5), layout="constrained")
at = PCA(2).fit_transform(scale(X))
for name, color, marker in zip(
    model.classes_, ["#0072B2", "#E69F00", "#56B4E9"], "osD", strict=True
):
    mine = model.transduction_ == name
    ax.scatter(*at[mine].T, c=color, marker=marker, s=28, linewidths=0, label=f"labeled {name}")
ax.scatter(*at[~right].T, s=150, facecolors="none", edgecolors="black", label="wrong")
ax.set(xlabel="first principal component", ylabel="second principal component")
ax.set_title(f"{right.mean():.1%} of {len(X)} bottles are labeled right", fontsize=10, loc="left")
ax.legend(frameon=False, fontsize=9)
plt.show()

# sphinx_gallery_thumbnail_number = 2
