# Every command of the project, each from a bare machine: the first use builds the environment in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
SPARK := $(VENV)/.installed-spark
.DEFAULT_GOAL := help

help:  ## list the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "error: Python 3.11 or newer is needed; name one with make PYTHON=python3.12"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[train,suggest,export,mteb,demo,dev]'
	touch $@

$(SPARK): $(INSTALLED)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[spark]'
	touch $@

install: $(INSTALLED)  ## build the environment in .venv

train: $(INSTALLED)  ## train, evaluate and try a DAN on the shipped sample (minutes, CPU)
	$(BIN)/python -m data_scripts sample --output data/sample
	$(BIN)/accelerate launch --quiet --num_processes 1 --num_machines 1 --mixed_precision no --dynamo_backend no trainer/run.py trainer/presets/quickstart.yaml --overwrite true
	$(BIN)/python -m trainer.evaluation runs/quickstart/model --tasks sample --data data/sample --update runs/quickstart/results.json

runs/quickstart/model: | $(INSTALLED)
	$(MAKE) train

# The index is made each time: it belongs to the weights of the model, which may have been trained again.
demo: runs/quickstart/model  ## open a page: similarity, replies, nearest sentences, by the model that make train leaves
	$(BIN)/python -m modeling_convsim.suggestion build runs/quickstart/model data/sample/train-00000-of-00001.parquet -o runs/quickstart/replies
	$(BIN)/python -m modeling_convsim.suggestion calibrate runs/quickstart/replies data/sample/test-00000-of-00001.parquet
	$(BIN)/python model_cards/space/app.py runs/quickstart/replies --open

test: $(INSTALLED) $(SPARK)  ## run the whole test suite
	OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 $(BIN)/python -m pytest --numprocesses 2 --dist loadfile

lint: $(INSTALLED)  ## ruff, types and directions of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo --no-cache

bench: $(INSTALLED)  ## speed and memory against named peers; make bench ONLY=name runs one
	$(BIN)/python -m tests.benchmarks $(if $(ONLY),--only $(ONLY))

# The sets of the report, from their originals; a folder that is there is not made again.
CONVSIM_DATA ?= ../shared/data
PLAN ?= trainer/report/small.yaml
SETS := data/reddit data/books data/snli data/stsb data/sts data/cqa
SCRIPTS := $(BIN)/python -m data_scripts

data/reddit: | $(INSTALLED)
	$(SCRIPTS) conversations $(CONVSIM_DATA)/conversations/pairs/reddit_*.tsv.xz -o $@
data/books: | $(INSTALLED)
	$(SCRIPTS) books $(CONVSIM_DATA)/books -o $@
data/snli: | $(INSTALLED)
	$(SCRIPTS) nli $(CONVSIM_DATA)/snli -o $@
data/stsb data/sts data/cqa: | $(INSTALLED)
	$(SCRIPTS) $(@F) $(CONVSIM_DATA)/$(@F) -o $@

report: $(INSTALLED) | $(SETS)  ## both papers, every table and figure, on the real data (about 75 minutes, two cores)
	$(BIN)/python -m trainer.report --plan $(PLAN) --jobs 2 -o report

.PHONY: report help install train demo test lint bench
