# make demo   see elastic training survive a reclaimed machine and a scale-out, on this machine alone
# make test   every check and test; CI runs exactly this
# Variables:  PYTHON=python3.12   the Python (3.11 or newer) that .venv is made from
#             TORCH_INDEX=URL     take torch from another index, e.g. https://download.pytorch.org/whl/cpu for a CPU build
PYTHON ?= python3
TORCH_INDEX ?=
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: setup demo test lint unit bench golden clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "error: $(PYTHON) is older than Python 3.11"; echo "try:   make PYTHON=python3.12"; exit 2; }
	@echo "Setting up $(VENV): a few minutes and about 6 GB, most of it torch. Later calls skip this."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt setuptools
	$(BIN)/python -m pip install --quiet --constraint constraints.txt $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) torch torchvision
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --no-build-isolation --editable '.[agent,local,imagenet,dev]'
	@touch $@

demo: $(READY)
	@$(BIN)/python -m examples.imagenet.demo

test: lint unit

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	MYPYPATH=examples/imagenet $(BIN)/mypy -m train -m prepare_digits
	$(BIN)/lint-imports
	$(BIN)/shellcheck templates/boot/*.sh .ci/run $$(grep -lE '^#!/bin/(ba)?sh' elastic_aws/local_cloud/stand_ins/*)

unit: $(READY)
	$(BIN)/python -m pytest tests

bench: $(READY)
	$(BIN)/python -m benchmarks.road

golden: $(READY)
	UPDATE_GOLDEN=1 $(BIN)/python -m pytest -q tests/templates

clean:
	rm -rf $(VENV) .demo build dist *.egg-info
