# Everything runs in .venv, made here when missing: a machine needs only Python >= 3.11 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-fast test-slow lint bench fuzz kills mutants docs wheel-test clean

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
	$(BIN)/python docs/validate_docstrings.py

PYTEST := $(BIN)/python -m pytest -n $(or $(JOBS),2) $(PYTEST_OPTIONS)

# what must hold before a commit
test: lint
	$(PYTEST) -m "not slow"

# the rest of what must hold: .ci/run runs both
test-slow: $(VENV)/stamp
	$(PYTEST) -m slow

# between two edits
test-fast: $(VENV)/stamp
	$(PYTEST) -m "not slow and not medium"

bench: $(VENV)/stamp
	$(BIN)/python -m benchmarks

# 100,000 damaged inputs; those that find a fault are kept in fuzz/
fuzz: $(VENV)/stamp
	$(BIN)/python -m campaigns.fuzz

# processes killed while they save
kills: $(VENV)/stamp
	$(BIN)/python -m campaigns.kills

# deliberate defects, one at a time, in a copy of src: do the tests notice?
mutants: $(VENV)/stamp
	$(BIN)/python -m campaigns.mutants

docs: $(VENV)/stamp
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "the docs: site/index.html"

# the wheel alone, in an environment of its own, from an empty folder
wheel-test: $(VENV)/stamp
	rm -rf build dist
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .
	$(PYTHON) -m venv dist/venv && mkdir dist/empty
	dist/venv/bin/python -m pip install --quiet torch -c constraints.txt
	dist/venv/bin/python -m pip install --quiet dist/cignn-*.whl -c constraints.txt
	cd dist/empty && ../venv/bin/python -c "import cignn; print(cignn.__file__)"
	cd dist/empty && ../venv/bin/cignn --help > help.txt && ../venv/bin/cignn info
	cd dist/empty && ../venv/bin/cignn demo --graphs 100 --subjects 40 --out demo
	test -s dist/empty/demo/report.html

clean:
	rm -rf $(VENV) build dist demo site htmlcov .coverage .pytest_cache .mypy_cache .ruff_cache .hypothesis
