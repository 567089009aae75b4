# Every command works on a machine with nothing but Python: the first one builds the environment in .venv.
PYTHON ?= python3
CONSTRAINTS ?= constraints.txt
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
SPARK := $(VENV)/.installed-spark
CHECKS := $(VENV)/.installed-check
.DEFAULT_GOAL := help

help:  ## list the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(INSTALLED): pyproject.toml $(CONSTRAINTS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "error: Python 3.11 or newer is required; select one with make PYTHON=python3.12" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c $(CONSTRAINTS) -e '.[train,suggest,export,mteb,demo,dev]'
	touch $@

$(SPARK): $(INSTALLED)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c $(CONSTRAINTS) -e '.[spark]'
	touch $@

$(CHECKS): $(INSTALLED)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c $(CONSTRAINTS) -e '.[check]'
	touch $@

install: $(INSTALLED)  ## build the environment in .venv (PYTHON=python3.12 selects an interpreter)

train: $(INSTALLED)  ## train, evaluate and try a DAN on the sample dataset (minutes on a CPU)
	$(BIN)/python -m data_scripts sample --output data/sample
	$(BIN)/accelerate launch --quiet --num_processes 1 --num_machines 1 --mixed_precision no --dynamo_backend no trainer/run.py trainer/presets/quickstart.yaml --overwrite true
	$(BIN)/python -m trainer.evaluation runs/quickstart/model --tasks sample --data data/sample --update runs/quickstart/results.json

runs/quickstart/model: | $(INSTALLED)
	$(MAKE) train

# The index is rebuilt each time: it belongs to one model's weights, and the model may have been retrained.
demo: runs/quickstart/model  ## open a page that compares sentences and suggests replies with the model of make train
	$(BIN)/python -m modeling_convsim.suggestion build runs/quickstart/model data/sample/train-00000-of-00001.parquet -o runs/quickstart/replies
	$(BIN)/python -m modeling_convsim.suggestion calibrate runs/quickstart/replies data/sample/test-00000-of-00001.parquet
	$(BIN)/python model_cards/space/app.py runs/quickstart/replies --open

test: $(INSTALLED) $(SPARK)  ## run the test suite
	OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 $(BIN)/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder

# The versions that pyproject.toml states as the oldest, with the newest versions of what these depend on.
.venv-min/constraints.txt: pyproject.toml
	$(PYTHON) -m venv .venv-min
	.venv-min/bin/python -m pip install --quiet --disable-pip-version-check uv
	.venv-min/bin/uv pip compile --quiet --resolution lowest-direct --all-extras --no-annotate --no-header pyproject.toml -o $@

test-min: .venv-min/constraints.txt  ## run the test suite on the oldest supported versions, in .venv-min
	$(MAKE) test VENV=.venv-min CONSTRAINTS=$<

test-new:  ## run the test suite on the newest versions, in .venv-new
	$(MAKE) test VENV=.venv-new CONSTRAINTS=/dev/null

lint: $(INSTALLED)  ## check style, spelling, types, the directions of imports, and code patterns known as insecure
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo --no-cache
	$(BIN)/bandit --quiet --configfile pyproject.toml --recursive modeling_convsim data_scripts trainer model_cards

audit: $(CHECKS)  ## compare the installed packages with the published vulnerabilities (needs the internet)
	$(BIN)/pip-audit --strict --skip-editable --local

bench: $(INSTALLED)  ## measure speed and memory against named peers (ONLY=name runs one benchmark)
	$(BIN)/python -m tests.benchmarks $(if $(ONLY),--only $(ONLY))

soak: $(INSTALLED)  ## inject faults of every kind and print a table of what was lost (under an hour; ONLY=name runs one)
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.soak $(if $(ONLY),--only $(ONLY))

# The harnesses with atheris, then the test suite's Hypothesis tests with more examples.
SECONDS ?= 600
fuzz: $(CHECKS)  ## fuzz the readers and print a table of inputs that crashed (ten minutes; SECONDS=60 changes it)
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzzing --seconds $(SECONDS) --output tests/fuzzing
	OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 timeout $(SECONDS) $(BIN)/python -m pytest -q -x tests/fuzzing --hypothesis-profile=long --timeout=$(SECONDS); code=$$?; test $$code -eq 124 || exit $$code

mutants: $(CHECKS)  ## change the code in small ways and print which changes the tests detect (an hour on two cores; ONLY=module, ALL=1)
	$(BIN)/python -m tests.mutation $(if $(ONLY),--only $(ONLY)) $(if $(ALL),--all)

# The report's datasets. A folder that exists is not rebuilt; one that is missing is built from the downloaded originals.
PLAN ?= trainer/report/small.yaml
DATASETS := data/reddit data/books data/snli data/stsb data/sts data/cqa
SCRIPTS := $(BIN)/python -m data_scripts
REQUIRE_ORIGINALS = @test -d '$(ORIGINALS)' || { echo "error: $@ does not exist, and $(if $(ORIGINALS),ORIGINALS=$(ORIGINALS) is not a folder,ORIGINALS is not set); run make report ORIGINALS=folder with a folder that holds the downloaded originals: conversations/pairs/reddit_*.tsv.xz, books, snli, stsb, sts and cqa (data_scripts/README.md says what each contains)" >&2; exit 2; }

data/reddit: | $(INSTALLED)
	$(REQUIRE_ORIGINALS)
	$(SCRIPTS) conversations $(ORIGINALS)/conversations/pairs/reddit_*.tsv.xz -o $@
data/books: | $(INSTALLED)
	$(REQUIRE_ORIGINALS)
	$(SCRIPTS) books $(ORIGINALS)/books -o $@
data/snli: | $(INSTALLED)
	$(REQUIRE_ORIGINALS)
	$(SCRIPTS) nli $(ORIGINALS)/snli -o $@
data/stsb data/sts data/cqa: | $(INSTALLED)
	$(REQUIRE_ORIGINALS)
	$(SCRIPTS) $(@F) $(ORIGINALS)/$(@F) -o $@

report: $(INSTALLED) | $(DATASETS)  ## reproduce the tables and figures of both papers (75 minutes on two cores; ORIGINALS=folder names the downloaded data)
	$(BIN)/python -m trainer.report --plan $(PLAN) --jobs 2 -o report

.PHONY: report help install train demo test test-min test-new lint audit bench soak fuzz mutants
