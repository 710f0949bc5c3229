"""
Conversions that are reported in aggregate
==========================================

Measurement that protects privacy does not say which click led to a purchase. It reports, for
cohorts of clicks, how many did, and adds noise. This is enough to learn a rule that scores new
clicks one by one.
"""

from itertools import product

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from apportion import CountLogistic, Totals

plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False})

# %%
# Clicks
# ------
#
# Each click has eight features that the advertiser knows. About one in five leads to a purchase.
# Half of the clicks are reported in cohorts; the other half are new, and serve to judge the rules.

rng = np.random.default_rng(0)
X = rng.normal(size=(16_000, 8))
logit = -2.3 + X @ rng.normal(0.0, 0.55, 8)
bought = (rng.random(len(X)) < 1.0 / (1.0 + np.exp(-logit))).astype(int)
X, X_new, bought, bought_new = X[:8_000], X[8_000:], bought[:8_000], bought[8_000:]
print(f"{bought.mean():.1%} of {len(X):,} clicks led to a purchase")

# %%
# Reports
# -------
#
# The count of a cohort is reported with Laplace noise, as in differential privacy. Totals need not
# be whole numbers, but they cannot be negative. With a ``width``, they are intervals around the
# noisy counts.


def reported(bought, cohorts, scale, width=0.0):
    """Return the noisy counts of cohorts as totals."""
    size, count = np.bincount(cohorts), np.bincount(cohorts, bought)
    noisy = count + scale * rng.laplace(size=len(count))
    low, high = np.clip(noisy - width, 0, size), np.clip(noisy + width, 0, size)
    least, most = np.column_stack([size - high, low]), np.column_stack([size - low, high])
    return Totals.from_intervals(least, most, unit="count")


# %%
# Rules
# -----
#
# :class:`~apportion.CountLogistic` is fitted to cohorts of several sizes. It never sees whether a
# single click led to a purchase. The measure is the area under the ROC curve of new clicks: how
# often a click with a purchase scores higher than one without.

supervised = LogisticRegression().fit(X, bought)
best = roc_auc_score(bought_new, supervised.predict_proba(X_new)[:, 1])
sizes, scales = [10, 30, 100, 300], [0, 1, 3]
scores = {}
for scale, size in product(scales, sizes):
    for draw in range(3):
        cohorts = rng.permutation(len(X)) // size
        totals = reported(bought, cohorts, scale)
        model = CountLogistic().fit(X, bags=cohorts, proportions=totals)
        scores[scale, size, draw] = model.predict_proba(X_new)[:, 1]
areas = {key: roc_auc_score(bought_new, score) for key, score in scores.items()}
mean = {(a, b): np.mean([areas[a, b, draw] for draw in range(3)]) for a, b, _ in areas}
print(f"labels of all clicks: {best:.3f}")
for scale in scales:
    print(f"noise {scale}: " + ", ".join(f"{mean[scale, size]:.3f}" for size in sizes))

# %%
# Intervals of three times the scale hold the truth in 95 % of the cohorts, but a rule learns less
# from them than from the noisy counts, whose errors partly cancel out.

for width in [0, 9]:
    drawn = []
    for _ in range(3):
        cohorts = rng.permutation(len(X)) // 30
        totals = reported(bought, cohorts, scale=3, width=width)
        model = CountLogistic().fit(X, bags=cohorts, proportions=totals)
        drawn.append(roc_auc_score(bought_new, model.predict_proba(X_new)[:, 1]))
    areas_drawn = ", ".join(f"{area:.3f}" for area in drawn)
    print(f"cohorts of 30, noise 3, counts ± {width}: {areas_drawn}")

# %%
# What aggregation and noise cost
# -------------------------------
#
# Each point is the mean of three draws of cohorts and noise. Small cohorts lose little, but noise
# weighs more in them. Large cohorts are few, and teach less.

figure, ax = plt.subplots(figsize=(6.5, 3.9), layout="constrained")
ax.axhline(best, color="k", linewidth=1, linestyle="--", label="labels of all clicks")
for scale, color, marker in zip(scales, ["#0072B2", "#009E73", "#E69F00"], "osD", strict=True):
    curve = [mean[scale, size] for size in sizes]
    label = f"noise of scale {scale}" if scale else "without noise"
    ax.semilogx(sizes, curve, color=color, marker=marker, label=label)
ax.set_xticks(sizes, sizes)
ax.minorticks_off()
ax.set(xlabel="clicks per cohort", ylabel="area under the ROC curve, new clicks")
ax.grid(color="#DDDDDD", linewidth=0.6)
ax.legend(frameon=False)
plt.show()

# %%
# What it is good for
# -------------------
#
# Show the offer to the clicks with the highest scores: how many of the purchases are among them?

figure, ax = plt.subplots(figsize=(5.5, 4.2), layout="constrained")
reached = np.linspace(0, 1, len(X_new))
rules = {"labels of all clicks": (supervised.predict_proba(X_new)[:, 1], "k", "--")}
rules["cohorts of 30, noise of scale 3"] = (scores[3, 30, 0], "#0072B2", "-")
for name, (score, color, line) in rules.items():
    share = np.cumsum(bought_new[np.argsort(-score)]) / bought_new.sum()
    print(f"{name}: the best fifth of the clicks has {share[len(share) // 5]:.0%} of the purchases")
    ax.plot(reached, share, color=color, linestyle=line, linewidth=2, label=name)
ax.plot([0, 1], [0, 1], color="#7F7F7F", linewidth=1, label="at random")
ax.set(xlabel="share of new clicks, highest scores first", ylabel="share of purchases")
ax.xaxis.set_major_formatter("{x:.0%}")
ax.yaxis.set_major_formatter("{x:.0%}")
ax.legend(frameon=False, loc="lower right")
plt.show()
