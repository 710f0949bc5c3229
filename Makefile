# Every target does its own set-up: a virtual environment in .venv and an editable install.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test check reproduce benchmark benchmark-speed benchmark-methods picture clean

demo: .venv/runtime
	$(BIN)/apportion demo --force

test: .venv/dev
	$(BIN)/python -m pytest -n 2

check: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

reproduce: .venv/dev
	$(BIN)/apportion reproduce --quick

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

picture: .venv/dev
	$(BIN)/python examples/picture.py docs/images/xor.png

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
	@touch $@ .venv/runtime

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
