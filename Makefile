# The doors of the project. Each sets up what it needs in .venv, from a fresh clone.
#   make demo    run the main job embedded, on a generated web
#   make test    all tests
#   make check   ruff, mypy (strict on core and schemas)
#   make model   many more random histories through the real processors, and each rule disabled once
#   make bench   benchmarks, as ratios in one run
#   make test-kafka, make chaos, make bench-kafka   the Kafka engine on a real broker (Java 17 and Maven)

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN := $(VENV)/.run-ready
DEV := $(VENV)/.dev-ready
TYPES := $(VENV)/types

.PHONY: demo test test-kafka chaos model check format bench bench-kafka schemas lock clean help

help:
	@sed -n '1,/^$$/s/^#  *//p' Makefile

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "dustream needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(RUN): requirements.lock pyproject.toml | $(BIN)/python
	@echo "installing what dustream needs into $(VENV) ..."
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps -e .
	@echo "compiling the hot loops, once (about a minute) ..."
	$(BIN)/python -m dustream.streams.warm_up
	@touch $@

$(DEV): requirements-dev.lock $(RUN)
	@echo "installing what tests and benchmarks need into $(VENV) ..."
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@touch $@

demo: $(RUN)
	$(BIN)/dustream demo

test: $(DEV)
	$(BIN)/pytest --ignore=tests/kafka

test-kafka: $(DEV)
	$(BIN)/pytest tests/kafka

chaos: $(DEV)
	$(BIN)/python tests/kafka/chaos.py

HISTORIES ?= 20000
model: $(DEV)
	$(BIN)/python tests/model/run.py --histories $(HISTORIES)
	$(BIN)/python tests/model/run.py --mutations

# Type checkers do not follow the editable install's mapping of folders to packages: links show them the same tree.
$(TYPES):
	mkdir -p $(TYPES)/dustream
	ln -sfn ../../../core $(TYPES)/dustream/core
	ln -sfn ../../../schemas $(TYPES)/dustream/schemas
	ln -sfn ../../../streams $(TYPES)/dustream/streams

check: $(DEV) $(TYPES)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	MYPYPATH=$(TYPES) $(BIN)/mypy -p dustream.core -p dustream.schemas -p dustream.streams

format: $(DEV)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(DEV)
	$(BIN)/python bench/run.py

bench-kafka: $(DEV)
	$(BIN)/python bench/kafka.py

schemas: $(RUN)
	$(BIN)/python -m dustream.streams.schema_files schemas/json

# The lock files name versions and hashes only, no addresses: any index that has the packages will do.
LOCK = uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --no-emit-find-links
lock:
	$(LOCK) pyproject.toml -o requirements.lock
	$(LOCK) --extra dev --extra bench -c requirements.lock pyproject.toml -o requirements-dev.lock

clean:
	rm -rf $(VENV) build demo *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
