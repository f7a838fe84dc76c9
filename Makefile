# `make help` lists the targets. Variables are given on the command line: make setup PYTHON=python3.12
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV ?= .venv
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
# A test that waits for a process leaves its core to another.
TEST_JOBS ?= $(shell echo $$(($(JOBS) + 1)))
export JOBS
# With it each command of a test would compile kerncap's modules again, and pytest every test.
unexport PYTHONDONTWRITEBYTECODE

# Where torch comes from when PYTHON has none. Empty: pip's own default. On a machine with no GPU,
# PyTorch's CPU index saves some gigabytes.
TORCH_INDEX ?=
TORCH_VERSION ?= 2.13.0
TRITON_VERSION ?= 3.9.0
LIGER_VERSION ?= 0.8.5
export PYTHON VENV TORCH_INDEX TORCH_VERSION TRITON_VERSION LIGER_VERSION

# For machines with no network: see docs/offline.md.
WHEELHOUSE ?=
WHEELHOUSE_PYTHON ?= 3.12
WHEELHOUSE_PLATFORM ?= manylinux_2_28_x86_64
export WHEELHOUSE WHEELHOUSE_PYTHON WHEELHOUSE_PLATFORM LIGER_VERSION

FUZZ_SECONDS ?= 300
HUNT_LAUNCHES ?= 10000
HUNT_MUTANTS ?= 2000
PYTEST_ARGS ?=

STAMP := $(VENV)/.kerncap-ready
BIN := $(VENV)/bin

.PHONY: help
help: ## this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' \
	    | while IFS=$$'\t' read -r name text; do printf '  make %-11s %s\n' "$$name" "$$text"; done

# --- setting up ------------------------------------------------------------------------------------

.PHONY: setup
setup: $(STAMP) ## .venv with everything that this machine can use (PYTHON, TORCH_INDEX)
	@echo "$(VENV): ready, $$($(BIN)/python --version) (another one: make clean setup PYTHON=...)"

$(STAMP): pyproject.toml tools/setup.sh tools/make_venv.sh
	@bash tools/setup.sh
	@touch $@

.PHONY: shims
shims: $(STAMP) ## rebuild the native shims after an edit; `kerncap` of this checkout uses them
	@PATH="$(abspath $(BIN)):$$PATH" bash tools/shims.sh "$(abspath $(BIN))/python"

.PHONY: amd-gpu
amd-gpu: $(STAMP) ## ROCm 6 and an emulated AMD GPU in build/amd-gpu (some 300 MB), for the tests of HIP (ROCM=7: also ROCm 7)
	@PATH="$(abspath $(BIN)):$$PATH" bash tools/amd_gpu.sh

.PHONY: viewer
viewer: $(STAMP) ## the page of `kerncap view`: one file, kerncap/viewer/page.html, for any web server or disk
	@PATH="$(abspath $(BIN)):$$PATH" bash tools/viewer.sh

.PHONY: demo
demo: $(STAMP) ## capture a launch from a sample, replay it, verify it, prove its memory accesses
	@PATH="$(abspath $(BIN)):$$PATH" bash tools/demo.sh

# --- checks ----------------------------------------------------------------------------------------

PYTEST = PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m pytest -n $(TEST_JOBS) --dist loadfile

.PHONY: test
test: $(STAMP) ## the fast suite: each feature end to end, no GPU (TEST_JOBS, PYTEST_ARGS)
	@$(PYTEST) --no-loadscope-reorder -m "not gpu and not sanitized and not long" $(PYTEST_ARGS)

.PHONY: test-all
test-all: $(STAMP) ## everything that needs no GPU, with a seeded slice of each campaign
	@$(PYTEST) --no-loadscope-reorder -m "not gpu and not sanitized" $(PYTEST_ARGS)

.PHONY: test-sanitized
test-sanitized: $(STAMP) ## the native tests and whole captures again under ThreadSanitizer and AddressSanitizer
	@$(PYTEST) -m sanitized $(PYTEST_ARGS) tests/native tests/integration/cuda

.PHONY: test-viewer
test-viewer: viewer ## the viewer: its reader by golden and hostile files, its page in Chromium and Firefox
	@$(PYTEST) --dist load $(PYTEST_ARGS) tests/viewer

.PHONY: fuzz
fuzz: $(STAMP) ## the campaigns whole: properties with many examples, fuzz targets (FUZZ_SECONDS)
	@bash tools/fuzz.sh "$(BIN)/python" "$(FUZZ_SECONDS)"

.PHONY: hunt
hunt: $(STAMP) ## generated launches, mutants and proofs, each with a judge; the first two continue where they ended
	@$(BIN)/python -W ignore -m tests.fuzz.sanitizer.campaign --launches $(HUNT_LAUNCHES)
	@$(BIN)/python -W ignore -m tests.fuzz.mutants.campaign --mutants $(HUNT_MUTANTS)
	@$(BIN)/python -W ignore -m tests.fuzz.equality.campaign
	@$(BIN)/python -W ignore -m tests.fuzz.equality.ptx_campaign

.PHONY: test-gpu
test-gpu: ## the tests marked gpu, with PYTHON's own torch; WHEELHOUSE=wheelhouse needs no network
	@bash tools/test_gpu.sh $(PYTEST_ARGS)

.PHONY: lint
lint: $(STAMP) ## ruff, mypy, import-linter, clang-format, shellcheck, words
	@bash tools/lint.sh "$(abspath $(BIN))"

.PHONY: format
format: $(STAMP) ## reformat as `make lint` asks
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format .
	@git ls-files --cached --others --exclude-standard '*.h' '*.hpp' '*.c' '*.cc' '*.cpp' \
	    | xargs --no-run-if-empty $(BIN)/clang-format -i

.PHONY: docs
docs: $(STAMP) ## the documentation site in build/docs, with every warning an error
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

.PHONY: man
man: $(STAMP) ## manual pages in build/man/man1, for packages; `man -M build/man kerncap`
	@$(BIN)/python tools/man_pages.py build/man/man1

.PHONY: bench
bench: $(STAMP) ## every benchmarks/*.py but the zoo: a ratio against a named baseline of the same run
	@for file in $(filter-out benchmarks/zoo.py benchmarks/proofs.py,$(wildcard benchmarks/[a-z]*.py)); do echo "== $$file"; $(BIN)/python "$$file"; done

# --- what leaves the tree --------------------------------------------------------------------------

.PHONY: wheel
wheel: $(STAMP) ## dist/kerncap-*.whl: one with the native shims (MACHINE=aarch64: for that), one without
	@bash tools/wheels.sh "$(BIN)/python" dist && ls -l dist/kerncap-*.whl

.PHONY: wheelhouse
wheelhouse: $(STAMP) ## wheels for a machine with no network (WHEELHOUSE_PYTHON, WHEELHOUSE_PLATFORM)
	@bash tools/wheelhouse.sh "$(BIN)/python" "$(or $(WHEELHOUSE),wheelhouse)"

.PHONY: clean
clean: ## remove everything that was built, .venv too
	rm -rf $(VENV) build dist wheelhouse kerncap-out .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	rm -rf $(addprefix kerncap/viewer/,page.html node_modules src/format/generated)
