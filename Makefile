# Only wraps ordinary commands; README.md shows them.
VENV ?= .venv

.PHONY: demo test lint check fix venv clean

venv: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml
	python3 -m venv $(VENV)
	$(VENV)/bin/pip install --quiet -e ".[mpich,dev]"
	touch $@

demo: venv
	$(VENV)/bin/dq demo

test: venv
	$(VENV)/bin/pytest

# format, lint, strict types
lint: venv
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy

# the linters, import rules and fast tests: run it before every commit
check: lint
	$(VENV)/bin/pytest tests/architecture tests/core tests/plan tests/client tests/sim

fix: venv
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache
