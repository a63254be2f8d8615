# Each target sets up what it needs in .venv, from a fresh clone.
#   make demo    run the main job embedded, on a generated web
#   make test    the tests; those of the Kafka engine need Java 17 and Maven, those of the web page Chromium: installed on Debian, as root
#   make test-slow    the large rounds of tests, which make test leaves out
#   make test-quick   those without a broker and the model
#   make test-lowest   those without a broker, with the lowest versions of packages that pyproject.toml allows
#   make check   ruff, mypy --strict
#   make model   many more random histories through the real processors, and each rule disabled once
#   make fuzz    100,000 mutated pages through the scanner, compiled with bounds checks; 20,000 damaged inputs
#   make bench   benchmarks, as ratios in one run
#   make reference   write docs/reference from the code; make schemas: the JSON Schemas
#   make screenshots   pictures of the web page, in docs/img
#   make test-kafka, make chaos, make bench-kafka   the Kafka engine on a real broker

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN := $(VENV)/.run-ready
DEV := $(VENV)/.dev-ready
TYPES := $(VENV)/types

.PHONY: demo test test-slow test-quick test-lowest test-kafka kafka-tools browser-tools screenshots chaos fuzz model check format bench bench-kafka schemas reference lock clean help

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
	$(BIN)/python -m compileall -q api core schemas streams
	$(BIN)/dustream compile
	@touch $@

$(DEV): requirements-dev.lock $(RUN)
	@echo "installing what tests and benchmarks need into $(VENV) ..."
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@touch $@

demo: $(RUN)
	$(BIN)/dustream demo

# Tests on a real broker mostly wait, so they run in parallel with the others, split so that both halves take about
# equally long. Their output is shown at the end.
BESIDE := tests/streams/kafka tests/model
BESIDE_SAYS := $(VENV)/tests-beside.txt
test: $(DEV) kafka-tools browser-tools
	@echo "the tests on a real Kafka broker, and of the model, run beside the others (so far: $(BESIDE_SAYS))"
	@$(BIN)/pytest -m "not slow" -o cache_dir=.pytest_cache/beside $(BESIDE) >$(BESIDE_SAYS) 2>&1 & beside=$$!; \
	trap 'kill $$beside; wait $$beside; exit 130' INT TERM; \
	$(BIN)/pytest -m "not slow" $(BESIDE:%=--ignore=%); others=$$?; \
	echo "tests on a real Kafka broker, and of the model:"; wait $$beside; beside=$$?; cat $(BESIDE_SAYS); \
	[ $$others = 0 ] || echo "FAILED: the tests without a broker (above)"; \
	[ $$beside = 0 ] || echo "FAILED: the tests on a real Kafka broker, or of the model"; \
	[ $$others = 0 ] && [ $$beside = 0 ]

test-slow: $(DEV) kafka-tools browser-tools
	$(BIN)/pytest -m slow

test-quick: $(DEV)
	$(BIN)/pytest -m "not kafka and not model and not slow"

# Machine code of another numba is kept apart from that beside the source, in one folder for commands started anywhere.
LOWEST := .venv-lowest
LOWEST_RUN := NUMBA_CACHE_DIR=$(CURDIR)/$(LOWEST)/code $(LOWEST)/bin
$(LOWEST)/.ready: pyproject.toml
	$(PYTHON) -m venv --clear $(LOWEST)
	$(LOWEST)/bin/pip install --quiet --disable-pip-version-check uv
	$(LOWEST)/bin/uv pip install --quiet --python $(LOWEST)/bin/python --resolution lowest-direct -e '.[dev]'
	$(LOWEST_RUN)/dustream compile
	@touch $@

test-lowest: $(LOWEST)/.ready browser-tools
	$(LOWEST_RUN)/pytest -o cache_dir=.pytest_cache/lowest -m "not kafka"

test-kafka: $(DEV) kafka-tools
	$(BIN)/pytest -m kafka

APT_INSTALL = apt-get -qq install -y --no-install-recommends >/dev/null
# On other systems, `dustream broker start` and the tests say what is missing.
kafka-tools:
	@command -v java >/dev/null && command -v mvn >/dev/null || \
		{ [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && echo "installing Java and Maven ..." && \
		apt-get -qq update && { $(APT_INSTALL) openjdk-17-jre-headless maven || $(APT_INSTALL) default-jre-headless maven; }; } || \
		echo "no Java and Maven here: the tests on a real Kafka broker will not run"

# On other systems the tests say what is missing.
browser-tools:
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null || \
		{ [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && echo "installing Chromium ..." && \
		apt-get -qq update && $(APT_INSTALL) chromium chromium-driver; } || \
		echo "no Chromium here: the tests in a real browser will not run"

screenshots: $(DEV) browser-tools
	$(BIN)/python tests/support/screenshots.py docs/img

chaos: $(DEV) kafka-tools
	$(BIN)/python tests/streams/kafka/chaos.py

fuzz: $(DEV)
	$(BIN)/python bench/fuzz_scanner.py
	$(BIN)/python tests/support/reader_fuzz.py --cases 20000

HISTORIES ?= 20000
model: $(DEV)
	$(BIN)/python tests/model/run.py --histories $(HISTORIES)
	$(BIN)/python tests/model/run.py --mutations

# Type checkers do not follow the editable install's mapping of folders to packages: links show them the same tree.
$(TYPES): $(wildcard api/*)
	mkdir -p $(TYPES)
	rm -rf $(TYPES)/dustream && mkdir $(TYPES)/dustream
	for file in $(notdir $(wildcard api/*)); do ln -sfn ../../../api/$$file $(TYPES)/dustream/$$file; done
	ln -sfn ../../../core $(TYPES)/dustream/core
	ln -sfn ../../../schemas $(TYPES)/dustream/schemas
	ln -sfn ../../../streams $(TYPES)/dustream/streams

check: $(DEV) $(TYPES)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	MYPYPATH=$(TYPES) $(BIN)/mypy -p dustream

format: $(DEV)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(DEV)
	$(BIN)/python bench/run.py

bench-kafka: $(DEV) kafka-tools
	$(BIN)/python bench/kafka.py

schemas: $(RUN)
	$(BIN)/python -m dustream.streams.schema_files schemas/json

reference: $(RUN)
	$(BIN)/python -m dustream.streams.reference docs/reference

# The lock files name versions and hashes only, no addresses: any index that has the packages will do.
LOCK = uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --no-emit-find-links
lock:
	$(LOCK) pyproject.toml -o requirements.lock
	$(LOCK) --extra dev --extra bench -c requirements.lock pyproject.toml -o requirements-dev.lock

clean:
	rm -rf $(VENV) $(LOWEST) build demo *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
