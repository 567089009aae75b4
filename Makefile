# Every command works on a machine that only has Python: the first command builds the environment in .venv.
PYTHON ?= python3
CONSTRAINTS ?= constraints.txt
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
SPARK := $(VENV)/.installed-spark
.DEFAULT_GOAL := help
# Modules are compiled when they are first imported: compiling all packages takes longer than installing them.
# Containers often set this variable, but then each process compiles the modules again.
export PYTHONDONTWRITEBYTECODE :=

help:  ## list the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(INSTALLED): pyproject.toml $(CONSTRAINTS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "error: Python 3.11 or newer is required; select one with make PYTHON=python3.12" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c $(CONSTRAINTS) -e '.[demo,export,report,train]' --group dev
	touch $@

$(SPARK): $(INSTALLED)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c $(CONSTRAINTS) -e '.[spark]'
	touch $@

install: $(INSTALLED)  ## build the environment in .venv (PYTHON=python3.12 selects an interpreter)

LAUNCH := $(BIN)/accelerate launch --quiet --num_processes 1 --num_machines 1 --mixed_precision no --dynamo_backend no

train: $(INSTALLED)  ## train, evaluate and try a DAN on the sample dataset (minutes on a CPU)
	$(BIN)/python -m data_scripts sample --output data/sample
	$(LAUNCH) trainer/run.py trainer/presets/quickstart.yaml --overwrite true
	$(BIN)/python -m trainer.evaluation runs/quickstart/model --tasks sample --data data/sample --update runs/quickstart/results.json

runs/quickstart/model: | $(INSTALLED)
	$(MAKE) train

# The index is rebuilt each time: it depends on the model's weights, and the model may have been retrained.
ifdef FILE
demo: $(INSTALLED)  ## open a page that compares sentences and suggests replies, with the model of make train or your chats (FILE=support.csv)
	$(BIN)/python -m trainer.adapt "$(FILE)" $(OPTIONS) -o runs/demo --overwrite
	$(BIN)/python -m modeling_convsim.suggestion.server runs/demo --open
else
demo: runs/quickstart/model
	$(BIN)/convsim index data/sample/train-00000-of-00001.parquet --model runs/quickstart/model -o runs/quickstart/replies
	$(BIN)/python -m modeling_convsim.suggestion.server runs/quickstart/replies --open
endif

# Tests spend a fifth of their time waiting for browsers, servers and other processes: three workers keep two cores busy.
test: $(INSTALLED) $(SPARK)  ## run the test suite
	OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 $(BIN)/python -m pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder

# The oldest versions that pyproject.toml allows, with the newest versions of their dependencies.
.venv-min/constraints.txt: pyproject.toml
	$(PYTHON) -m venv .venv-min
	.venv-min/bin/python -m pip install --quiet --disable-pip-version-check uv
	.venv-min/bin/uv pip compile --quiet --resolution lowest-direct --all-extras --group dev --no-annotate --no-header pyproject.toml -o $@

test-min: .venv-min/constraints.txt  ## run the test suite on the oldest supported versions, in .venv-min
	$(MAKE) test VENV=.venv-min CONSTRAINTS=$<

test-new:  ## run the test suite on the newest versions, in .venv-new
	$(MAKE) test VENV=.venv-new CONSTRAINTS=/dev/null

lint: $(INSTALLED)  ## check style, spelling, types, the directions of imports, and insecure code patterns
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo --no-cache

audit: $(INSTALLED)  ## check the installed packages for published vulnerabilities (needs the internet)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c $(CONSTRAINTS) pip-audit
	$(BIN)/pip-audit --strict --skip-editable --local

bench: $(INSTALLED)  ## compare speed and memory with other libraries (ONLY=name runs one benchmark)
	$(BIN)/python -m tests.benchmarks $(if $(ONLY),--only $(ONLY))

fuzz: $(INSTALLED)  ## test the readers with many damaged files and random texts, different each time (minutes)
	OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 $(BIN)/python -m pytest -q -x tests/fuzzing --hypothesis-profile=long --timeout=0

# Folders in data/ that exist are not rebuilt; the others are downloaded.
DOWNLOAD := $(BIN)/python -m data_scripts download

PLAN ?= small
PLAN_FILE = $(if $(filter %.yaml %.yml,$(PLAN)),$(PLAN),trainer/report/$(PLAN).yaml)
report: $(INSTALLED)  ## reproduce the tables and figures of both papers on public data (75 minutes on two cores; PLAN=tiny: minutes)
	$(DOWNLOAD) reddit books snli stsb sts cqa $(PLAN_FILE)
	$(BIN)/python -m trainer.report --plan $(PLAN_FILE) --jobs 2 -o report

BEST := trainer/presets/best_dan.yaml
best: $(INSTALLED)  ## train the best small encoder on public data and evaluate it (OPTIONS="--resume true" continues)
	@echo "Downloads the datasets of $(BEST) to data/, trains in runs/best_dan, and evaluates. Our run took 28 minutes on one core, with less data."
	$(DOWNLOAD) $(BEST) sts
	$(LAUNCH) trainer/run.py $(BEST) --sts data/sts $(OPTIONS)
	@echo "card: runs/best_dan/model/README.md"

.PHONY: report best help install train demo test test-min test-new lint audit bench fuzz
