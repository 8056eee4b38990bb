# `make help` lists the targets. Each sets up what it needs: .venv, then the core.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN := $(BIN)/python
CONSTRAINTS := constraints.txt

# `pip --no-build-isolation` needs these before it can look at the project itself.
BUILD_REQUIRES := pip setuptools pybind11 pyarrow
CCACHE := $(if $(findstring ccache,$(CXX)),,$(shell command -v ccache))
COMPILERS := CC="$(CCACHE) $(CC)" CXX="$(CCACHE) $(CXX)"
TEST_CPP := $(MAKE) --no-print-directory -f tests/cpp/Makefile PYTHON=$(RUN)
# Releases of pyarrow that a wheel has a core for; 25 is the last with wheels for Python 3.10.
PYARROWS := 24 25 $(shell $(or $(wildcard $(RUN)),$(PYTHON)) -c 'import sys; print("26" if sys.version_info >= (3, 11) else "")')
OTHER := build/pyarrow-$(PYARROW)
TESTS ?= tests/unit tests/conformance
# Folders whose tests start few processes and servers; tests/README.md says what the others hold.
QUICK := tests/unit tests/conformance tests/properties
# A process more than cores, up to 4: tests of workers and stores wait much.
PYTEST = $(RUN) -m pytest --numprocesses $(shell $(RUN) -c "import os; print(min(4, 1 + os.cpu_count()))") --dist worksteal
CXX_FILES := $(sort $(shell find csrc tests/cpp tests/fuzz benchmarks -name '*.cc' -o -name '*.h'))

# pip compiles no module, for most are never imported: each is compiled at its first import, and kept.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help venv build test test-all test-python test-unit test-properties test-semantics test-life test-circumstances faults faults-store faults-disk faults-memory faults-alloc faults-kills soak fuzz test-cpp test-pyarrow wheel test-wheel test-pyarrows test-lowest lint lint-docs typecheck lint-python lint-cpp format docs bench bench-core bench-compare instructions peers sanitize asan asan-life asan-core asan-cpp tsan portable clean

help:
	@awk -F ':.*## ' '/^##@ / { print (heads++ ? "\n" : "") substr($$0, 5) } \
	    /^[a-z-]+:.*## / { printf "  %-16s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)

##@ Every day

build: venv ## compile the core in place (quick when nothing changed)
	@$(COMPILERS) $(RUN) setup.py --quiet build_ext --inplace

test: build ## the quick Python tests; `make test-all` runs all
	$(PYTEST) -m 'not slow' $(QUICK)

test-unit: build ## the Python tests of one stage at a time: TESTS=tests/unit/plan
	$(RUN) -m pytest $(if $(filter command line,$(origin TESTS)),$(TESTS),tests/unit)

lint: lint-python lint-cpp lint-docs ## style, types, spelling and prose; -j2 for two at a time

lint-python: typecheck
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

PROSE := README.md docs $(shell find src/fastload -name '*.py')

lint-docs: venv ## spelling and prose of pages and docstrings
	$(BIN)/codespell README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md docs src examples
	$(RUN) tests/documentation/prose.py $(PROSE)

lint-cpp: venv
	$(RUN) csrc/check_includes.py
	$(BIN)/clang-format --dry-run -Werror $(CXX_FILES)
	+@$(TEST_CPP) tidy CLANG_TIDY=$(BIN)/clang-tidy

format: venv ## rewrite the sources in the project's style
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CXX_FILES)

docs: venv ## the documentation, to build/site; a broken link or docstring is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: build ## measure fastload and its peers on a sample
	$(BIN)/fastload-bench

