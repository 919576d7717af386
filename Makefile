# Only wraps ordinary commands; README.md shows them.
VENV ?= .venv

.PHONY: demo test lint check mutants fix venv clean

venv: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml
	python3 -m venv $(VENV)
	$(VENV)/bin/pip install --quiet -e ".[mpich,dev]"
	touch $@

demo: venv
	$(VENV)/bin/dq demo

# every test; property tests draw as many examples as in CI
test: venv
	HYPOTHESIS_PROFILE=full $(VENV)/bin/pytest

# format, lint, strict types
lint: venv
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy

# the linters, import rules and fast tests, in about a minute: run it before every commit
check: lint
	$(VENV)/bin/pytest -m "not slow and not full" \
	    tests/architecture tests/core tests/plan tests/client tests/sim

# whether the tests notice small bugs in the core, the journal, access and plans of redistribution
mutants: venv
	$(VENV)/bin/python -m harness.mutants

fix: venv
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache
