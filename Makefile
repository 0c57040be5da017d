# `make demo` and `make test` do all the set-up on a fresh machine: an environment of their own in .venv.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test lint wheel-test matrix trials update clean

demo: $(VENV)/demo-installed
	$(BIN)/vitals demo

test: $(VENV)/dev-installed
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile

lint: $(VENV)/dev-installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check vitalsdsl integrations rules tests
	$(BIN)/mypy
	$(BIN)/lint-imports

# The wheel, as users get it, in an environment that has never seen this folder.
wheel-test: $(VENV)/dev-installed
	rm -rf build/wheel && mkdir -p build/wheel
	$(BIN)/python -m build --outdir build/wheel . >build/wheel/log 2>&1 || (cat build/wheel/log; false)
	$(PYTHON) -m venv build/wheel/venv
	build/wheel/venv/bin/python -m pip install --quiet --disable-pip-version-check build/wheel/*.whl
	build/wheel/venv/bin/python tests/wheel_check.py

# What older releases of W&B write, each installed into an environment of its own: some minutes, and not part of `test`.
matrix: $(VENV)/dev-installed
	$(BIN)/python tests/wandb/older_sdks.py
	$(BIN)/python -m tests.mlflow.older_versions

# Whole fleets under one watcher and a backtest of many runs, measured; and `vitals watch` killed, cut off from its tracker,
# without room: half an hour, and not part of `test`.
trials: $(VENV)/dev-installed
	$(BIN)/python -m tests.trials.wandb_fleet
	$(BIN)/python -m tests.mlflow.fleet_trial
	$(BIN)/python -m tests.trials.outages
	$(BIN)/python -m tests.trials.kills
	$(BIN)/python -m tests.trials.catching_up
	$(BIN)/python -m tests.trials.extremes
	$(BIN)/python -m tests.trials.backtests
	$(BIN)/python -m tests.trials.big_logs
	$(BIN)/python -m tests.trials.detection --policy pack:default
	$(BIN)/python -m tests.trials.mutants
	$(BIN)/python -m tests.trials.laws

update: $(VENV)/dev-installed
	$(BIN)/python -m pytest --update

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/demo-installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) torch mlflow
	$(PIP) --editable '.[demo]'
	$(BIN)/python -m compileall -q vitalsdsl integrations rules
	touch $@

$(VENV)/dev-installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) torch mlflow wandb
	$(PIP) --editable '.[all,dev]'
	$(BIN)/python -m compileall -q vitalsdsl integrations rules
	touch $@ $(VENV)/demo-installed

clean:
	rm -rf build dist $(VENV) vitals-demo .mypy_cache .ruff_cache .pytest_cache
