# Two commands are enough: `make quickstart` trains a real job, `make test` passes the tests.
SHELL := /bin/bash
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

UV_VERSION := 0.13.9
UV := $(shell command -v uv 2>/dev/null || echo .uv/bin/uv)
RUN := .venv/bin/python

help:  ## list the commands
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

.uv/bin/uv:
	python3 -m venv .uv
	.uv/bin/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)

.venv/quickstart.stamp: pyproject.toml uv.lock $(filter .uv/bin/uv,$(UV))
	$(UV) sync --locked --quiet --inexact --extra trainer
	@touch $@

.venv/dev.stamp: pyproject.toml uv.lock $(filter .uv/bin/uv,$(UV))
	$(UV) sync --locked --quiet --all-extras
	@touch $@

quickstart: .venv/quickstart.stamp  ## make the environment and train examples/digits-mwms.yaml with two workers as processes
	@$(RUN) -m disttrain.cli.main run examples/digits-mwms.yaml
	@TF_CPP_MIN_LOG_LEVEL=2 $(RUN) examples/predict.py "$$(ls -dt disttrain-runs/digits-*/model | head -n 1)"

env: .venv/dev.stamp  ## make the environment with everything for development

test: .venv/dev.stamp  ## run every test suite, then print which ran and which did not
	@$(RUN) -m tests.suites

test-fast: .venv/dev.stamp  ## lint, unit, golden and property tests: no TensorFlow, no API server
	@$(RUN) -m tests.suites lint unit properties

lint: .venv/dev.stamp  ## ruff, mypy --strict, import contracts, generated files up to date
	@$(RUN) -m tests.suites lint

format: .venv/dev.stamp  ## rewrite the sources in the project's format
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .

manifests: .venv/dev.stamp  ## regenerate manifests/crd.yaml and manifests/install.yaml from disttrain.api
	$(RUN) -m disttrain.api.render

e2e: .venv/dev.stamp  ## real pods on a two-node cluster of our own in network namespaces (Linux, root); not part of `make test` yet
	$(RUN) -m pytest -q tests/e2e

emulator-up: .venv/dev.stamp  ## start a real API server with fake nodes for experiments
	$(RUN) -m tests.cluster emulator up

emulator-down:  ## stop it
	$(RUN) -m tests.cluster emulator down

clean:  ## remove what was built here (not the caches in your home directory)
	rm -rf .venv .uv dist build test-results .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

.PHONY: help quickstart env test test-fast lint format manifests e2e emulator-up emulator-down clean
