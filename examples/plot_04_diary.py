"""
A diary week and its timeline
=============================

A person wears a wrist band for a week and keeps a diary: so many hours of sleep, so many in front
of the television. The diary does not say when. :func:`~apportion.label_table` turns both into an
activity for every window of the recording. The week is made up, so that the truth is known.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from apportion import label_table
from apportion.datasets import make_smart_home
from apportion.plotting import TimelineDisplay

# %%
# Windows and a diary
# -------------------
#
# Every row is a window of five minutes, with features of the band, of motion detectors and of a
# light sensor. Durations are rounded to half an hour, and the third day was forgotten.

home = make_smart_home(days=7, participants=1, minutes=5)
windows, diary = pd.DataFrame(home.windows), pd.DataFrame(home.diary)
print(f"{len(windows):,} windows")
print(diary.drop(columns="participant").to_string(index=False))

# %%
# Labels, without and with time
# -----------------------------
#
# A day of the diary becomes a bag, and durations become totals. The column ``start`` says when a
# window was. With ``use_times``, which is the default, windows that follow each other are tied, the
# more the labels would flicker otherwise. Windows in which the band was off get no label.

worn = ~windows["nonwear"].to_numpy()
labeled = {
    name: label_table(windows, diary=diary, method="lpllp", use_times=use_times)
    for name, use_times in {"without time": False, "with time": True}.items()
}
found = {name: np.where(worn, one.labels.labels, None) for name, one in labeled.items()}
right = {name: (labels == home.activities)[worn].mean() for name, labels in found.items()}
for name, share in right.items():
    episodes = len(labeled[name].episodes())
    print(f"{name}: {share:.1%} of {worn.sum():,} labels are right, in {episodes} episodes")

# %%
# The timeline
# ------------
#
# There is one lane per day. Short bars among long ones are flicker; ties in time remove most of it,
# and the labels are right more often. Wednesday has no diary: its windows follow similar windows of
# other days.

figure, axes = plt.subplots(3, 1, figsize=(8, 7.5), sharex=True, layout="constrained")
truth = {"what was done": home.activities}
for ax, (name, labels) in zip(axes, (found | truth).items(), strict=True):
    display = TimelineDisplay.from_labels(
        labels, windows["start"], window="5 min", classes=sorted(set(home.activities)), ax=ax
    )
    share = f": {right[name]:.1%} of the labels are right" if name in right else ""
    ax.set_title(f"{name}{share}", fontsize=10, loc="left")
    ax.set_xlabel("time of day" if ax is axes[-1] else "")
    display.legend_.remove()
handles, names = display.legend_.legend_handles, sorted(set(home.activities))
figure.legend(handles, names, loc="outside lower center", ncols=4, frameon=False)
plt.show()

# %%
# Episodes
# --------
#
# Windows that follow each other and have the same label form an episode. The table of labels has
# one row per window, with the mass of every activity and a confidence.

episodes = labeled["with time"].episodes().to_pandas()
print(episodes[["start", "end", "label", "minutes"]].head(8).to_string(index=False))
