"""InvCal and alter-∝SVM beside what the ∝SVM authors' own code gives on their data.

    python benchmarks/psvm_reference.py [FOLDER with heart.mat and toy.mat]

Linear kernel, C = C_p = 1, their split; alter-∝SVM takes the lowest objective of 20 starts. The
reference figures are from their MATLAB code, run under Octave.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy.io import loadmat

from apportion import InvCal, PropSVM, Totals
from methods import PSVM

REFERENCE = {
    ("heart", "InvCal"): (0.675, 0.672),
    ("heart", "PropSVM"): (0.743, 0.797),
    ("toy", "InvCal"): (0.0, None),
    ("toy", "PropSVM"): (1.0, None),
}


def read(path: Path) -> tuple[Any, Any, Any, Totals, tuple[Any, Any] | None]:
    """Return the rows, labels, bags and totals to train on, and the rows and labels to test on."""
    table = loadmat(path, squeeze_me=True, struct_as_record=False)
    X, split = table["data"], table["split"]
    train = getattr(split, "train_data_idx", np.arange(1, len(X) + 1)) - 1
    totals = Totals.from_proportions(
        {k + 1: {-1: 1 - p, 1: p} for k, p in enumerate(split.train_bag_prop)}
    )
    test = None
    if hasattr(split, "test_data_idx"):
        test = X[split.test_data_idx - 1], split.test_label
    return X[train], split.train_label, split.train_bag_idx, totals, test


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else PSVM
    if not (folder / "heart.mat").exists():
        print(f"No heart.mat in {folder}: name the folder with the ∝SVM authors' published data.")
        return
    warnings.simplefilter("ignore")
    print(f"{'':16}{'train':>8}{'reference':>11}{'test':>8}{'reference':>11}{'objective':>11}")
    for data in ("heart", "toy"):
        X, y, bags, totals, test = read(folder / f"{data}.mat")
        for model in (
            InvCal("linear", C=1.0),
            PropSVM("linear", C=1.0, C_p=1.0, n_starts=20, random_state=0),
        ):
            name = type(model).__name__
            model.fit(X, bags=bags, proportions=totals)
            train, held_out = REFERENCE[data, name]
            line = f"{data:8}{name:8}{model.score(X, y):>8.3f}{train:>11.3f}"
            if test is not None:
                line += f"{model.score(*test):>8.3f}{held_out:>11.3f}"
            if isinstance(model, PropSVM):
                line = f"{line:54}{model.objective_[0]:>11.3f}"
            print(line)


if __name__ == "__main__":
    main()
