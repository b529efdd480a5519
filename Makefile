# Learning Dynamics: every command of the book. `make` lists them.
.DEFAULT_GOAL := help
.PHONY: help setup book pdf plain versions test chapter pull all-chapters run serve bench seeds kept paper gpu repository clean

PYTHON ?= python3
BIN := .venv/bin
SCALE ?= book
DEVICE ?= auto
SEED ?= 0
PORT ?= 8000
CHAPTER ?=
PART ?=
PARTS ?=
OUT ?=
URL ?=
OVERWRITE ?=
RESULT ?=
SHARD ?=
PROFILE ?= local
SETTING ?=
CONSTRAINTS ?= constraints.txt
# Make reads these as they stand, without looking for a `$` in them. Recipes read them from the environment, where a
# shell takes a quote or a semicolon in them for what it is.
GIVEN := PYTHON SCALE DEVICE SEED PORT CHAPTER PART PARTS OUT URL OVERWRITE RESULT SHARD PROFILE SETTING CONSTRAINTS
$(foreach name,$(GIVEN),$(eval override $(name) := $$(value $(name))))
export $(GIVEN)

# An environment holds the paths of the folder that it was made in: one that was copied or moved is refused.
MADE := $(shell cat .venv/ready 2>/dev/null)
ifneq ($(MADE),)
ifneq ($(MADE),$(realpath .venv))
$(error .venv = made as $(MADE); allowed: $(realpath .venv); remove .venv, then `make setup`)
endif
endif

help: ## List these commands
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: .venv/ready ## Make the virtual environment and install what the book needs

.venv/ready: requirements.txt $(wildcard $(CONSTRAINTS)) pyproject.toml
	@"$$PYTHON" tools/check_python.py
	@"$$PYTHON" -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt $(if $(CONSTRAINTS),-c "$$CONSTRAINTS")
	@cd .venv && pwd -P > ready

book: .venv/ready ## Render the committed chapters to book/_build/html
	@$(BIN)/python tools/chapter.py --stale
	@$(BIN)/jupyter-book build . -W --keep-going -n --path-output book
	@echo "Open $(CURDIR)/book/_build/html/index.html"

pdf: book ## Print the rendered book into one PDF, and offer it on the landing page
	@$(BIN)/python tools/pdf.py
	@$(BIN)/jupyter-book build . -W --keep-going -n --path-output book > /dev/null

plain: book ## Write the notebooks that GitHub and Colab show, in plain Markdown, to book/_build/notebooks
	@$(BIN)/python tools/plain.py

test: .venv/ready ## Run every test and print the time of each part
	@$(BIN)/python tools/suite.py $$PARTS

chapter: .venv/ready ## Execute one chapter and write its notebook: CHAPTER=part/name
	@$(BIN)/python tools/chapter.py $$CHAPTER $(if $(OVERWRITE),--overwrite)

pull: .venv/ready ## Take what was edited in a chapter's notebook into its .py: CHAPTER=part/name
	@$(BIN)/python tools/pull.py "$$CHAPTER"

all-chapters: .venv/ready ## Execute every chapter
	@$(BIN)/python tools/chapter.py --all

run: .venv/ready ## Run a chapter into a new file: CHAPTER=part/name [SCALE= DEVICE= SEED= PART= OUT=]
	@$(BIN)/python tools/notebook.py "$$CHAPTER" --scale "$$SCALE" --device "$$DEVICE" --seed "$$SEED" \
	  $(if $(PART),--part "$$PART") $(if $(OUT),--out "$$OUT")

serve: book ## Render and serve the book on this machine: [PORT=8000]
	@echo "http://127.0.0.1:$$PORT/ (stop with Ctrl-C)"
	@$(BIN)/python -m http.server "$$PORT" --bind 127.0.0.1 --directory book/_build/html

bench: .venv/ready ## Measure speed ratios, chapter times and the render: [PART=recurrence]
	@$(BIN)/python tools/bench.py $$PART

versions: .venv/ready ## Run the notebooks with other kernels and threads, compare all numbers: [SETTING= CHAPTER= OUT=]
	@$(BIN)/python tools/versions.py $$SETTING $(if $(CHAPTER),--chapter $$CHAPTER) $(if $(OUT),--out "$$OUT")

seeds: .venv/ready ## Run chapters with other seeds: same verdicts? [CHAPTER=part/name]
	@$(BIN)/python tools/seeds.py $$CHAPTER

kept: .venv/ready .venv-workflow/ready ## Make the kept results that need no GPU again, and compare: [CHAPTER= RESULT= SHARD=k/m]
	@$(BIN)/python tools/make_results.py kept --chapter="$$CHAPTER" --result="$$RESULT" --shard="$$SHARD"

paper: .venv/ready .venv-workflow/ready ## Make paper-scale results: [CHAPTER= RESULT= PROFILE=local|gpu|slurm|kubernetes]
	@$(BIN)/python tools/make_results.py paper --chapter="$$CHAPTER" --result="$$RESULT" --profile="$$PROFILE"

gpu: .venv/ready ## Make the results that need a GPU in parts of 8 minutes: [CHAPTER= RESULT=]; say it again to go on
	@$(BIN)/python tools/gpu_parts.py --minutes 8 --chapter="$$CHAPTER" --result="$$RESULT"

.venv-workflow/ready: workflow/requirements.txt
	@"$$PYTHON" -m venv .venv-workflow
	@.venv-workflow/bin/python -m pip install --quiet --disable-pip-version-check -r workflow/requirements.txt
	@touch $@

repository: .venv/ready ## Change the repository's address everywhere: URL=https://host/owner/name
	@$(BIN)/python tools/repository.py "$$URL"

clean: ## Remove the rendered book and caches; notebooks and the environment stay
	@rm -rf book/_build book/api .pytest_cache .ruff_cache .hypothesis .coverage
	@find . -name __pycache__ -not -path './.venv*' -prune -exec rm -rf {} +
