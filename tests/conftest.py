from __future__ import annotations

import os
import signal
import sys

# Tests run side by side, on small matrices: more BLAS threads than cores would wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Workers of pytest-xdist share the cores. Tests that are about threads ask for some of their own.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
# Kernels for GPUs run without one. Triton reads this when it is imported.
os.environ.setdefault("TRITON_INTERPRET", "1")

import pytest
from hypothesis import HealthCheck, settings

from apportion.labeling import _methods
from browser import NoBrowserError, Tabs, started_browser

settings.register_profile(
    "steady",
    deadline=None,
    derandomize=True,
    max_examples=30,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("quick", settings.get_profile("steady"), max_examples=5)
settings.register_profile("thorough", deadline=None, max_examples=500)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))


def pytest_collection_modifyitems(items):
    """Measure coverage by quick tests only, where measuring is expensive.

    Before Python 3.12 a tracer makes tests half as slow again or more.
    """
    if sys.version_info >= (3, 12):
        return
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker("no_cover")


@pytest.fixture(autouse=True, scope="session")
def heeded_signals():
    """Let programs that tests start heed signals, also where `nohup make test` ignores some.

    A process that is started inherits what is ignored, unlike a handler.
    """
    names = ("SIGINT", "SIGTERM", "SIGHUP")
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    ignored = [number for number in numbers if signal.getsignal(number) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, _nothing)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


def _nothing(*_):
    """Handle a signal as if it were ignored."""


@pytest.fixture(scope="session")
def browser():
    """A browser, started once a worker; where there is none, tests are skipped, but not in CI."""
    try:
        with started_browser() as found:
            yield found
    except NoBrowserError as reason:
        give_up = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        give_up(str(reason))


@pytest.fixture(scope="session")
def tabs(browser, tmp_path_factory):
    """Tabs of the browser, for reports."""
    return Tabs(browser, tmp_path_factory.mktemp("tabs"))


@pytest.fixture(autouse=True)
def fast_method(request):
    """Label tables by one method: most tests are about files and words, and `auto` fits many.

    Tests marked `default_method` see the default as it is.
    """
    with pytest.MonkeyPatch.context() as patch:
        if request.node.get_closest_marker("default_method") is None:
            patch.setattr(_methods, "DEFAULT_METHOD", "lpllp")
        yield
