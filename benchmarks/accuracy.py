"""Accuracy on scikit-learn's bundled tables in 20 random bags with exact proportions.

Beside LP-LLP with both decodings: the bag-majority baseline, and a supervised random forest that
sees the labels, cross-validated on the same rows.
"""

from __future__ import annotations

import time

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.preprocessing import scale

from apportion import LPLLP
from apportion.datasets import make_bags
from apportion.metrics import bag_majority

TABLES = {
    "digits": (load_digits, False, 5, 0.97),
    "breast_cancer (standardised)": (load_breast_cancer, True, 10, 0.94),
    "wine (standardised)": (load_wine, True, 10, 0.98),
}


def main() -> None:
    print('LPLLP(graph="knn"), 20 random bags of equal size, exact proportions; mean (std)')
    print(
        f"{'':30}{'rows':>6}{'seeds':>6}{'quota, refined':>16}{'quota':>16}{'threshold':>16}"
        f"{'majority':>10}{'supervised':>12}{'s/fit':>7}"
    )
    for name, (load, standardise, seeds, least) in TABLES.items():
        X, y = load(return_X_y=True)
        X = scale(X) if standardise else X
        refined, quota, threshold, majority = [], [], [], []
        per_fit = 0.0
        for seed in range(seeds):
            bags, totals = make_bags(y, 20, random_state=seed)
            model = LPLLP(graph="knn", decode="quota", random_state=seed)
            started = time.perf_counter()
            model.fit(X, bags=bags, proportions=totals)
            per_fit += (time.perf_counter() - started) / seeds
            refined.append((model.transduction_ == y).mean())
            model.set_params(refine=False).fit(X, bags=bags, proportions=totals)
            quota.append((model.transduction_ == y).mean())
            likely = model.classes_[model.label_distributions_.argmax(axis=1)]
            threshold.append((likely == y).mean())
            majority.append((bag_majority(bags, totals) == y).mean())
        folds = StratifiedKFold(5, shuffle=True, random_state=0)
        forest = RandomForestClassifier(random_state=0)
        supervised = cross_val_score(forest, X, y, cv=folds).mean()
        cells = "".join(
            f"{np.mean(column):>8.3f} ({np.std(column):.3f})"
            for column in (refined, quota, threshold)
        )
        print(
            f"{name:30}{len(X):>6}{seeds:>6}{cells}{np.mean(majority):>10.3f}{supervised:>12.3f}"
            f"{per_fit:>7.1f}   wanted: {least}"
        )


if __name__ == "__main__":
    main()
