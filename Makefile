# Everything is set up in .venv/ by the targets that need it; a second run starts at once.
# `make demo` and `make test` may take turns: requirements/dev.txt holds the same pins as run.txt and build.txt, and more.

SHELL := /bin/sh
VENV := .venv
BIN := $(VENV)/bin
# pip's own set-up (index, certificates, cache) is the user's: nothing here names one.
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
STAMPS := $(VENV)/stamps

# The first Python that is new enough and can make a virtual environment; `make PYTHON=/path/to/python3 demo` chooses another.
# Debian's own comes first because its bcc (for eBPF) is built for that one.
CANDIDATES := /usr/bin/python3 python3 python3.14 python3.13 python3.12 python3.11
USABLE := import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for p in $(CANDIDATES); do "$$p" -c '$(USABLE)' 2>/dev/null && { command -v "$$p"; break; }; done)

# What to run once after the installation so that the demo does not wait for it: a command line for $(BIN)/python, run again
# when a file of $(WARM_UP_FILES) changes. Empty: nothing.
WARM_UP := -m pausetrace.compile_kernels
WARM_UP_FILES := $(wildcard analytics/*.py simulation/fabric/*.py)

.DEFAULT_GOAL := help
.PHONY: help demo test chaos lint types imports check format lock clean
.DELETE_ON_ERROR:
.NOTPARALLEL:

help:
	@echo 'make demo     set up and watch the trouble of 2,048 GPUs being traced to one PCIe link (a minute, after some minutes of set-up)'
	@echo 'make test     set up and run every test that this machine can run'
	@echo 'make chaos    disturb detect and correlate on a real Kafka (Docker), and see that the results are the same'
	@echo 'make check    lint, types and imports: what CI runs before the tests'
	@echo 'make format   let ruff rewrite the source'
	@echo 'make lock     resolve requirements/*.txt anew'
	@echo 'make clean    remove .venv and caches'

demo: $(STAMPS)/run $(STAMPS)/project $(STAMPS)/warm
	@echo 'demo: Operation Slowburn'
	@$(BIN)/pausetrace demo

test: $(STAMPS)/dev $(STAMPS)/project
	@echo 'test: running pytest (ARGS="..." passes arguments on)'
	@$(BIN)/python -m pytest $(ARGS)

chaos: $(STAMPS)/dev $(STAMPS)/project
	@$(BIN)/python -m tests.chaos $(ARGS)

lint: $(STAMPS)/dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(STAMPS)/dev $(STAMPS)/project
	$(BIN)/mypy

imports: $(STAMPS)/dev $(STAMPS)/project
	$(BIN)/lint-imports

check: lint types imports

format: $(STAMPS)/dev
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

$(STAMPS)/venv:
	@test -n '$(PYTHON)' || { \
	  echo 'No usable Python: 3.11 or newer with its venv module is needed.' >&2; \
	  python3 --version >/dev/null 2>&1 && echo "  $$(command -v python3) is $$(python3 --version 2>&1)," \
	    "$$(python3 -c 'import venv, ensurepip' 2>/dev/null && echo 'with venv' || echo 'without venv')" >&2; \
	  echo 'On Debian or Ubuntu: apt-get install python3-venv. Another Python: make PYTHON=/path/to/python3 ...' >&2; \
	  exit 1; }
	@'$(PYTHON)' -c '$(USABLE)' 2>/dev/null || { \
	  echo '$(PYTHON) is older than 3.11 or lacks venv (Debian, Ubuntu: apt-get install python3-venv).' >&2; exit 1; }
	@echo 'set-up: making $(VENV) with $(PYTHON)'
	@'$(PYTHON)' -m venv $(VENV)
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/run: requirements/run.txt requirements/build.txt | $(STAMPS)/venv
	@echo 'set-up: installing what Pausetrace runs on (requirements/run.txt)'
	@$(PIP) install --require-hashes -r requirements/run.txt -r requirements/build.txt
	@touch $@

$(STAMPS)/dev: requirements/dev.txt | $(STAMPS)/venv
	@echo 'set-up: installing what the tests need (requirements/dev.txt)'
	@$(PIP) install --require-hashes -r requirements/dev.txt
	@touch $@

# Needs the build backend, which both run and dev bring: order-only, on whichever goal asked for.
$(STAMPS)/project: pyproject.toml | $(STAMPS)/venv
	@test -e $(STAMPS)/run || test -e $(STAMPS)/dev || $(PIP) install --require-hashes -r requirements/build.txt
	@echo 'set-up: installing Pausetrace itself, editable'
	@$(PIP) install --no-build-isolation --no-deps -e .
	@touch $@

$(STAMPS)/warm: $(STAMPS)/run $(STAMPS)/project $(WARM_UP_FILES)
	@$(if $(WARM_UP),echo 'set-up: compiling the kernels'; $(BIN)/python $(WARM_UP))
	@touch $@

# The resolver lives in an environment of its own, outside the project.
UV_VERSION := 0.13.9
COMPILE = $$tmp/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
  --no-annotate --upgrade --custom-compile-command 'make lock'

lock: $(STAMPS)/venv
	@tmp=$$(mktemp -d) && trap 'rm -rf "$$tmp"' EXIT && \
	$(BIN)/python -m venv "$$tmp" && "$$tmp/bin/pip" install --disable-pip-version-check --quiet uv==$(UV_VERSION) && \
	$(COMPILE) --extra dev pyproject.toml -o requirements/dev.txt && \
	$(COMPILE) --constraint requirements/dev.txt --extra analytics --extra collectors pyproject.toml -o requirements/run.txt && \
	$(COMPILE) --constraint requirements/dev.txt --extra probes pyproject.toml -o requirements/probes.txt && \
	printf '%s\n' 'hatchling>=1.27' 'editables>=0.5' | $(COMPILE) --constraint requirements/dev.txt - -o requirements/build.txt
	@echo 'lock: requirements/dev.txt, run.txt, probes.txt and build.txt are resolved anew'

clean:
	rm -rf $(VENV) build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
