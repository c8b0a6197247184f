# Everything runs in .venv, made here when missing: a machine needs only Python >= 3.11 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test lint bench fuzz mutants docs clean

# The stamp is renewed when the dependencies change; constraints.txt pins what is installed.
$(VENV)/stamp: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet torch -c constraints.txt
	$(BIN)/python -m pip install --quiet -e ".[dev]" -c constraints.txt
	touch $@

demo: $(VENV)/stamp
	$(BIN)/cignn demo --out demo

lint: $(VENV)/stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	$(BIN)/python -m pytest -n 2

bench: $(VENV)/stamp
	$(BIN)/python -m benchmarks

# 100,000 damaged inputs; those that find a fault are kept in fuzz/
fuzz: $(VENV)/stamp
	$(BIN)/python -m campaigns.fuzz

# deliberate defects, one at a time, in a copy of src: do the tests notice?
mutants: $(VENV)/stamp
	$(BIN)/python -m campaigns.mutants

docs: $(VENV)/stamp
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "the docs: site/index.html"

clean:
	rm -rf $(VENV) build dist demo site .pytest_cache .mypy_cache .ruff_cache .hypothesis
