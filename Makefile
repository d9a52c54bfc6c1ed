# What people do with this checkout; `make help` lists it.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export HOMEPORT_HOME ?= $(CURDIR)/var
export PORT ?= 8000

.DEFAULT_GOAL := help

$(VENV)/.made: requirements.txt jobs/client/pyproject.toml deploy/onebox/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Homeport needs Python 3.11 or newer; $$($(PYTHON) --version) is too old. Try: make run PYTHON=python3.11"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "Could not make a virtualenv. On Debian: apt-get install python3-venv"; exit 1; }
	@echo "Installing what Homeport needs into $(VENV) (once) ..."
	@$(BIN)/pip install --quiet --disable-pip-version-check "$$(grep '^uv==' requirements.txt)"
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --compile-bytecode -r requirements.txt
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --offline --no-deps --editable jobs/client --editable deploy/onebox
	@touch $@

$(VENV)/.made-dev: $(VENV)/.made requirements-dev.txt
	@echo "Installing what tests and checks need (once) ..."
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --compile-bytecode -r requirements-dev.txt
	@touch $@

.PHONY: help run test test-all test-cluster test-image test-node check sizes bench format pins

help: ## list these commands
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

run: $(VENV)/.made ## set up, start everything on this machine, print the address and the accounts
	@exec $(BIN)/python -m deploy.run

test: $(VENV)/.made-dev ## the quick tests: everything's rules, three people's days, pages, some pods
	@exec $(BIN)/python -m tests.run test

test-all: $(VENV)/.made-dev ## all tests: with PostgreSQL, Redis, S3, faults, every page and pod
	@exec $(BIN)/python -m tests.run test-all

bench: $(VENV)/.made-dev ## measure against the plainest things that do the same (ROWS="M1 M5" for some)
	@exec $(BIN)/python -m tests.bench $(ROWS)

test-cluster: $(VENV)/.made-dev ## test against upstream Kubernetes: one that Go 1.26 builds, or that CONTRACT_KUBECONFIG names
	@exec $(BIN)/python -m tests.upstream.run

test-image: $(VENV)/.made-dev ## build Homeport's image and run it, as root with buildah
	@exec $(BIN)/python -m pytest -q tests/image

test-node: $(VENV)/.made-dev ## test on two real nodes (kubelet, containerd, enforced policies), as root
	@exec $(BIN)/python -m tests.nodes.run

sizes: $(VENV)/.made ## count lines by folder, with and without comments and the like
	@exec $(BIN)/python -m tests.tools.sizes

check: $(VENV)/.made-dev ## format, lint, types, layers, templates, migrations, safe settings, hidden effects
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy .
	$(BIN)/lint-imports
	$(BIN)/djlint --quiet --lint templates --extension=html
	DJANGO_SETTINGS_MODULE=tests.settings $(BIN)/python manage.py makemigrations --check --dry-run
	$(BIN)/python -m tests.tools.documented_settings
	$(BIN)/python -m tests.tools.effects tenants

format: $(VENV)/.made-dev ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

pins: $(VENV)/.made-dev ## write requirements*.txt anew from requirements*.in
	$(BIN)/uv pip compile --quiet --upgrade --python-version 3.11 --no-annotate --no-header --no-emit-index-url --no-emit-find-links requirements.in -o requirements.txt
	$(BIN)/uv pip compile --quiet --upgrade --python-version 3.11 --no-annotate --no-header --no-emit-index-url --no-emit-find-links -c requirements.txt requirements-dev.in -o requirements-dev.txt
