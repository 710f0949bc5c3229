"""Parameters are checked with the messages of scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest

from apportion._utils.parameters import BOOL, check_parameters, integer, one_of, real

SHARE = real(low=0, high=1, ends="(]")
GAMMA = real("scale", low=0, ends="()")
KERNEL = one_of("linear", "rbf", kind=Callable)


@pytest.mark.parametrize(
    ("allowed", "values"),
    [
        (SHARE, [0.5, 1, np.float32(0.1)]),
        (GAMMA, ["scale", np.str_("scale"), 1e-9, 3]),
        (KERNEL, ["rbf", print]),
        (integer(1, None), [None, 1, np.int64(7)]),
        (BOOL, [True, np.False_]),
    ],
)
def test_values_that_are_allowed(allowed, values):
    for value in values:
        check_parameters(SimpleNamespace(name=value), {"name": allowed})


@pytest.mark.parametrize(
    ("allowed", "values", "message"),
    [
        (SHARE, [0, 1.5, np.nan, True, "1", None, [[]]], r"a float in the range \(0, 1\]"),
        (GAMMA, [0.0, np.inf, "auto", False], r"'scale' or a float in the range \(0, inf\)"),
        (KERNEL, ["cubic", 3, None], "one of 'linear', 'rbf' or a callable"),
        (integer(1, None), [0, 1.0, True, "1"], r"None or an int in the range \[1, inf\)"),
        (BOOL, [1, 0.0, None, "yes"], "a bool"),
        (one_of("only"), ["other", None, 1], "one of 'only'"),
    ],
)
def test_values_that_are_not_allowed_are_named(allowed, values, message):
    for value in values:
        owner = SimpleNamespace(name=value)
        with pytest.raises(ValueError, match="The 'name' parameter of SimpleNamespace") as error:
            check_parameters(owner, {"name": allowed})
        assert error.match(f"must be {message}. Got .* instead")
