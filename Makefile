# The one place for every job; `make` alone lists them. Needs Python 3.11+ and nothing else.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
RUNS := .venv/.runs
TESTS := .venv/.tests
DOCS := .venv/.docs
GIB ?= 1
# Workers and commands that tests start read bytecode: without it each of them compiles NumPy, SciPy and
# the library anew, which takes longer than most tests.
export PYTHONDONTWRITEBYTECODE :=
# One process for each core, and in it one thread: more would wait for each other. Neighbours stay together,
# so that what a module prepares is prepared once.
TEST := OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal
# For the minute between two edits: the layers of imports, sets, functions, Algorithms 1 and 2 against
# the reference, the theory, the recipes, and the examples, commands and links of the pages.
QUICK := tests/linalg/test_arrays.py $(wildcard tests/contracts/test_layers.py) tests/sets tests/functions/test_functions.py \
	tests/algorithms/test_reference.py tests/test_theory.py tests/contracts/test_recipes.py \
	tests/test_readme.py

# Zensical is young: `make docs GENERATOR=mkdocs` builds the same site by Material for MkDocs.
GENERATOR ?= zensical
GENERATE := $(if $(filter mkdocs,$(GENERATOR)),NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet,$(BIN)/zensical build --clean) \
	--strict -f build/mkdocs.yml

.PHONY: help setup run check test prove bench bench-scale lint types size floors dist docs pictures clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## */  make \1\t/' | expand -t 20

setup: $(TESTS)  ## create .venv with everything that the other jobs need, once

# Two stages: to run the library takes seconds to install, to test it (Ray, CVXPY, mypy) minutes.
# Bytecode is compiled by the first import: most of what is installed is never imported.
$(RUNS): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("tiebreak needs Python 3.11 or newer, this is " + sys.version.split()[0] + ": make PYTHON=...") if sys.version_info < (3, 11) else None'
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "installing tiebreak into .venv (once)"
	@$(PIP) --no-compile -e '.[plot,sklearn]'
	@touch $@

$(TESTS): $(RUNS)
	@echo "installing what the tests need into .venv (once, one or two minutes)"
	@$(PIP) -e '.[test,lint]'
	@touch $@

$(DOCS): $(RUNS)
	@echo "installing what the documentation needs into .venv (once, a minute)"
	@$(PIP) -e '.[docs]'
	@touch $@

run: $(RUNS)  ## what the library is for, on real data; the picture in out/
	@$(BIN)/tiebreak demo

check: $(TESTS) lint  ## ruff, mypy and the quick tests: for the minute between two edits
	@$(TEST) -x $(QUICK)

test: $(TESTS)  ## a sample of every check
	@$(TEST)

prove: $(TESTS)  ## every check at its full count
	@$(TEST) --prove -rP

bench: $(TESTS)  ## the cost of a projection, a prox and a step; who is first to the answer
	@$(BIN)/python benchmarks/kernels/project_cut.py
	@$(BIN)/python benchmarks/kernels/prox_cut.py
	@$(BIN)/python benchmarks/kernels/step.py
	@$(BIN)/python benchmarks/race/decide.py

bench-scale: $(TESTS)  ## step overhead, a text, rows from a disk (GIB=16 for all of it), Ray, a GPU if any
	@$(BIN)/python benchmarks/scale/step_overhead.py || echo "above a limit"
	@$(BIN)/python benchmarks/scale/text.py || echo "not all certified"
	@$(BIN)/python benchmarks/scale/streaming.py --gib $(GIB) || echo "above a limit"
	@$(BIN)/python benchmarks/scale/ray_workers.py || echo "above a limit"
	@$(BIN)/python benchmarks/scale/gpu.py || echo "left out, or above a limit"

lint: $(TESTS)  ## ruff and mypy
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy

types: $(TESTS)  ## how many of the public types pyright knows: at least 95 % (it downloads itself, and Node if none is there)
	@$(PIP) 'pyright[nodejs]'
	@PATH="$(CURDIR)/$(BIN):$$PATH" pyright --verifytypes tiebreak --ignoreexternal --outputjson | $(BIN)/python -c \
	'import json, sys; known = json.load(sys.stdin)["typeCompleteness"]["completenessScore"]; print(f"{known:.1%} of the public types are known"); sys.exit(known < 0.95)'

size:  ## statements under src/, room by room, and the modules that are too long
	@$(PYTHON) docs/size.py

# uv finds the oldest versions that are allowed. They may be deprecated by what they import: no error here.
# scikit-learn 1.6 does not import its own checks unless SciPy's array API is on, which no other test wants.
FLOORS := OPENBLAS_NUM_THREADS=1 .venv-floors/bin/python -m pytest -n auto -W ignore::DeprecationWarning -W ignore::PendingDeprecationWarning
CHECKS := tests/estimators/test_checks.py

floors: $(TESTS)  ## the tests with the oldest versions that pyproject.toml allows, in .venv-floors
	@test -x .venv-floors/bin/python || $(PYTHON) -m venv .venv-floors
	@$(PIP) uv
	@$(BIN)/uv pip install --quiet --python .venv-floors/bin/python --resolution lowest-direct -e '.[test]'
	@$(FLOORS) --ignore $(CHECKS)
	@SCIPY_ARRAY_API=1 $(FLOORS) $(CHECKS)

dist: $(TESTS)  ## wheel and source distribution in dist/, checked
	@$(PIP) build twine
	@rm -rf dist
	@$(BIN)/python -m build --quiet
	@$(BIN)/python -m twine check --strict dist/*

docs: $(DOCS)  ## the documentation as a site in build/site; SITE=--no-gallery runs no example
	@$(BIN)/python docs/modules.py
	@$(BIN)/python docs/tables.py
	@OPENBLAS_NUM_THREADS=1 $(BIN)/python docs/site.py $(SITE)
	@PYTHONPATH=docs $(GENERATE)
	@$(BIN)/python docs/dead_links.py build/site

# Two of the gallery are on the front page.
SHOWN := last_months_coefficients dispatch_priorities

pictures: $(TESTS)  ## redraw the pictures of the pages
	@for script in docs/*picture*.py; do $(BIN)/python $$script; done
	@$(BIN)/python docs/gallery.py build/shown $(SHOWN)
	@cp $(SHOWN:%=build/shown/%.png) docs/

clean:  ## remove .venv, caches and results
	@rm -rf .venv .venv-floors out build dist .mypy_cache .ruff_cache .pytest_cache
	@find src tests benchmarks -name __pycache__ -prune -exec rm -rf {} +
