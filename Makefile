# `make train` and `make test` create .venv on the first call and reuse it afterwards.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

ALGO ?= ppo
ENV  ?= CartPole-v1
WORKERS ?= 2
SEED ?= 0
NOTEBOOKS ?= on

# One thread per test process: oversubscribed cores slow the tests down.
TESTENV := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 MPLBACKEND=Agg

.PHONY: help install train enjoy test test-slow fuzz lint format types docs docs-test wheel clean
.DEFAULT_GOAL := help

help:
	@echo 'make train      train PPO on CartPole-v1 and evaluate it (ALGO=a2c ENV=... for others)'
	@echo 'make enjoy      watch the newest trained agent'
	@echo 'make test       lint, type checks and tests'
	@echo 'make test-slow  the slow tests that make test skips'
	@echo 'make fuzz       fuzz files, command lines, kills and signals (takes a night; SEED=1)'
	@echo 'make format     format the sources with ruff'
	@echo 'make docs       build the documentation: docs/_build/html (NOTEBOOKS=off: a minute)'
	@echo 'make docs-test  run the code of every page and open it in Chromium, after make docs'
	@echo 'make wheel      build dist/*.whl'
	@echo 'make clean      remove .venv and caches, but not logs/'

$(VENV)/pyvenv.cfg:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	  { echo 'rlzoo needs Python 3.10 or newer; name one with: make PYTHON=python3.11 ...'; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/pyvenv.cfg
	@echo 'Installing rlzoo into $(VENV) (about two minutes the first time) ...'
	@$(PIP) --editable .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(VENV)/pyvenv.cfg
	@echo 'Installing rlzoo and its test tools into $(VENV) (about two minutes the first time) ...'
	@$(PIP) --editable '.[dev]'
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-docs: pyproject.toml constraints.txt | $(VENV)/pyvenv.cfg
	@echo 'Installing rlzoo and what builds its documentation into $(VENV) ...'
	@$(PIP) --editable '.[docs]'
	@touch $@ $(VENV)/.installed

install: $(VENV)/.installed

train: $(VENV)/.installed
	@$(BIN)/rlzoo train --algo $(ALGO) --env $(ENV) --progress --verbose 0
	@echo
	@echo 'Evaluating the agent for 100 episodes ...'
	@$(BIN)/rlzoo enjoy --algo $(ALGO) --env $(ENV) --no-render --n-episodes 100 --verbose 0
	@echo
	@echo 'The agent is in the newest folder of logs/$(ALGO)/. Watch it with:'
	@echo '    $(BIN)/rlzoo enjoy --algo $(ALGO) --env $(ENV)'

enjoy: $(VENV)/.installed
	@$(BIN)/rlzoo enjoy --algo $(ALGO) --env $(ENV)

test: lint types
	@$(TESTENV) $(BIN)/python -m pytest -q -n $(WORKERS)

test-slow: $(VENV)/.installed-dev
	@$(TESTENV) $(BIN)/python -m pytest -q -n $(WORKERS) -m slow

fuzz: $(VENV)/.installed-dev
	@$(TESTENV) $(BIN)/python -m tests.fuzz files --seed $(SEED) --count 100000
	@$(TESTENV) $(BIN)/python -m tests.fuzz commands --seed $(SEED) --count 3000
	@$(TESTENV) $(BIN)/python -m tests.fuzz kills --seed $(SEED) --count 200 --seconds 300
	@$(TESTENV) $(BIN)/python -m tests.fuzz signals --seed $(SEED) --count 200 --seconds 300

lint: $(VENV)/.installed-dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(VENV)/.installed-dev
	@$(BIN)/mypy

format: $(VENV)/.installed-dev
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

docs: $(VENV)/.installed-docs
	@OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 DOCS_NOTEBOOKS=$(NOTEBOOKS) $(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo 'The documentation is in docs/_build/html/index.html'

docs-test: $(VENV)/.installed-dev
	@$(TESTENV) $(BIN)/python -m pytest -q -m docs tests/docs

wheel: $(VENV)/.installed-dev
	@$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache dist build docs/_build
