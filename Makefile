# Everything a developer or a CI machine runs. Needs Python 3.11+, git, make and bash; the rest goes into .venv.

SHELL := bash
.SHELLFLAGS := -o pipefail -c

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

# Arguments of the targets below.
CASES  ?= ../shared/conformance
OUT    ?= conformance/results.json
STRICT ?=
ONLY   ?=
SCALE  ?=
BASE   ?=
PAIRS  ?=
PYTEST_ARGS ?=

export RUFF_CACHE_DIR  ?= $(CURDIR)/$(VENV)/ruff-cache
export PIP_DISABLE_PIP_VERSION_CHECK ?= 1

# Named after the contents of their inputs, so that neither a checkout nor a touch installs anything again. RUN: what Muster
# runs on is there; STAMP: and what develops it.
RUN   := $(VENV)/run-$(shell cat requirements-run.lock requirements-build.lock pyproject.toml | cksum | tr ' ' '-').done
STAMP := $(VENV)/setup-$(shell cat requirements.lock pyproject.toml | cksum | tr ' ' '-').done

# The generator of the site has a place of its own: nothing else needs it.
DOCS_VENV  := $(VENV)-docs
DOCS_STAMP := $(DOCS_VENV)/setup-$(shell cksum < requirements-docs.lock | tr ' ' '-').done

# Installs what a lock lists ($(1): the lock, $(2): what it is, $(3): where, if not in .venv), and shows how far it is: on a terminal a line that counts,
# elsewhere one line in all. Modules are compiled when they are first imported: most never are.
define install
	@n=$$(grep -c '==' $(1)); screen=; if [ -t 1 ]; then screen=1; fi; \
	PYTHONUNBUFFERED=1 $(or $(3),$(VENV))/bin/python -m pip install --no-compile --require-hashes --requirement $(1) | awk -v n=$$n -v screen=$$screen ' \
		BEGIN { printf "$(2): %d packages%s", n, screen ? "" : "\n"; fflush() } \
		!screen { next } \
		/^(Collecting|Ignoring|Requirement already)/ { printf "\r\033[K$(2): %d of %d (%s)", ++i, n, $$1 == "Requirement" ? $$4 : $$2; fflush() } \
		/^Installing collected/ { printf "\r\033[K$(2): unpacking"; fflush() } \
		END { if (screen) printf "\r\033[K$(2): done\n" }'
endef

# Also says when a lock has fallen behind.
define install-muster
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m pip check >/dev/null || { $(BIN)/python -m pip check; echo "the locks are behind pyproject.toml: make lock"; exit 1; }
endef

COMPILE := $(BIN)/uv pip compile --universal --python-version 3.11 --quiet --generate-hashes \
	--no-emit-index-url --no-emit-find-links --custom-compile-command "make lock"

# Top-level packages that stand beside src; each is checked as soon as it exists.
CHECKED := src $(wildcard tests conformance benchmarks examples)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup demo ui ui-test test unit kube-tests kube-assets kube-assets-if-possible conformance conformance-if-present bench bench-compare bench-kubernetes soak storm lint imports docs docs-serve docs-check manifests format lock lock-apart sbom clean

help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## Make .venv from requirements.lock and install muster into it, with all tools; nothing to do when nothing changed.

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "muster needs Python 3.11 or newer; name one with make PYTHON=...")'
	@$(PYTHON) -m venv $(VENV)

$(STAMP): | $(BIN)/python
	$(call install,requirements.lock,what runs and what develops)
	$(install-muster)
	@echo "kernels: compiling all of them, once"
	@$(BIN)/python -m muster.kernels
	@rm -f $(VENV)/setup-*.done
	@touch $@

# The demo is so small that it runs without compiled kernels; larger clusters compile those that they need, once.
$(RUN): | $(BIN)/python
	$(if $(wildcard $(STAMP)),,$(call install,requirements-run.lock,what runs))
	$(if $(wildcard $(STAMP)),,$(call install,requirements-build.lock,what builds))
	$(if $(wildcard $(STAMP)),,$(install-muster))
	@rm -f $(VENV)/run-*.done
	@touch $@

