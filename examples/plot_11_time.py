"""
Labels that know time
=====================

Rows that are windows in time are not independent: most windows have the activity of the one before.
Give ``fit`` the times, and labels stop flickering.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.patches import Patch

from apportion import LPLLP, Totals

# %%
# A recording
# -----------
#
# Three activities, each of which lasts about twelve minutes. A row is a minute with three noisy
# features; the totals of each half hour are known.

ACTIVITIES = ["eat", "rest", "walk"]
rng = np.random.default_rng(0)
minutes = np.arange(600)
episode = np.cumsum(rng.random(len(minutes)) < 1 / 12)
codes = rng.integers(0, 3, len(minutes))[episode]
truth = np.array(ACTIVITIES)[codes]
X = np.eye(3)[codes] + rng.normal(0.0, 0.7, (len(minutes), 3))
half_hours = minutes // 30
known = {"bags": half_hours, "proportions": Totals.from_labels(truth, half_hours)}

# %%
# Three ways to label it
# ----------------------
#
# Without times, each row is labeled by rows with similar features. With times, rows that follow
# each other are tied as well; how strongly is learned from how much the labels flicker.
# ``decode="sequence"`` pays for each change of label instead. All three keep the totals of each
# half hour.

models = {
    "without times": LPLLP(random_state=0).fit(X, **known),
    "with times": LPLLP(random_state=0).fit(X, **known, times=minutes),
    'decode="sequence"': LPLLP(decode="sequence", random_state=0).fit(X, **known, times=minutes),
}
labels = {name: model.transduction_ for name, model in models.items()} | {"truth": truth}
for name, found in labels.items():
    changes = np.sum(found[1:] != found[:-1])
    print(f"{name:18} {np.mean(found == truth):6.1%} right, {changes:3} changes of label")
print(f"weight of ties in time: {models['with times'].time_weight_:.1f}")

# %%
# The first four hours
# --------------------

COLORS = ["#0072B2", "#E69F00", "#56B4E9"]
figure, axes = plt.subplots(4, 1, figsize=(8, 3.6), sharex=True, layout="constrained")
for ax, (name, found) in zip(axes, labels.items(), strict=True):
    strip = np.searchsorted(ACTIVITIES, found)[None, :240]
    ax.imshow(strip, aspect="auto", cmap=ListedColormap(COLORS), extent=(0, 240, 0, 1), vmax=2)
    share = "" if name == "truth" else f": {np.mean(found == truth):.0%} of all labels are right"
    ax.set_title(f"{name}{share}", fontsize=9, loc="left")
    ax.set_yticks([])
axes[-1].set_xlabel("minutes")
axes[-1].set_xticks(np.arange(0, 241, 30))
patches = [Patch(color=color, label=name) for name, color in zip(ACTIVITIES, COLORS, strict=True)]
figure.legend(handles=patches, loc="outside right center", frameon=False)
plt.show()
