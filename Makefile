# Two commands: `make demo` trains on two local workers, `make test` runs everything that must hold.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# one BLAS thread: several workers share these cores, and results stay comparable
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1

.PHONY: demo test test-engine test-rest check bench clean

$(VENV)/.base: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.base
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

$(VENV)/.bench: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[bench]'
	@touch $@

demo: $(VENV)/.base
	$(BIN)/python examples/training/demo.py

check: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# what only computes goes first, on both cores at once; what starts agents and jobs has the machine to itself
test: check
	@$(MAKE) --no-print-directory -j2 test-engine test-rest
	$(BIN)/python -m pytest -m processes
	@echo "Passed: format, lint, types and the whole test suite."

test-engine: $(VENV)/.dev
	$(BIN)/python -m pytest -q -m "not processes" tests/parallel_sgd

test-rest: $(VENV)/.dev
	$(BIN)/python -m pytest -q -m "not processes" --ignore tests/parallel_sgd

bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