demo: $(RUN) ## Show gangs queued, placed and explained on a small embedded cluster.
	@$(BIN)/muster demo

# Needs Node; users do not: what it makes is committed.
ui: ## Build the front end of the dashboard from its lock (ui/package-lock.json) into src/muster/ui/static.
	@command -v npm >/dev/null || { echo "ui: needs Node 20 or newer with npm (Debian: apt install nodejs npm)"; exit 1; }
	@cd ui && npm ci --no-audit --no-fund --loglevel=error && npm run --silent build

# By themselves: what drives the browser keeps an event loop running, which other tests cannot have beside theirs. 5: nothing
# was selected.
ui-test: setup ## Drive the dashboard in a real Chromium, and measure it: [PYTEST_ARGS="-k cluster"].
	@$(BIN)/pytest -n 0 tests/ui/browser $(PYTEST_ARGS); code=$$?; [ $$code -eq 0 ] || [ $$code -eq 5 ]

test: unit conformance-if-present ## Run the tests, then the conformance cases when ../shared has them.

unit: setup ## Run the tests alone (PYTEST_ARGS="-k gang -n 0" narrows them).
	$(BIN)/pytest -n auto --dist worksteal --ignore=tests/kubernetes --ignore=tests/ui/browser $(PYTEST_ARGS)
	@$(MAKE) --no-print-directory ui-test
	@$(MAKE) --no-print-directory kube-tests

# Two at a time: each worker has a control plane of its own, and a test mostly waits for it. What fails is tried once more,
# alone: a test that only fails on a machine that is out of breath says so, and one that fails twice fails. 5: nothing was
# selected.
kube-tests: setup kube-assets-if-possible ## Run the tests on a real API server alone.
	@$(BIN)/pytest -n 2 --dist worksteal tests/kubernetes $(PYTEST_ARGS); code=$$?; \
	if [ $$code -eq 1 ]; then echo "kube-tests: once more, what has failed"; \
		$(BIN)/pytest -n 0 tests/kubernetes --last-failed --last-failed-no-failures none $(PYTEST_ARGS); code=$$?; fi; \
	[ $$code -eq 0 ] || [ $$code -eq 5 ]

kube-assets: setup ## Build kube-apiserver, etcd, KWOK and kube-controller-manager for the tests, once, into a cache outside the tree.
	$(BIN)/python -m muster.testing.real_parts

# The tests say themselves that they were left out.
kube-assets-if-possible: setup
	@$(BIN)/python -m muster.testing.real_parts || true

conformance: setup ## Run recorded cases: CASES=DIR [ONLY=substring] [STRICT=1] [OUT=FILE].
	$(BIN)/python -m conformance $(CASES) --out $(OUT) $(if $(ONLY),--only "$(ONLY)") $(if $(STRICT),--strict)

conformance-if-present: unit
	@if [ -d "$(CASES)" ]; then $(MAKE) --no-print-directory conformance; \
	else echo "conformance: no cases at $(CASES), none run"; fi

bench: setup ## Time the benchmark cases and write benchmarks/results.json: [ONLY=A1,A2].
	$(BIN)/python -m benchmarks $(if $(ONLY),--only "$(ONLY)")

bench-compare: setup ## Compare the speed of HEAD with another commit, in pairs: BASE=COMMIT [ONLY=A1,B] [PAIRS=7].
	@[ -n "$(BASE)" ] || { echo "bench-compare: name the commit to compare with: make bench-compare BASE=COMMIT"; exit 1; }
	$(BIN)/python -m benchmarks.compare "$(BASE)" $(if $(ONLY),--only "$(ONLY)") $(if $(PAIRS),--pairs $(PAIRS))

