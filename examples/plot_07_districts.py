"""
Districts: rates of groups from totals
======================================

How did young people vote, if votes are counted by district only? This is the problem of *ecological
inference*. Its classical answer is Goodman's regression; another is a model of single voters whose
expected votes add up to the counts. Each is right under an assumption that the totals alone cannot
check. Here the districts are made up, so that the truth is known, in three worlds.
"""

import matplotlib.pyplot as plt
import numpy as np

from apportion import CountLogistic, Totals

plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False})

# %%
# Three worlds
# ------------
#
# A voter is young or not and has an income, both of which the register knows. Districts with many
# young people are poorer.
#
# - *Age*: the vote depends on age alone.
# - *Income*: it depends on age and on income.
# - *Place*: it depends on age and on the share of young people in the district, whatever one's own
#   age and income.


def make_districts(world, n_districts=80, size=150, seed=0):
    """Return features, votes and districts of voters; feature 0 says who is young."""
    rng = np.random.default_rng(seed)
    share_young = rng.uniform(0.05, 0.6, n_districts)
    district = np.repeat(np.arange(n_districts), size)
    young = rng.random(len(district)) < share_young[district]
    income = rng.normal(0.0, 1.0, len(district)) - 3.0 * (share_young[district] - 0.325)
    effect = {"age": 0.0, "income": 1.2 * income, "place": 4.0 * (share_young[district] - 0.325)}
    logit = -0.8 + 1.2 * young + effect[world]
    vote = (rng.random(len(district)) < 1.0 / (1.0 + np.exp(-logit))).astype(int)
    return np.column_stack([young, income]), vote, district


# %%
# Two estimates
# -------------
#
# Goodman's regression fits a line to the districts: the share of votes against the share of young
# people. Its ends are the rates of the two groups. It is right if the rates of the groups do not
# change with the share of young people.
#
# :class:`~apportion.CountLogistic` is logistic regression if labels are known only as sums. It is
# right if the features explain the votes, and nothing else differs between districts. Its soft
# labels keep the counts of each district.


def goodman(young, district, votes):
    """Return the rates of others and of young people, by least squares over districts."""
    share = np.bincount(district, young) / np.bincount(district)
    design = np.column_stack([1.0 - share, share])
    return np.linalg.lstsq(design, votes / np.bincount(district), rcond=None)[0]


WORLDS = {"age": "vote depends on age", "income": "on age and income", "place": "on age and place"}
rates, by_district = {}, {}
for world in WORLDS:
    X, vote, district = make_districts(world)
    young, votes = X[:, 0] == 1, np.bincount(district, vote)
    totals = Totals.from_labels(vote, district)
    model = CountLogistic().fit(X - X.mean(axis=0), bags=district, proportions=totals)
    chance = model.label_distributions_[:, 1]
    rates[world] = {
        "truth": [vote[~young].mean(), vote[young].mean()],
        "Goodman": goodman(young, district, votes),
        "CountLogistic": [chance[~young].mean(), chance[young].mean()],
    }
    by_district[world] = [
        np.bincount(district, values * young) / np.bincount(district, young)
        for values in (vote, chance)
    ]
    for name, (others, of_young) in rates[world].items():
        print(f"{WORLDS[world]:20} {name:14} others {others:6.1%}, young {of_young:6.1%}")

# %%
# Rates of the groups
# -------------------
#
# In the first world, both are right. In the second, Goodman's regression takes the effect of income
# for one of age. In the third, both take the effect of the place for one of age, Goodman's
# regression beyond 100 %: no feature explains it, and nothing in the totals says so.
# ``CountLogistic`` is nearer only because income stands in for the place.

figure, axes = plt.subplots(1, 3, figsize=(8, 3.4), sharey=True, layout="constrained")
STYLES = {"truth": ("k", "_"), "Goodman": ("#E69F00", "s"), "CountLogistic": ("#0072B2", "o")}
for ax, world in zip(axes, WORLDS, strict=True):
    for shift, (name, (color, marker)) in zip([0, -0.15, 0.15], STYLES.items(), strict=True):
        size = 900 if name == "truth" else 50
        ax.scatter(np.arange(2) + shift, rates[world][name], size, color, marker=marker, label=name)
    ax.set_xticks([0, 1], ["others", "young"])
    ax.set(xlabel="age group", xlim=(-0.5, 1.5), title=WORLDS[world])
    ax.title.set_fontsize(10)
    ax.grid(axis="y", color="#DDDDDD", linewidth=0.6)
    ax.set_axisbelow(True)
axes[0].set_ylabel("rate of votes")
axes[0].yaxis.set_major_formatter("{x:.0%}")
for handle in axes[0].legend(frameon=False, fontsize=9).legend_handles:
    handle.set_sizes([50])
plt.show()

# %%
# Rates of young people, district by district
# -------------------------------------------
#
# Goodman's regression has one rate for all districts. Soft labels have one for each district,
# because they keep its count. How many labels of single people are right can be estimated, too:
# :ref:`sphx_glr_gallery_plot_06_choosing.py`.

figure, axes = plt.subplots(1, 3, figsize=(8, 3.1), sharex=True, sharey=True, layout="constrained")
for ax, world in zip(axes, WORLDS, strict=True):
    true, found = by_district[world]
    ax.plot([0, 1], [0, 1], color="#7F7F7F", linewidth=1)
    ax.axhline(rates[world]["Goodman"][1], color="#E69F00", linewidth=2, label="Goodman")
    ax.plot(true, found, "o", color="#0072B2", ms=4, alpha=0.7, mew=0, label="CountLogistic")
    error = np.abs(found - true).mean()
    print(f"{WORLDS[world]}: mean error {error:.3f}")
    ax.set_title(f"{WORLDS[world]}\nmean error {error:.2f}", fontsize=10)
    ax.set(xlabel="true rate", aspect="equal")
axes[0].set_ylabel("estimated rate")
axes[0].legend(frameon=False, fontsize=8, loc="upper left")
plt.show()
