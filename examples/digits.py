"""Label handwritten digits from nothing but the digit counts of 20 boxes of letters."""

from __future__ import annotations

from sklearn.datasets import load_digits

from apportion import LPLLP
from apportion.datasets import make_bags
from apportion.metrics import bag_majority


def main() -> None:
    X, truth = load_digits(return_X_y=True)
    boxes, totals = make_bags(X, truth, n_bags=20, random_state=0)
    print(f"{len(X)} images of digits in {len(totals.ids)} boxes. Known: how many of each digit a")
    print("box holds. Not known: which image shows which digit.\n")

    model = LPLLP(random_state=0).fit(X, bags=boxes, proportions=totals)

    print(model.bag_report_)
    print(f"\nbag design: {model.diagnosis_}")
    print(f"\nsolver: {model.solution_.status.value}, {model.n_iter_} iterations")
    right = (model.transduction_ == truth).mean()
    majority = (bag_majority(boxes, totals) == truth).mean()
    print(f"\nHeld against the true digits, which the method never saw: {right:.1%} are right")
    print(f"(labeling every image by its box's most frequent digit: {majority:.1%}).")


if __name__ == "__main__":
    main()
