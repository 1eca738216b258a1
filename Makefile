# Everything below needs only Python 3.11 or 3.12 and GNU make.

VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
TYPECHECK := build/typecheck

.DEFAULT_GOAL := help
.PHONY: help env model tuned-model demo examples test soak fuzz lint format docs docs-serve
.PHONY: clean distclean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

env: $(STAMP) ## create .venv with SGLang and everything else (several GB)

# pyenv's shims exist even where they cannot run, and Debian ships venv apart from
# Python: so ask each candidate to do what is needed of it.
$(STAMP): pyproject.toml
	@if ! $(BIN)/python -m pip --version >/dev/null 2>&1; then \
	    for python in $(PYTHON) python3.11 python3.12 python3 python; do \
	        if $$python -c 'import sys, ensurepip, venv; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 12))' 2>/dev/null; then \
	            echo "Creating $(VENV) with $$($$python --version)"; \
	            $$python -m venv $(VENV) && break || exit 1; \
	        fi; \
	    done; \
	fi; \
	$(BIN)/python -m pip --version >/dev/null 2>&1 || { \
	    echo "No usable Python 3.11 or 3.12 found. Install one with its venv module"; \
	    echo "(Debian, Ubuntu: apt install python3 python3-venv) or name it: make env PYTHON=/path/to/python3.11"; \
	    exit 1; \
	}
	@echo "Installing SGLang and its dependencies into $(VENV): about 9 GB on disk"
	$(BIN)/python -m pip install --upgrade 'pip>=24'
	$(BIN)/python -m pip install --editable '.[demo,evaluate,examples,test]'
	@touch $@

model: $(STAMP) ## make the 135M model of the demo and the tests (downloads 93 MB once)
	$(BIN)/python examples/prepare_model.py

tuned-model: model ## the same with the adapter of examples/block_finetune, for the demo
	HF_HUB_OFFLINE=1 $(BIN)/python examples/prepare_model.py --tuned

demo: tuned-model ## serve it and ask questions about documents, with and without reuse
	HF_HUB_OFFLINE=1 $(BIN)/python examples/demo.py $(DEMO_ARGS)

examples: model ## serve it and ask it from every client: OpenAI, Anthropic, LangChain, ...
	HF_HUB_OFFLINE=1 $(BIN)/python examples/ask_all.py

test: lint model ## lint, type check, and run the test suite (GPU tests where there is a GPU)
	HF_HUB_OFFLINE=1 $(BIN)/python -m pytest $(PYTEST_ARGS)

soak: model ## random traffic for ten minutes, every answer checked (SOAK_ARGS='--seconds 60 --seed 1')
	HF_HUB_OFFLINE=1 $(BIN)/python -m tests.soak $(SOAK_ARGS)

FUZZ_EXAMPLES ?= 2000

fuzz: model ## thousands of odd requests, others each time (FUZZ_EXAMPLES=2000 of each kind)
	HF_HUB_OFFLINE=1 FUZZ_EXAMPLES=$(FUZZ_EXAMPLES) $(BIN)/python -m pytest tests/soak/test_fuzz.py $(PYTEST_ARGS)

# mypy does not see through an editable install that maps kernels/ops and patches/
# into the package, so lay the package out as it is installed.
lint: $(STAMP) ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@rm -rf $(TYPECHECK) && mkdir -p $(TYPECHECK)/sglang_lazy
	@ln -s $(filter-out %/__pycache__,$(wildcard $(CURDIR)/sglang_lazy/*)) $(TYPECHECK)/sglang_lazy
	@ln -s $(CURDIR)/kernels/ops $(TYPECHECK)/sglang_lazy/kernels
	@ln -s $(CURDIR)/patches $(TYPECHECK)/sglang_lazy/patches
	MYPYPATH=$(TYPECHECK) $(BIN)/mypy -p sglang_lazy
	MYPYPATH=$(TYPECHECK):examples:examples/block_finetune $(BIN)/mypy examples/*.py
	MYPYPATH=$(TYPECHECK):examples/block_finetune $(BIN)/mypy examples/block_finetune/*.py

format: $(STAMP) ## sort imports and format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

DOCS_STAMP := $(VENV)/.installed-docs

$(DOCS_STAMP): $(STAMP)
	$(BIN)/python -m pip install --editable '.[docs]'
	@touch $@

docs: $(DOCS_STAMP) ## build the documentation into build/site, warnings are errors
	$(BIN)/python -m mkdocs build --strict

docs-serve: $(DOCS_STAMP) ## show the documentation at http://127.0.0.1:8000 while it is edited
	$(BIN)/python -m mkdocs serve

clean: ## remove build outputs and caches
	rm -rf build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

distclean: clean ## remove .venv too
	rm -rf $(VENV)
