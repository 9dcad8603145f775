# Everything goes through .venv, which `setup` makes from requirements.lock: the same with uv and with plain pip.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.stamp
UV := $(shell command -v uv 2>/dev/null)
# Colours only on a terminal: logs stay readable. (stdout is a pipe inside $(shell), so ask about stderr.)
ifneq ($(shell [ -t 2 ] && echo yes),yes)
export NO_COLOR := 1
endif
.DEFAULT_GOAL := help

.PHONY: help
help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "  make %-14s %s\n", $$1, $$2 }' | sed 's/make   /make /'

define PYTHON_IS_FIT
$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
  echo "perdure needs Python 3.11 or later; $(PYTHON) is $$($(PYTHON) --version 2>&1 | tail -1). Next: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; } >&2
endef

.PHONY: setup
setup: $(STAMP) ## .venv with the locked dependencies (uv when there is one, else venv + pip)

$(STAMP): requirements.lock pyproject.toml hatch_build.py
	@$(PYTHON_IS_FIT)
ifneq ($(UV),)
	@[ -x $(BIN)/python ] || $(UV) venv --quiet --python "$$($(PYTHON) -c 'import sys; print(sys.executable)')" $(VENV)
	@$(UV) pip sync --quiet --compile-bytecode --python $(BIN)/python --require-hashes requirements.lock
	@$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
else
	@[ -x $(BIN)/pip ] || $(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
endif
	@touch $@

.PHONY: demo
demo: $(STAMP) ## the main job: the leave desk, with its worker killed on the way
	@$(BIN)/python -m examples.demo $(ARGS)

.PHONY: test
test: $(STAMP) ## the tests that are done in minutes; test-slow has the others
	@$(BIN)/python -m pytest -q -n 4 --dist loadfile $(ARGS)

.PHONY: check
check: $(STAMP) ## ruff, mypy, pyright, import contracts
	$(BIN)/ruff check --quiet
	$(BIN)/ruff format --check --quiet
	$(BIN)/mypy
	$(BIN)/pyright
	$(BIN)/lint-imports --no-logo

.PHONY: test-slow
test-slow: $(STAMP) ## what takes longer: every block of the docs, killed workers, rates, agents together, demos interrupted
	@$(BIN)/python -m pytest -q -m slow --ignore tests/packaging -n 3 --dist worksteal $(ARGS)

.PHONY: fuzz-text
fuzz-text: $(STAMP) ## a minute of random texts against text mode's parser
	@$(BIN)/python -m tests.providers.fuzz_text $(ARGS)

.PHONY: fuzz-together
fuzz-together: $(STAMP) ## runs drawn by lot, all features at once: FUZZ_SECONDS=60, from SEED=1000 on
	@$(BIN)/python -m pytest -q -m slow tests/workflow/test_together.py -k many_runs $(ARGS)

.PHONY: test-wheel
test-wheel: $(STAMP) ## build the wheel and try it in an empty environment
	@$(BIN)/python -m pytest -q -m slow tests/packaging $(ARGS)

.PHONY: trial-retail
trial-retail: ## tau2-bench's retail desk: 114 tasks, each against the reference (in .venv-retail)
	@$(PYTHON_IS_FIT)
	@PYTHON=$(PYTHON) sh trials/retail/setup.sh
	@.venv-retail/bin/python -m trials.retail $(ARGS)

.PHONY: bench
bench: $(STAMP) ## what a turn costs, as JSON lines
	@$(BIN)/python bench/steps.py --steps 20 --bytes 5000
	@$(BIN)/python bench/steps.py --steps 200 --bytes 5000
	@$(BIN)/python bench/burst.py
	@$(BIN)/python bench/starved.py
	@$(BIN)/python bench/context.py

.PHONY: wheel
wheel: $(STAMP) ## dist/*.whl and dist/*.tar.gz
	@rm -rf dist && $(BIN)/hatchling build

.PHONY: lock
lock: ## requirements.lock anew, newest versions allowed by pyproject.toml (needs uv)
	@uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-emit-find-links --upgrade --python-version 3.11 --group dev pyproject.toml \
	  --custom-compile-command "make lock" --output-file requirements.lock
	@sh trials/retail/lock.sh

.PHONY: clean
clean: ## everything that can be made again
	@rm -rf $(VENV) .venv-retail dist build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
