# Everything a developer or a CI machine runs. Needs Python 3.11+, git and make; the rest goes into .venv.

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

# Named after the contents of its inputs, so that neither a checkout nor a touch installs anything again.
STAMP := $(VENV)/setup-$(shell cat requirements.lock pyproject.toml | cksum | tr ' ' '-').done

COMPILE := $(BIN)/uv pip compile --universal --python-version 3.11 --quiet --generate-hashes \
	--no-emit-index-url --no-emit-find-links --custom-compile-command "make lock"

# Top-level packages that stand beside src; each is checked as soon as it exists.
CHECKED := src $(wildcard tests conformance benchmarks examples)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup demo test unit kube-tests kube-assets kube-assets-if-possible conformance conformance-if-present bench bench-compare bench-kubernetes soak storm lint imports docs-check manifests format lock lock-apart sbom clean

help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## Make .venv from requirements.lock and install muster into it; nothing to do when nothing changed.

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "muster needs Python 3.11 or newer; name one with make PYTHON=...")'
	@$(PYTHON) -m venv $(VENV)

$(STAMP): | $(BIN)/python
	$(BIN)/python -m pip install --quiet --require-hashes --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m pip check >/dev/null || { $(BIN)/python -m pip check; echo "requirements.lock is behind pyproject.toml: make lock"; exit 1; }
	$(BIN)/python -m muster.kernels
	@rm -f $(VENV)/setup-*.done
	@touch $@

demo: setup ## Show gangs queued, placed and explained on a small embedded cluster.
	@$(BIN)/muster demo

test: unit conformance-if-present ## Run the tests, then the conformance cases when ../shared has them.

unit: setup ## Run the tests alone (PYTEST_ARGS="-k gang -n 0" narrows them).
	$(BIN)/pytest -n auto --dist worksteal --ignore=tests/kubernetes $(PYTEST_ARGS)
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

storm: setup kube-assets ## Run the scheduler through random misfortune on a real API server: [STRIKES=200] [SEEDS=1,2,3].
	MUSTER_STRIKES=$(or $(STRIKES),200) MUSTER_SEEDS=$(or $(SEEDS),1) $(BIN)/pytest -n 0 tests/kubernetes/test_chaos.py $(PYTEST_ARGS)

lint: setup imports docs-check ## Check style, types, the direction of imports, and that reference pages are current.
	$(BIN)/ruff check $(CHECKED)
	$(BIN)/ruff format --check $(CHECKED)
	$(BIN)/mypy $(CHECKED)

imports: setup
	$(BIN)/lint-imports --cache-dir $(VENV)/import-linter-cache

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

sbom: setup ## Write muster.cdx.json: every package of the image with version, licence and hashes (CycloneDX).
	@$(BIN)/python -m tests.deploy.sbom $(or $(SBOM),muster.cdx.json)

clean: ## Remove what a run leaves behind, .venv excepted.
	rm -rf dist build muster.cdx.json .hypothesis $(VENV)/*-cache conformance/results.json benchmarks/results.json benchmarks/results-kubernetes.json benchmarks/compare.json
	find src tests $(wildcard conformance benchmarks) -name __pycache__ -type d -prune -exec rm -rf {} +
