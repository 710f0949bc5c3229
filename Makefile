# Every target does its own set-up: a virtual environment in .venv and an editable install.
PYTHON ?= python3
BIN := .venv/bin
# Tests of one file share browsers, servers and clusters, which are started once if one worker has it.
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile

.PHONY: demo test coverage test-quick test-lowest check release-check fuzz browser torch reproduce benchmark benchmark-speed benchmark-methods benchmark-tables benchmark-natural benchmark-published benchmark-report benchmark-diaries benchmark-active benchmark-startup benchmark-track picture screenshots demo-cluster benchmark-cluster docs clean

demo: .venv/runtime
	$(BIN)/apportion demo --force

test: .venv/dev
	$(PYTEST)

# The same with coverage, which fails below `fail_under` in pyproject.toml; lines that no test runs are
# in htmlcov/index.html. It takes a third longer, which `make test` has no time for.
coverage: .venv/dev
	$(PYTEST) --cov --cov-report=term --cov-report=html

# The inner loop: what can be tested in less than a minute.
test-quick: .venv/dev
	HYPOTHESIS_PROFILE=quick $(PYTEST) -q -m "not slow"

# The quick tests with the lowest versions that pyproject.toml allows, also of the extras. Python 3.11,
# because some of these versions have no wheels for later ones; JOBS=1 leaves a core free.
LOWEST := build/lowest
test-lowest:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' \
		|| { echo "this needs Python 3.11; name one: make PYTHON=python3.11 test-lowest"; exit 1; }
	$(PYTHON) -m venv --clear $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	$(LOWEST)/bin/python tools/lowest_versions.py > $(LOWEST)/lowest.txt
	$(LOWEST)/bin/python -m pip install --quiet --only-binary :all: \
		--requirement $(LOWEST)/lowest.txt --group test --editable .
	HYPOTHESIS_PROFILE=quick $(LOWEST)/bin/python -m pytest -n $(or $(JOBS),2) --dist loadfile -q -m "not slow"

# The wheel and the sdist in dist/, the wheel installed and used in a fresh environment of every
# supported Python that is found, or of those named: make release-check PYTHONS="python3.12"
release-check:
	$(PYTHON) tools/release_check.py $(PYTHONS)

# The tests of the report look at it in a browser that is installed; they skip where there is none.
browser:
	@for name in "$${APPORTION_BROWSER:-chromium}" chromium chromium-browser google-chrome; do \
		command -v "$$name" >/dev/null && exit 0; \
	done; \
	as_root=$$(test "$$(id -u)" = 0 && echo env || command -v sudo); \
	if [ -n "$$as_root" ] && command -v apt-get >/dev/null; then \
		echo "installing chromium"; \
		$$as_root apt-get -qq update && $$as_root DEBIAN_FRONTEND=noninteractive \
			apt-get -qq install --no-install-recommends chromium fonts-dejavu-core >/dev/null; \
	else \
		echo "no browser here: install chromium, or name one by APPORTION_BROWSER; its tests skip"; \
	fi

# The tests of devices run on a GPU that torch's CPU build pretends, those of kernels in Triton's
# interpreter; without torch and Triton they skip.
torch: .venv/dev
	$(BIN)/python tools/install_torch.py

check: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The site in docs/_build/html: a warning is an error, and so is a link that leads nowhere.
docs: .venv/docs
	$(BIN)/python -m sphinx -b html -W --keep-going -q docs docs/_build/html
	$(BIN)/python docs/_extensions/check_links.py docs/_build/html

reproduce: .venv/dev
	$(BIN)/python -m experiments --quick

# Random problems in random disguises, for ten minutes; SECONDS=60 for less.
fuzz: .venv/dev
	$(BIN)/python tests/fuzz.py --seconds $(or $(SECONDS),600)

benchmark: .venv/dev
	$(BIN)/python benchmarks/accuracy.py
	$(BIN)/python benchmarks/xor.py
	$(BIN)/python benchmarks/acceleration.py
	$(BIN)/python benchmarks/decoding.py

benchmark-speed: .venv/dev
	$(BIN)/python benchmarks/scale.py
	$(BIN)/python benchmarks/peers.py
	$(BIN)/python benchmarks/loop.py

benchmark-methods: .venv/dev
	$(BIN)/python benchmarks/psvm_reference.py
	$(BIN)/python benchmarks/methods.py

# Both resume; all of it takes hours.
benchmark-tables: .venv/dev
	$(BIN)/python benchmarks/tables.py

benchmark-natural: .venv/dev
	$(BIN)/python benchmarks/natural.py --jobs 2

benchmark-published: .venv/dev
	$(BIN)/python benchmarks/published.py

benchmark-report: .venv/dev
	$(BIN)/python benchmarks/report.py $(if $(SPHERE),--sphere $(SPHERE))

benchmark-diaries: .venv/dev
	$(BIN)/python benchmarks/part_recorded.py
	$(BIN)/python benchmarks/diaries.py

benchmark-active: .venv/dev
	$(BIN)/python benchmarks/active.py $(if $(SPHERE),--sphere $(SPHERE))
	$(BIN)/python benchmarks/active.py --speed

benchmark-startup: .venv/dev
	$(BIN)/python benchmarks/startup.py

# Figures of this commit, kept in benchmarks/track, and the picture of all commits that have some.
benchmark-track: .venv/dev
	$(BIN)/python benchmarks/track.py
	$(BIN)/python benchmarks/track.py --plot docs/images/track.svg

picture: .venv/dev
	$(BIN)/python docs/pictures/xor.py docs/images/xor.png

demo-cluster: .venv/dev
	$(BIN)/python examples/plot_10_dask.py

benchmark-cluster: .venv/dev
	$(BIN)/python benchmarks/cluster.py

screenshots: .venv/dev
	$(BIN)/python docs/pictures/screenshots.py docs/images $(if $(SPHERE),--sphere $(SPHERE))
	$(BIN)/python docs/pictures/studio.py docs/images

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "apportion needs Python 3.11 or newer; name one: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"

.venv/runtime: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable ".[cli]"
	@touch $@

.venv/dev: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable . --group dev
	@touch $@ .venv/runtime .venv/docs

.venv/docs: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable . --group docs
	@touch $@ .venv/runtime

clean:
	rm -rf docs/_build docs/api docs/commands docs/gallery docs/sg_execution_times.rst .import_linter_cache
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage htmlcov
