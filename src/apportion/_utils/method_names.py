"""The names of methods, for those who must not wait until the methods are imported."""

AUTO, LP_LLP = "auto", "lpllp"

METHODS = (
    AUTO,
    *("gp", "gp-trees", LP_LLP, "lpllp-gp", "trees", "mean-map", "mean-map-rbf"),
    *("laplacian-mean-map", "count", "count-rbf", "inv-cal", "inv-cal-rbf", "em", "knn"),
    *("label-propagation", "prop-svm"),
)
"""All methods weighed, or a single one that can answer alone: keys of `NAMED` in
`model_selection/_candidates.py`."""
