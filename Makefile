# Shorthands; every target is a snakemake or pytest call that the README also shows.
PYTHON ?= python3
JOBS ?= all
# REQUIREMENTS=envs/requirements.lock: only files whose hashes stand there.
REQUIREMENTS ?= envs/requirements.txt
BIN := .venv/bin
SNAKEMAKE := $(BIN)/snakemake --cores $(JOBS)
empty :=
space := $(empty) $(empty)
comma := ,
list = [$(subst $(space),$(comma),$(strip $(1)))]

# Only what the user gives is passed on; everything else stands in the config.
OVERRIDES := $(if $(DATASETS),datasets=$(call list,$(DATASETS))) \
             $(if $(ONLY),only=$(call list,$(ONLY))) \
             $(if $(EPSILONS),epsilons=$(call list,$(EPSILONS))) \
             $(if $(SEEDS),'seeds=$(SEEDS)') $(if $(MIRROR),'mirror=$(MIRROR)')
CONFIG = $(if $(strip $(OVERRIDES)),--config $(OVERRIDES))
PAPERS := $(basename $(notdir $(wildcard config/papers/*.yaml)))

.PHONY: help install demo paper known-paper redraw test test-slow test-faults test-slurm test-fresh lint format
.DEFAULT_GOAL := help

help:
	@echo "make demo                          the whole chain on a generated graph"
	@echo "make test                          formatting, linting and the tests"
	@echo "make paper PAPER=gap [DATASETS=\"berkeley13 pubmed\"] [EPSILONS=\"1 4\"] [SEEDS=3]"
	@echo "                     [ONLY=\"accuracy nmi\"] [MIRROR=dir] [JOBS=n]   a paper's study, or a part of it"
	@echo "make redraw                        figures and tables of the documentation, from shipped rows"
	@echo "make test-faults [SEED=n]          kills, full disks and damaged files, done to a small study"
	@echo "make test-slurm                    the same on a real Slurm of one node (root)"
	@echo "make test-fresh                    installation, demo and tests on a bare Debian (root, debootstrap)"
	@echo "papers: $(PAPERS)"

install: $(BIN)/.installed

$(BIN)/.installed: $(REQUIREMENTS) pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "graphdp needs Python 3.11 or newer; run make PYTHON=/path/to/python3.11 ...")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r $(REQUIREMENTS)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

demo: install
	$(SNAKEMAKE) $(CONFIG)
	@echo && cat results/demo/tables/accuracy.md
	@echo && echo "Report: $(CURDIR)/results/demo/report.html"

# The first call downloads what it can; the second runs on that and shows the rest as missing.
paper: known-paper install
	-$(SNAKEMAKE) data --configfile config/papers/$(PAPER).yaml $(CONFIG)
	$(SNAKEMAKE) --configfile config/papers/$(PAPER).yaml --config missing_data=skip $(OVERRIDES)
	@echo && echo "Report: $(CURDIR)/results/$(PAPER)/report.html"

known-paper:
	@$(if $(strip $(foreach name,DATASET EPSILON SEED,$(filter command,$(origin $(name))))),echo 'write DATASETS$(comma) EPSILONS or SEEDS$(comma) as in make paper PAPER=gap DATASETS=cora SEEDS=3' >&2; exit 2)
	@$(if $(and $(filter 1,$(words $(PAPER))),$(filter $(PAPERS),$(PAPER))),:,echo 'unknown PAPER "$(PAPER)"; use one of: $(PAPERS), as in make paper PAPER=gap' >&2; exit 2)

# Figures, tables and hashes of what is shipped, from shipped rows: one or two CPU minutes.
redraw: install
	$(BIN)/python -m graphdp.redraw

lint: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/snakefmt --check Snakefile rules
	$(BIN)/snakemake --lint

format: install
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/snakefmt Snakefile rules

test: lint
	$(BIN)/python -m pytest -m "not slow" -n 2 --dist loadfile --no-loadscope-reorder

# Kills, full disks, damaged files: some ten minutes of CPU time. SEED=n repeats a run.
test-faults: install
	$(BIN)/python tests/faults/run.py $(if $(SEED),--seed $(SEED))

# A real Slurm (root; Debian's slurm-wlm and munge): kills, memory, GPUs; twenty minutes on two busy cores.
test-slurm: install
	$(BIN)/python tests/slurm/run.py

# A bare Debian in a folder, a user without rights, a clone of the last commit; nothing is left behind.
test-fresh:
	@$(PYTHON) tests/fresh/run.py

test-slow: install
	GRAPHDP_CLAIMS=$(CLAIMS) GRAPHDP_ALIKE=$(ALIKE) $(BIN)/python -m pytest -m slow -n 2 --dist worksteal --durations 30
