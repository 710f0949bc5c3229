"""Accuracy on scikit-learn's bundled tables in random bags with exact proportions.

Beside LP-LLP with both decodings: the bag-majority baseline, and a supervised random forest that
sees the labels, cross-validated on the same rows.
"""

from __future__ import annotations

import time
import warnings

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.preprocessing import scale

from apportion import LPLLP, BagDesignWarning
from apportion.datasets import make_bags
from apportion.metrics import bag_majority

# loader, whether to standardize, seeds, what we want of 20 bags
TABLES = {
    "digits": (load_digits, False, 5, 0.97),
    "breast_cancer": (load_breast_cancer, True, 10, 0.94),
    "wine": (load_wine, True, 10, 0.98),
}


def main() -> None:
    warnings.simplefilter("ignore", BagDesignWarning)
    print('LPLLP(graph="knn") in random bags of equal size with exact proportions: mean (std)')
    print("accuracy on all rows; breast_cancer and wine are standardized")
    print(
        f"{'':14}{'rows':>6}{'bags':>5}{'seeds':>6}{'quota, refined':>16}{'quota':>16}"
        f"{'threshold':>16}{'predict':>16}{'majority':>10}{'supervised':>12}{'s/fit':>7}"
    )
    for name, (load, standardize, seeds, least) in TABLES.items():
        X, y = load(return_X_y=True)
        X = scale(X) if standardize else X
        folds = StratifiedKFold(5, shuffle=True, random_state=0)
        forest = RandomForestClassifier(random_state=0)
        supervised = cross_val_score(forest, X, y, cv=folds).mean()
        for n_bags in (20, 7):
            columns: list[list[float]] = [[], [], [], [], []]
            seconds = 0.0
            for seed in range(seeds):
                bags, totals = make_bags(None, y, n_bags, random_state=seed)
                started = time.perf_counter()
                model = LPLLP(graph="knn", random_state=seed).fit(X, bags=bags, proportions=totals)
                seconds += time.perf_counter() - started
                rough = LPLLP(graph="knn", refine=False, random_state=seed)
                rough.fit(X, bags=bags, proportions=totals)
                answers = (
                    model.transduction_,
                    rough.transduction_,
                    model.classes_[model.label_distributions_.argmax(axis=1)],
                    model.predict(X),
                    bag_majority(bags, totals),
                )
                for column, labels in zip(columns, answers, strict=True):
                    column.append((labels == y).mean())
            cells = "".join(f"{np.mean(c):>8.3f} ({np.std(c):.3f})" for c in columns[:4])
            wanted = f"   wanted: at least {least}" if n_bags == 20 else ""
            print(
                f"{name:14}{len(X):>6}{n_bags:>5}{seeds:>6}{cells}{np.mean(columns[4]):>10.3f}"
                f"{supervised:>12.3f}{seconds / seeds:>7.1f}{wanted}"
            )


if __name__ == "__main__":
    main()
