# `make serve` is for users (ARGS="--port 8000 …" for it), the rest for contributors. Only python3 (>= 3.11, with
# venv) and make have to be there.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CLIENTS := .venv-clients
# One more than there are cores: tests wait for processes and servers that they start.
WORKERS := $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
# Complete lists of wheels, pinned by hash: there is nothing to resolve and nothing to build.
INSTALL_LIST := install --quiet --disable-pip-version-check --require-hashes --no-deps --only-binary :all: --no-compile -r
COMPILE_LIST := uv pip compile --quiet --universal --generate-hashes --no-header --no-annotate --python-version 3.11

# The tests start many processes: what one has compiled the next one finds, also where the machine's default is not to
# keep it.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: serve ready test check lint types pytest interop torture console console-built console-checked console-types console-dev console-test console-unit console-browser console-bench docs bench bench-stalls bench-peers constraints clean

serve: $(VENV)/serving
	$(BIN)/awaken serve $(ARGS)

# Types are checked beside the tests, many of which wait for others.
test: lint
	$(MAKE) --no-print-directory -j 2 types pytest

check: lint types

lint: $(VENV)/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(VENV)/ready
	$(BIN)/mypy

pytest: $(VENV)/ready
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

# All that the checks install. After it they need no network but the loopback interface.
ready: $(VENV)/ready $(CLIENTS)/ready tests/interop/node_modules/ready console/node_modules/ready

# The other side's own clients against our server: npm packages on the Node that comes as a wheel,
# and Python packages in an environment of their own.
interop: $(VENV)/ready $(CLIENTS)/ready tests/interop/node_modules/ready
	AWAKEN_INTEROP=1 $(BIN)/python -m pytest tests/interop

# The console: `console/` becomes files of the package, which are committed, so that serving needs no Node. The types
# of its client come from the server's own OpenAPI document.
console:
	$(MAKE) --no-print-directory -j 2 console-built console-checked

console-built: console-types
	cd console && PATH="$(CURDIR)/$(BIN):$$PATH" npm run --silent build

console-checked: console-types
	cd console && PATH="$(CURDIR)/$(BIN):$$PATH" npm run --silent check

console-types: $(VENV)/ready console/node_modules/ready
	$(BIN)/python console/scripts/dump_openapi.py > console/node_modules/openapi.json
	cd console && PATH="$(CURDIR)/$(BIN):$$PATH" npx --no-install openapi-typescript node_modules/openapi.json --empty-objects-unknown -o src/api/schema.ts >/dev/null

# For work on it: Vite's own server, which reloads what changes and asks a running `awaken serve` (AWAKEN_URL).
console-dev: console/node_modules/ready
	cd console && PATH="$(CURDIR)/$(BIN):$$PATH" npm run dev

# Units beside the making of types, the check of types beside the build and the beginning of the browser: whichever
# fails, fails it all.
console-test:
	$(MAKE) --no-print-directory -j 2 console-unit console-checked console-browser

console-unit: console/node_modules/ready
	cd console && PATH="$(CURDIR)/$(BIN):$$PATH" npm run --silent unit

# The built files are those of the sources, byte for byte; then the console in Chromium against real servers.
console-browser: console-built
	git diff --exit-code --stat -- console/src/api/schema.ts src/awaken/protocols/console/built
	cd console && PATH="$(CURDIR)/$(BIN):$$PATH" npx --no-install playwright test

# How fast its pages are: the first one, a run of 10,000 events, a fast chat.
console-bench: console
	cd console && PATH="$(CURDIR)/$(BIN):$$PATH" node --experimental-transform-types --no-warnings tests/bench_pages.ts

# The documentation as a site, in a folder for this version: site/<version>/index.html.
docs: $(VENV)/ready
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --site-dir site/$$($(BIN)/python -c 'import importlib.metadata as it; print(it.version("awaken"))')

# Crashes, kills, power loss, hostile schedules, and all cases of what `make test` samples; FULL=1 for the long lane.
torture: $(VENV)/ready
	$(BIN)/python -m tests.torture $(if $(FULL),--full)

# Every table of docs/benchmarks.md, which it writes: about 25 minutes with all peers. BEFORE=checkout measures another
# version in the same rounds; SECTIONS=micro,persist only a part; QUICK=1 our own rows, shortly, into copies of the pages.
bench: $(VENV)/ready
	BEFORE="$(BEFORE)" $(BIN)/python bench/all.py $(if $(SECTIONS),--sections $(SECTIONS)) $(if $(QUICK),--quick)

# Hostile bodies up to the limit against every route that takes one: the worst stalls and swellings.
bench-stalls: $(VENV)/ready
	$(BIN)/python bench/stalls.py

bench-peers: $(VENV)/ready
	bash bench/install_peers.sh

# What serving needs, with MCP and ACP. Python compiles a module when it is first imported. The pip that an older
# Python brings would take twice as long.
$(VENV)/serving: pyproject.toml constraints-serve.txt constraints-pip.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip $(INSTALL_LIST) constraints-pip.txt
	$(BIN)/pip $(INSTALL_LIST) constraints-serve.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

# The tools of contributors on top; the tests start many processes, so everything is compiled once.
$(VENV)/ready: $(VENV)/serving constraints.txt
	$(BIN)/pip $(INSTALL_LIST) constraints.txt
	$(BIN)/python -m compileall -q -j 0 $(VENV)/lib
	touch $@

$(CLIENTS)/ready: tests/interop/python_clients/requirements.txt
	$(PYTHON) -m venv $(CLIENTS)
	$(CLIENTS)/bin/pip install --quiet --disable-pip-version-check --no-deps -r $<
	touch $@

# Node comes as a wheel.
tests/interop/node_modules/ready console/node_modules/ready: %/node_modules/ready: $(VENV)/ready %/package-lock.json
	cd $* && PATH="$(CURDIR)/$(BIN):$$PATH" npm install --no-save --ignore-scripts --no-audit --no-fund --loglevel=error
	touch $@

# Needs `uv`; run it after changing dependencies. The list for serving is a part of the full one.
constraints:
	echo pip | $(COMPILE_LIST) - -o constraints-pip.txt
	echo flit-core | $(COMPILE_LIST) --extra dev pyproject.toml - -o constraints.txt
	echo flit-core | $(COMPILE_LIST) --extra mcp --extra acp pyproject.toml - -c constraints.txt -o constraints-serve.txt
	echo flit-core | $(COMPILE_LIST) --extra mcp --extra acp --extra postgres --extra nats pyproject.toml - -c constraints.txt -o deploy/requirements.txt

clean:
	rm -rf $(VENV) $(CLIENTS) console/node_modules tests/interop/node_modules .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache dist