clean: ## remove what was built, but for .venv
	rm -rf build dist *.egg-info src/*.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	rm -f src/fastload/runtime/_build_info.py src/fastload/runtime/_core*.so

venv: $(VENV)/.installed ## make .venv with everything at the pinned versions

# Enough to compile and run C++, while pip still installs the rest.
$(VENV)/.compiles: pyproject.toml $(CONSTRAINTS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Expected Python 3.10 or newer, got %s: name another, such as PYTHON=python3.12" % sys.version.split()[0])'
	@test -x $(RUN) || $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	    echo 'Expected the venv module (on Debian and Ubuntu: apt-get install python3-venv)' >&2; exit 1; }
	$(RUN) -m pip install --quiet --no-compile -c $(CONSTRAINTS) $(BUILD_REQUIRES)
	@touch $@

$(VENV)/.installed: $(VENV)/.compiles
	FASTLOAD_PURE=1 $(RUN) -m pip install --quiet --no-compile -c $(CONSTRAINTS) --no-build-isolation -e '.[docs,lint,test]'
	@touch $@

##@ Thorough checks

test-all: build ## every test: C++, then Python
	@if $(TEST_CPP) has-gtest >/dev/null 2>&1; then $(TEST_CPP) check; \
	elif [ "$$CI" = true ]; then $(TEST_CPP) has-gtest; \
	else echo 'C++ tests are left out: GoogleTest is not installed (apt-get install libgtest-dev)'; fi
	@$(MAKE) --no-print-directory test-python

test-python: build ## every test in Python
	$(PYTEST)

test-cpp: $(VENV)/.compiles ## tests of the C++ core, without Python: FILTER='*Reader*' UNITY=true
	@$(TEST_CPP) check

typecheck: build ## mypy on the sources and benchmarks, pyright on what users write, stubtest on the core
	$(BIN)/mypy
	$(BIN)/mypy --python-version 3.10 --no-warn-return-any
	$(BIN)/mypy tests/typing
	MYPYPATH=benchmarks:benchmarks/peers $(BIN)/mypy --allow-untyped-calls --allow-subclassing-any \
	    --allow-untyped-decorators benchmarks
	$(BIN)/pyright --pythonpath $(RUN)
	$(BIN)/stubtest fastload.runtime._core --mypy-config-file pyproject.toml --allowlist tests/typing/stubtest_allowlist.txt

# Each example writes files and reads them twice.
test-properties: build ## files to batches, by hypothesis: EXAMPLES=20000
	EXAMPLES=$(or $(EXAMPLES),20000) $(RUN) -m pytest --timeout=0 \
	    $(addprefix tests/properties/test_,dataset_rows.py files_that_differ.py filters_without_statistics.py \
	        mix_plan.py mix_rows.py plan.py repeated_rows.py row_conditions.py table_histories.py taken_rows.py)

test-semantics: build ## epochs, ranks and resumes end to end, at random: EXAMPLES=5000
	FASTLOAD_EXAMPLES=$(or $(EXAMPLES),5000) $(RUN) -m pytest \
	    $(addprefix tests/properties/test_,semantics.py packed_rows.py canonical_steps.py skipped_steps.py step_rows.py mix_units.py mix_canonical.py)

# In CI, `make test-all` runs the first 80 of them.
test-life: build ## whole programs at random against an oracle: PROGRAMS=5000 SEED=1
	$(RUN) tests/life/programs.py --programs $(or $(PROGRAMS),200) --seed $(or $(SEED),1)

# In CI, `make test-all` runs some cells of the table.
test-circumstances: build ## rows whatever the circumstances of a program: ARGS='--ways loop,mix'
	$(RUN) tests/life/circumstances.py $(ARGS)

faults: faults-store faults-disk faults-memory faults-alloc faults-kills ## all tables of faults

faults-store: build ## how a pass ends when the network fails it, in full: ARGS='--modes fork'
	PYTHONPATH=tests $(RUN) tests/faults/store_faults.py $(ARGS)

faults-disk: build ## how a pass ends when the disk fails it: ARGS='--modes fork'
	PYTHONPATH=tests $(RUN) tests/faults/disk_faults.py $(ARGS)

faults-memory: build ## how a pass ends when it may take no more memory: ARGS='--modes fork'
	PYTHONPATH=tests $(RUN) tests/faults/memory_faults.py $(ARGS)

faults-alloc: ## whether a pass ends whichever allocation fails, with each of them
	FASTLOAD_EVERY_ALLOCATION=1 $(MAKE) test-cpp FILTER='PassFaultsTest.*-*DealtToBuckets'

faults-kills: build ## training runs that are killed and go on: KILLS=300
	PYTHONPATH=tests $(RUN) tests/faults/kill_and_resume.py --kills $(or $(KILLS),300)

soak: build ## whether anything grows over many epochs: ARGS='--seconds 600'
	PYTHONPATH=tests $(RUN) tests/faults/soak.py $(ARGS)

# Asks for clang with libFuzzer. The seconds are those of all fuzzers together, which run side
# by side.
fuzz: venv ## hostile bytes, as long as said: SECONDS=300
	@$(MAKE) --no-print-directory -f tests/fuzz/Makefile PYTHON=$(RUN) SECONDS=$(or $(SECONDS),300) \
	    $(if $(TARGETS),TARGETS='$(TARGETS)')

# The sanitized core has to be found before the one in src/. Arrow's own allocators would
# hide overruns. Leaks are looked for in the C++ tests alone: Python and torch keep memory
# until exit. `ps`, with libasan in it, hangs.
ASAN = PATH=$(CURDIR)/build/asan/bin:$$PATH PYTHONPATH=$(CURDIR)/build/asan \
    ARROW_DEFAULT_MEMORY_POOL=system PYTHONMALLOC=malloc \
    ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
    LD_PRELOAD="$(foreach l,libasan.so libubsan.so libstdc++.so.6,$(shell $(CXX) -print-file-name=$(l)))"

asan: asan-core asan-cpp ## ASan and UBSan over the C++ tests and tests/unit
	$(ASAN) $(RUN) -m pytest tests/unit

asan-life: asan-core ## ASan and UBSan over whole programs at random: PROGRAMS=500 SEED=1
	$(ASAN) $(RUN) tests/life/programs.py --programs $(or $(PROGRAMS),500) --seed $(or $(SEED),1)

asan-core: build
	FASTLOAD_SANITIZE=address,undefined $(COMPILERS) \
	    $(RUN) setup.py --quiet build --build-lib build/asan
	@mkdir -p build/asan/bin
	@! ps=$$(command -v ps) || { \
	    printf '#!/bin/sh\nunset LD_PRELOAD\nexec %s "$$@"\n' "$$ps" > build/asan/bin/ps; \
	    chmod +x build/asan/bin/ps; }

asan-cpp: $(VENV)/.compiles ## ASan, UBSan and LeakSanitizer over the C++ tests: FILTER='*Reader*'
	@$(TEST_CPP) check SANITIZE=address,undefined $(if $(FILTER),FILTER='$(FILTER)')

tsan: $(VENV)/.compiles ## TSan over the C++ tests: FILTER='Pipeline*'
	@$(TEST_CPP) check SANITIZE=thread $(if $(FILTER),FILTER='$(FILTER)')

sanitize: asan tsan ## ASan, UBSan and LeakSanitizer, then TSan

portable: build ## C++ and Python tests without the calls that only Linux has, as on macOS
	@$(TEST_CPP) check PORTABLE=1
	FASTLOAD_PORTABLE=1 $(COMPILERS) $(RUN) setup.py --quiet build --build-lib build/portable
	FASTLOAD_PORTABLE=1 PYTHONPATH=$(CURDIR)/build/portable $(RUN) -m pytest $(TESTS)

##@ Speed

bench-core: build ## measure the core against the limit of the machine: ARGS=--quick
	$(RUN) benchmarks/bench_core.py $(ARGS)

bench-compare: build ## the same, beside the results that were kept
	$(RUN) benchmarks/bench_core.py --compare $(ARGS)

instructions: build ## instructions of the core's kernels, beside those kept: ARGS=--store
	@$(MAKE) --no-print-directory -f benchmarks/instructions/Makefile PYTHON=$(RUN) ARGS='$(ARGS)'

peers: venv ## install the loaders that fastload-bench compares with
	FASTLOAD_PURE=1 $(RUN) -m pip install --quiet --no-compile -c $(CONSTRAINTS) --no-build-isolation -e '.[bench]'

##@ Releases

# The core of another pyarrow goes to a directory of its own, which has to be found before src/.
test-pyarrow: $(OTHER)/constraints.txt ## Python tests with another pyarrow: PYARROW=25
	@$(MAKE) --no-print-directory venv VENV=$(OTHER)/venv CONSTRAINTS=$<
	$(COMPILERS) $(OTHER)/venv/bin/python setup.py --quiet build --build-lib $(OTHER)/lib
	PYTHONPATH=$(CURDIR)/$(OTHER)/lib $(OTHER)/venv/bin/python -m pytest $(TESTS)

$(OTHER)/constraints.txt: constraints.txt
	@test -n '$(PYARROW)' || { echo 'Expected a release of pyarrow, got none: name it, such as PYARROW=25' >&2; exit 1; }
	@mkdir -p $(@D)
	@{ grep -v '^pyarrow==' $<; echo 'pyarrow==$(PYARROW).*'; } > $@

wheel: $(VENV)/.compiles ## dist/: a wheel for this Python with a core for each pyarrow: PYARROWS='25 26'
	@rm -f dist/fastload-*.whl
	FASTLOAD_PYARROWS='$(PYARROWS)' $(COMPILERS) \
	    $(RUN) -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .
	@ls -l dist/fastload-*.whl

# A new environment, the wheel in it, another directory, and nothing but that environment on PATH.
WHEEL_TESTS = build/wheel-tests$(if $(PYARROW),-pyarrow-$(PYARROW))

test-wheel: $(if $(PYARROW),$(OTHER)/constraints.txt) ## tests of the wheel in dist/, installed afresh without a compiler: PYARROW=25
	@ls dist/fastload-*.whl >/dev/null 2>&1 || { echo 'Expected a wheel in dist/, found none: run `make wheel`' >&2; exit 1; }
	@rm -rf $(WHEEL_TESTS)
	$(PYTHON) -m venv $(WHEEL_TESTS)/venv
	$(WHEEL_TESTS)/venv/bin/python -m pip install --quiet \
	    -c $(if $(PYARROW),$(OTHER)/constraints.txt,$(CONSTRAINTS)) "$$(ls dist/fastload-*.whl)[test]"
	cd $(WHEEL_TESTS) && env -u PYTHONPATH PATH=$(CURDIR)/$(WHEEL_TESTS)/venv/bin \
	    venv/bin/python -m pytest --ignore=$(CURDIR)/tests/unit/runtime/test_build.py $(addprefix $(CURDIR)/,$(TESTS))

test-pyarrows: wheel ## test-wheel with each pyarrow that the wheel has a core for, and a table
	@printf '%-10s%s\n' pyarrow passed > build/pyarrows.txt; failed=; \
	for release in $(PYARROWS); do \
	    passed=yes; \
	    $(MAKE) --no-print-directory test-wheel PYARROW=$$release || { passed=no; failed=1; }; \
	    version=$$(build/wheel-tests-pyarrow-$$release/venv/bin/python -c 'import pyarrow; print(pyarrow.__version__)'); \
	    printf '%-10s%s\n' "$${version:-$$release}" $$passed >> build/pyarrows.txt; \
	done; \
	cat build/pyarrows.txt; test -z "$$failed"

# The lowest versions that pyproject.toml admits, on the oldest Python, with a core of their own.
LOWEST := build/lowest
LOWEST_PYTHON ?= python3.10

test-lowest: ## core tests with the lowest version of everything: LOWEST_PYTHON=python3.10
	@test -x $(LOWEST)/venv/bin/python || $(LOWEST_PYTHON) -m venv $(LOWEST)/venv
	$(LOWEST)/venv/bin/python -m pip install --quiet -c tests/lowest.txt -r tests/lowest.txt
	$(COMPILERS) $(LOWEST)/venv/bin/python -m pip install --quiet --no-deps --no-build-isolation .
	$(LOWEST)/venv/bin/python -m pip check
	$(LOWEST)/venv/bin/python -m pytest $(TESTS)
