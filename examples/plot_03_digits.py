"""
Handwritten digits from the counts of boxes
===========================================

Twenty boxes hold images of digits. Known is how many of each digit a box holds; not known is which
image shows which digit. Ten classes are no harder to ask for than two.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from apportion import LPLLP
from apportion.datasets import make_bags
from apportion.exceptions import ScaleWarning
from apportion.metrics import bag_majority

# %%
# Boxes
# -----
#
# The images are dealt to the boxes at random, so that all boxes look alike: the counts of a digit
# differ by a few images from box to box, and these differences are all there is to learn from.

X, truth = load_digits(return_X_y=True)
boxes, totals = make_bags(X, truth, n_bags=20, random_state=0)
counts = np.rint(totals.lower * np.bincount(boxes)[:, None]).astype(int)
print(f"{len(X):,} images in {len(totals.ids)} boxes")
print(f"images of a 3 in each box: {', '.join(map(str, counts[:, 3]))}")

# %%
# Labels
# ------
#
# The yardstick is the most frequent digit of each box, which needs no images at all. The features
# are gray levels of pixels, all in one unit, so that those that vary little may count little: the
# warning that says so is not needed.

warnings.simplefilter("ignore", ScaleWarning)
model = LPLLP(random_state=0).fit(X, bags=boxes, proportions=totals)
right = model.transduction_ == truth
majority = bag_majority(boxes, totals) == truth
print(f"solver: {model.solution_.status.value} after {model.n_iter_} iterations")
print(f"right: {right.mean():.1%}; most frequent digit of the box: {majority.mean():.1%}")

# %%
# What it found
# -------------
#
# Each line shows images with the same label: first those that are wrong, in orange, then some that
# are right.

figure, axes = plt.subplots(10, 14, figsize=(7, 5.2), layout="constrained")
for digit, line in enumerate(axes):
    labeled = np.flatnonzero(model.transduction_ == digit)
    shown = np.concatenate([labeled[~right[labeled]][:7], labeled[right[labeled]]])[: len(line)]
    for ax, row in zip(line, shown, strict=True):
        ax.imshow(X[row].reshape(8, 8), cmap="Blues" if right[row] else "Oranges")
        ax.set(xticks=[], yticks=[])
        ax.spines[:].set_visible(False)
    line[0].set_ylabel(digit, rotation=0, labelpad=12, va="center", fontsize=12)
figure.supylabel("label", fontsize=10)
figure.suptitle(f"{right.mean():.1%} of {len(X):,} images are labeled right", fontsize=10)
plt.show()
