"""The first cases of `make fuzz`: see `fuzz.py`."""

from __future__ import annotations

import pytest

import fuzz

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("case", range(60))
def test_a_disguise_changes_no_label(case):
    fuzz.check(case)
