# The one place for every job; `make` alone lists them. Needs Python 3.11+ and nothing else.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
GIB ?= 1
# One process for each core, and in it one thread: more would wait for each other.
TEST := OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n auto

.PHONY: help setup run test prove bench bench-scale lint clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## */  make \1\t/' | expand -t 20

setup: $(INSTALLED)  ## create .venv and install everything into it, once

$(INSTALLED): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("tiebreak needs Python 3.11 or newer, this is " + sys.version.split()[0] + ": make PYTHON=...") if sys.version_info < (3, 11) else None'
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "installing into .venv (once, two or three minutes)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	@touch $@

run: $(INSTALLED)  ## solve the built-in problem; files in out/
	@$(BIN)/tiebreak solve

test: $(INSTALLED)  ## a sample of every check
	@$(TEST)

prove: $(INSTALLED)  ## every check at its full count
	@$(TEST) --prove -rP

bench: $(INSTALLED)  ## what a projection, a prox and a step cost; who is first to the answer
	@$(BIN)/python benchmarks/kernels/project_cut.py
	@$(BIN)/python benchmarks/kernels/prox_cut.py
	@$(BIN)/python benchmarks/kernels/step.py
	@$(BIN)/python benchmarks/race/decide.py

bench-scale: $(INSTALLED)  ## step overhead, a text, rows from a disk (GIB=16 for all of it), Ray, a GPU if there is one
	@$(BIN)/python benchmarks/scale/step_overhead.py || echo "above a limit"
	@$(BIN)/python benchmarks/scale/text.py || echo "not all certified"
	@$(BIN)/python benchmarks/scale/streaming.py --gib $(GIB) || echo "above a limit"
	@$(BIN)/python benchmarks/scale/ray_workers.py || echo "above a limit"
	@$(BIN)/python benchmarks/scale/gpu.py || echo "left out, or above a limit"

lint: $(INSTALLED)  ## ruff and mypy
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy

clean:  ## remove .venv, caches and results
	@rm -rf .venv out build dist .mypy_cache .ruff_cache .pytest_cache
	@find src tests benchmarks -name __pycache__ -prune -exec rm -rf {} +
