# One virtual environment, made from the hash-checked lock file; every target brings it along.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
IMAGE  ?= hami-operator
VERSION = $(shell $(BIN)/hami-operator --version | cut -d' ' -f2)
CORE   := hami_operator/protocol/*,hami_operator/devices/*,hami_operator/scheduling/*,hami_operator/admission/*

.DEFAULT_GOAL := help
.PHONY: help demo test test-unit differential lint bench run image manifests lock clean

help: ## List the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(VENV)/ready: requirements-dev.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .
	@touch $@

demo: $(VENV)/ready ## The main job on a simulated fleet; needs no cluster
	$(BIN)/hami-operator demo

test: $(VENV)/ready ## All tests, on the in-memory and on a real API server (built on first use)
	$(BIN)/coverage run -m pytest --junitxml=build/tests.xml
	$(BIN)/python .ci/ran.py build/tests.xml
	$(BIN)/coverage json --quiet --include='$(CORE)' -o build/coverage.json
	$(BIN)/python .ci/branches.py build/coverage.json

test-unit: $(VENV)/ready ## The tests that need no real API server
	$(BIN)/pytest -m 'not e2e'

differential: $(VENV)/ready ## 2,000 random scenarios, judged by us and by kube-scheduler's own code
	$(BIN)/python -m tests.differential --count 2000 --seed 1

lint: $(VENV)/ready ## Style, types, import contracts, YAML, shape of the code
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/yamllint --strict -c .ci/yamllint.yaml manifests
	$(BIN)/python .ci/shape.py hami_operator

bench: $(VENV)/ready ## Pods per second on a real API server, beside kube-scheduler
	$(BIN)/python -m benchmarks

run: $(VENV)/ready ## The operator against the cluster of the current kubeconfig
	$(BIN)/hami-operator run --log-format console --kubeconfig $${KUBECONFIG:-$$HOME/.kube/config}

image: $(VENV)/ready ## Build the container image
	docker build --tag $(IMAGE):$(VERSION) .

manifests: $(VENV)/ready ## Make all that is generated: manifests, device reference, schema
	$(BIN)/hami-operator vendors list -o markdown > docs/devices.md
	$(BIN)/hami-operator vendors schema > docs/configuration.schema.json
	$(BIN)/hami-operator vendors manifest fail > manifests/webhook/fail/configuration.yaml
	$(BIN)/hami-operator vendors manifest policy > manifests/policy/policy.yaml
	$(BIN)/python .ci/render.py manifests manifests/install.yaml

lock: $(VENV)/ready ## Pin the newest allowed versions, at least a week old
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile -q --upgrade --universal --generate-hashes --no-annotate --no-header --exclude-newer "$$(date -u -d '7 days ago' +%F)" pyproject.toml -o requirements.lock
	$(BIN)/uv pip compile -q --upgrade --universal --generate-hashes --no-annotate --no-header --exclude-newer "$$(date -u -d '7 days ago' +%F)" --extra dev pyproject.toml -o requirements-dev.lock

clean: ## Remove everything that the other targets made
	rm -rf $(VENV) build dist .coverage .coverage.* .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
