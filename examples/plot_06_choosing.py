"""
Choosing a method, and how right it is, without labels
======================================================

No method is best on all data, and without labels nobody can try them out. But totals can be held
out: :class:`~apportion.AutoLLP` fits methods without some of the bags, asks how well they predict
the totals of these bags, and weighs them by that. The same totals tell how many labels will be
right.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer, make_moons

from apportion import AutoLLP, CandidateWarning
from apportion.datasets import make_bags
from apportion.plotting import CalibrationDisplay

plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False})

# %%
# Methods, weighed
# ----------------
#
# Patients are on wards, and only the number of malignant tumors per ward is known. By default,
# ten methods are weighed; four are enough here. The likelier the held-out totals under a method,
# the larger its weight.

X, benign = load_breast_cancer(return_X_y=True)
tumor = np.where(benign == 1, "benign", "malignant")
wards, totals = make_bags(X, tumor, n_bags=36, random_state=0)
methods = ["lpllp", "inv-cal-rbf", "count", "mean-map"]
model = AutoLLP(methods, random_state=0).fit(X, bags=wards, proportions=totals)
print(model.candidate_report_)

# %%
# The estimated accuracy comes with an interval that holds 90 % of the posterior. The truth is used
# only now.

print(f"estimated accuracy: {model.estimated_accuracy_.fitted_rows}")
print(f"true accuracy: {np.mean(model.transduction_ == tumor):.2f}")

# %%
# Held-out totals
# ---------------
#
# Each point is a ward whose total the methods had not seen. If probabilities are calibrated, most
# bars cross the diagonal.

display = CalibrationDisplay.from_estimator(model)
display.figure_.set_size_inches(6.5, 4.5)
plt.show()

# %%
# Estimated against true accuracy
# -------------------------------
#
# The same on two moons that overlap less or more, in smaller and larger bags. If the held-out
# totals do not show that the methods know more than the class shares, the estimate is withheld, and
# ``reason`` says why: the points at the bottom.

figure, ax = plt.subplots(figsize=(5.6, 4.6), layout="constrained")
ax.plot([0.65, 1], [0.65, 1], color="#7F7F7F", linewidth=1)
for bag_size, color, marker in [(8, "#0072B2", "o"), (20, "#E69F00", "s")]:
    ax.errorbar([], [], [], fmt=marker, color=color, label=f"bags of {bag_size} rows")
    for noise in [0.15, 0.3, 0.5, 0.8]:
        X, y = make_moons(400, noise=noise, random_state=0)
        bags, totals = make_bags(X, y, n_bags=len(X) // bag_size, random_state=1)
        model = AutoLLP(["lpllp", "count", "mean-map"], random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CandidateWarning)  # says that the estimate is withheld
            model.fit(X, bags=bags, proportions=totals)
        true, estimate = np.mean(model.transduction_ == y), model.estimated_accuracy_.fitted_rows
        print(f"bags of {bag_size}, noise {noise}: {true:.2f} right; {estimate}")
        if estimate.value is None:
            ax.plot(true, 0.63, marker, color=color, fillstyle="none")
        else:
            interval = [[estimate.value - estimate.low], [estimate.high - estimate.value]]
            ax.errorbar(true, estimate.value, interval, fmt=marker, color=color, capsize=3)
ax.plot([], [], "ok", fillstyle="none", label="withheld")
ax.set(xlabel="true share of right labels", ylabel="estimated without labels, 90 % interval")
ax.xaxis.set_major_formatter("{x:.0%}")
ax.yaxis.set_major_formatter("{x:.0%}")
ax.grid(color="#DDDDDD", linewidth=0.6)
ax.legend(frameon=False, loc="upper left")
plt.show()

# sphinx_gallery_thumbnail_number = 2
