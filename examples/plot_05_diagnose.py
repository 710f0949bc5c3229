"""
Which bags tell what
====================

If two classes have the same ratio in every bag, no method can tell from the totals which is which.
:func:`~apportion.diagnose` finds this out before anything is fitted, from the totals alone.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer, make_blobs
from sklearn.preprocessing import scale

from apportion import LPLLP, BagDesignWarning, diagnose
from apportion.datasets import make_bags

plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False})

# %%
# Two classes that the totals do not tell apart
# ---------------------------------------------
#
# In these bags, there is as much sitting as standing everywhere. Walking varies, so that it can be
# found.

ACTIVITIES = ["sit", "stand", "walk"]
alike = [[0.3, 0.3, 0.4], [0.4, 0.4, 0.2], [0.2, 0.2, 0.6]]
apart = [[0.4, 0.2, 0.4], [0.4, 0.4, 0.2], [0.1, 0.3, 0.6]]
X, codes = make_blobs([90, 90, 120], centers=[[0, 0], [4, 0], [2, 4]], random_state=0)
truth = np.array(ACTIVITIES)[codes]

bags, totals = make_bags(X, truth, proportions=alike, random_state=0)
print(diagnose(bags, totals))

# %%
# The same rows in other bags, where sitting and standing vary, too:

bags, totals = make_bags(X, truth, proportions=apart, random_state=0)
print(diagnose(bags, totals))

# %%
# What that means for labels
# --------------------------
#
# The index of a pair of classes is 0 if no bag tells them apart, and 1 if each bag holds only one
# of them. In the first design, sitting and standing are mixed up, how much is a matter of chance,
# and ``fit`` warns of that.


def accuracies(X, truth, proportions, n_draws):
    """Return the share of right labels in several draws of bags with the same shares."""
    right = []
    for seed in range(n_draws):
        bags, totals = make_bags(X, truth, proportions=proportions, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BagDesignWarning)
            model = LPLLP(random_state=seed).fit(X, bags=bags, proportions=totals)
        right.append(np.mean(model.transduction_ == truth))
    return right


figure, axes = plt.subplots(1, 2, figsize=(7.5, 3.5), layout="constrained")
designs = {"sit : stand is equal everywhere": alike, "sit : stand varies": apart}
for ax, (name, shares) in zip(axes, designs.items(), strict=True):
    diagnosis = diagnose(*make_bags(X, truth, proportions=shares, random_state=0))
    right = accuracies(X, truth, shares, 5)
    picture = ax.imshow(diagnosis.pairwise, cmap="Blues", vmin=0, vmax=0.2)
    for g, h in np.argwhere(np.isfinite(diagnosis.pairwise)):
        index = diagnosis.pairwise[g, h]
        ax.text(h, g, f"{index:.3f}", ha="center", va="center", color="k" if index < 0.1 else "w")
    ax.set_xticks(range(3), diagnosis.classes)
    ax.set_yticks(range(3), diagnosis.classes)
    ax.set_title(
        f"{name}:\n{min(right):.0%} to {max(right):.0%} of the labels are right", fontsize=10
    )
figure.colorbar(picture, ax=axes, label="information index of a pair", shrink=0.9)
plt.show()

# %%
# How much is enough?
# -------------------
#
# Two classes of real data in two bags, drawn three times. The more the shares of the two bags
# differ, the larger the index, and the more labels are right.

X, ill = load_breast_cancer(return_X_y=True)
X, share = scale(X), ill.mean()
index, right = [], []
for difference in [0.005, 0.02, 0.08, 0.4]:
    shares = [share - difference / 2, share + difference / 2]
    index.append(diagnose(*make_bags(X, ill, proportions=shares, random_state=0)).index)
    right.append(accuracies(X, ill, shares, 3))
    print(f"difference {difference:.1%}: {np.mean(right[-1]):.1%} right on average")

figure, ax = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
draws = ax.semilogx(index, right, "o", color="#E69F00", markeredgewidth=0)[0]
mean = ax.semilogx(index, np.mean(right, axis=1), color="#0072B2", linewidth=2)[0]
ax.set(xlabel="information index (logarithmic)", ylabel="share of right labels", ylim=(0.45, 1.01))
ax.yaxis.set_major_formatter("{x:.0%}")
ax.set_title(f"{len(X)} rows, two classes, two bags", fontsize=10, loc="left")
ax.grid(color="#DDDDDD", linewidth=0.6)
ax.legend([mean, draws], ["mean", "one draw of bags"], frameon=False, loc="lower right")
plt.show()
