"""The peer llp-learn, in an environment of its own: called by `methods.py --llp-learn PYTHON`.

Its SVM and EM are for two classes, labeled -1 and 1. Labels under totals are made for it here by
giving the highest scores of every bag its count, as it has no such thing for its SVM.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

from worker import measure


def fit_and_label(name, X, bags, shares, seed):
    from llp_learn.alter import alterSVM, alterSVMRBF
    from llp_learn.em import EM
    from sklearn.linear_model import LogisticRegression

    warnings.simplefilter("ignore")
    if name == "EM logistic":
        model = EM(LogisticRegression(), random_state=seed)
    else:
        model = (alterSVM if name.endswith("linear") else alterSVMRBF)(random_state=seed)
    model.fit(X, bags, shares[:, 1])
    score = model.model.decision_function(X)
    totals = np.zeros(len(X), dtype=int)
    for k, share in enumerate(shares[:, 1]):
        rows = np.flatnonzero(bags == k)
        count = round(share * len(rows))
        totals[rows[np.argsort(-score[rows])[:count]]] = 1
    return totals, (np.asarray(model.predict(X)) > 0).astype(int)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--worker", nargs="+")
    name, *files = parser.parse_args().worker
    measure(lambda X, bags, shares, seed: fit_and_label(name, X, bags, shares, seed), files)
