"""AutoLLP beside LPLLP in the cells of the paper's tables: three bags, all rows scored.

python benchmarks/paper_cells.py                   # XOR and Half-Kernel
python benchmarks/paper_cells.py --sphere FOLDER   # Sphere 2 as well
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path

import numpy as np

from apportion import LPLLP, AutoLLP

sys.path.insert(0, str(Path(__file__).parents[1]))

from experiments.sections import SECTIONS
from experiments.trials import Trial

SHOWN = ("xor", "half-kernel", "sphere-2")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sphere", type=Path, help="a folder with the SPHERE Challenge's data")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--sections", nargs="+", choices=SHOWN, default=SHOWN)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    names = [name for name in given.sections if name != "sphere-2" or given.sphere is not None]
    print(f"mean accuracy over {given.repetitions} repetitions")
    for name in names:
        section = SECTIONS[name]
        for n_samples, design in section.cells:
            found = {"AutoLLP": [], "LPLLP": []}
            for repetition in range(given.repetitions):
                trial = Trial(name, n_samples, design, "all rows", "lp-llp", repetition)
                problem = section.pose(trial, given.sphere)
                for model in (AutoLLP(random_state=repetition), LPLLP(random_state=repetition)):
                    model.fit(problem.X, bags=problem.bags, proportions=problem.totals)
                    right = model.transduction_ == problem.y
                    found[type(model).__name__].append(right[problem.scored].mean())
            cells = ", ".join(f"{method} {np.mean(column):.3f}" for method, column in found.items())
            print(f"{name} {n_samples}{design}: {cells}", flush=True)


if __name__ == "__main__":
    main()