bench-kubernetes: setup ## Time Muster on a real API server, beside kube-scheduler: [ONLY=K1,K2] [SCALE=0.1].
	$(BIN)/python -m muster.testing.real_parts --all
	$(BIN)/python -m benchmarks.kubernetes $(if $(ONLY),--only "$(ONLY)") $(if $(SCALE),--scale $(SCALE))

soak: setup ## Run the property tests at length (many minutes).
	MUSTER_SOAK=1 $(BIN)/pytest tests/properties $(PYTEST_ARGS)

storm: setup kube-assets ## Run scheduler and controllers through random misfortune on a real API server: [STRIKES=200] [SEEDS=1,2,3].
	MUSTER_STRIKES=$(or $(STRIKES),200) MUSTER_SEEDS=$(or $(SEEDS),1) $(BIN)/pytest -n 0 tests/kubernetes/test_chaos.py \
		tests/kubernetes/test_volcano_jobs.py::test_jobs_come_out_right_though_the_controllers_die_again_and_again $(PYTEST_ARGS)

lint: setup imports docs-check ## Check style, types, the direction of imports, and that reference pages are current.
	$(BIN)/ruff check $(CHECKED)
	$(BIN)/ruff format --check $(CHECKED)
	$(BIN)/mypy $(CHECKED)

imports: setup
	$(BIN)/lint-imports --cache-dir $(VENV)/import-linter-cache

docs: $(DOCS_STAMP) ## Build the site of the pages into build/docs/site; a broken link is an error.
	@rm -rf build/docs && mkdir -p build/docs
	@PYTHONPATH=src $(DOCS_VENV)/bin/python -m muster.docs.site build/docs
	@cd build/docs && $(abspath $(DOCS_VENV))/bin/zensical build --strict
	@echo "built build/docs/site; make docs-serve shows it"

docs-serve: docs ## Build the site and serve it on this machine: [PORT=8000].
	@$(DOCS_VENV)/bin/python -m http.server --bind 127.0.0.1 --directory build/docs/site $(or $(PORT),8000)

$(DOCS_STAMP):
	@$(PYTHON) -m venv $(DOCS_VENV)
	$(call install,requirements-docs.lock,what makes the site,$(DOCS_VENV))
	@rm -f $(DOCS_VENV)/setup-*.done
	@touch $@

docs-check: setup
	@if [ -e src/muster/docs.py ] || [ -d src/muster/docs ]; then $(BIN)/python -m muster.docs --check; fi

manifests: setup ## Write what deploy/ holds that is made from types and chart: definitions, configuration, plain manifests.
	@$(BIN)/python -m tests.deploy.manifests

format: setup ## Rewrite the sources in the project's format.
	$(BIN)/ruff check --fix $(CHECKED)
	$(BIN)/ruff format $(CHECKED)

# Not after setup, which fails when the lock is behind.
lock: | $(BIN)/python ## Choose newest versions of every dependency again and write the locks.
	$(BIN)/python -m pip install --quiet uv
	$(COMPILE) pyproject.toml --extra dev --upgrade --output-file requirements.lock
	@$(MAKE) --no-print-directory lock-apart

# What runs, and what builds the package, apart from what develops it, in the versions that were tested: the image gets
# nothing else.
lock-apart: | $(BIN)/python
	$(COMPILE) pyproject.toml --constraint requirements.lock --upgrade --output-file requirements-run.lock
	$(COMPILE) --group build --constraint requirements.lock --upgrade --output-file requirements-build.lock
	$(COMPILE) --group docs --upgrade --output-file requirements-docs.lock

sbom: setup ## Write muster.cdx.json: every package of the image with version, licence and hashes (CycloneDX).
	@$(BIN)/python -m tests.deploy.sbom $(or $(SBOM),muster.cdx.json)

clean: ## Remove what a run leaves behind, .venv excepted.
	rm -rf dist build muster.cdx.json .hypothesis $(VENV)/*-cache conformance/results.json benchmarks/results.json benchmarks/results-kubernetes.json benchmarks/compare.json
	find src tests $(wildcard conformance benchmarks) -name __pycache__ -type d -prune -exec rm -rf {} +
