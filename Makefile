# What a developer does here, one target each. `make help` lists them.
PYTHON  ?= python3
VENV    ?= .venv
BIN     := $(VENV)/bin
CORPUS  ?= ../shared/corpus
TARGET  ?= sm_90
BASE    ?= HEAD
ROUNDS  ?= 5
TIME    ?= 120
JOBS    ?= 2
EVERY   ?= 1
TARGETS ?= sm_100,sm_103,sm_110,sm_120,sm_121
PAGE    ?=
CLIENT  ?= $(PYTHON)
PYTHONS ?= python3.11 python3.12 python3.13
AS       =
BENCH_GPU ?= build/bench-gpu
RUN     := $(if $(wildcard $(BIN)/python),$(BIN)/python,$(PYTHON))

.PHONY: help install example test test-gpu test-blackwell sanitizer determinism corpus replay stages text units machine pythons fuzz fuzz-rounds bench bench-compile bench-resident bench-gpu bench-gpu-prepare lint format bless docs clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -e 's/:.*## /\t/' | expand -t 16

$(BIN)/tileiras: pyproject.toml tileiras/native_launcher/launcher.c
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e '.[dev,gpu]'
	$(BIN)/python -m compileall -q -j $(JOBS) tileiras tileiras_command.py
	-$(BIN)/python -m tileiras.native_launcher  # where it fails the script stays
	@touch $@

install: $(BIN)/tileiras  ## make the virtual environment .venv with everything in it

example: $(BIN)/tileiras  ## compile the shipped examples for TARGET and say what came out
	$(BIN)/tileiras examples/vector_add.mlir --gpu-name $(TARGET) -o vector_add.cubin -v
	$(BIN)/tileiras examples/matmul.mlir --gpu-name $(TARGET) -o matmul.cubin -v
	@ls -l vector_add.cubin matmul.cubin

test: $(BIN)/tileiras  ## everything that needs no GPU
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m 'not gpu' -q --durations=25

test-gpu:  ## the kernels on this machine's GPU
	$(RUN) -m pytest -m gpu -q

test-blackwell:  ## the same on a Blackwell GPU; skipped, with the reason, where there is none
	$(RUN) -m pytest --only-on=blackwell -q tests/gpu tests/tile_cpp

corpus:  ## compile every file of CORPUS for TARGET; one table, corpus-summary.json
	$(RUN) benchmarks/corpus_sweep.py $(CORPUS) --gpu-name $(TARGET) --jobs $(JOBS)

replay:  ## whether the working tree makes the PTX that BASE made, on all kernels or every EVERY-th
	$(RUN) benchmarks/replay.py $(CORPUS) $(wildcard $(BENCH_GPU)) --base $(BASE) --every $(EVERY) --jobs $(JOBS)

stages:  ## run every kernel of CORPUS at every stage of the compiler and compare memory
	$(RUN) tests/sweeps/stages_sweep.py $(CORPUS) --gpu-name $(TARGET) --threads

text:  ## read the text of every kernel of CORPUS, or every EVERY-th, behind every pass, and damage it
	$(RUN) tests/sweeps/text_sweep.py $(CORPUS) --gpu-name $(TARGET) --every $(EVERY)

units:  ## which unit computes the products of every file of CORPUS for TARGET, and why no other
	$(RUN) tests/sweeps/product_units.py $(CORPUS) --gpu-name $(TARGET)

machine:  ## kernels with products for TARGETS in the PTX machine, against float64; PAGE=FILE keeps the table
	$(RUN) tests/sweeps/machine_table.py --targets $(TARGETS) --jobs $(JOBS) $(if $(PAGE),--page $(PAGE))

sanitizer:  ## a sample of kernels under compute-sanitizer's memcheck and racecheck (GPU)
	$(RUN) benchmarks/sanitizer_sweep.py

determinism:  ## compile every file of CORPUS twice and compare the bytes
	$(RUN) tests/sweeps/determinism_sweep.py $(CORPUS) --gpu-name $(TARGET)

pythons:  ## the wheel in fresh environments of PYTHONS, as this user and as the users AS
	$(RUN) tests/sweeps/pythons_sweep.py $(PYTHONS) $(foreach user,$(AS),--user $(user))

fuzz:  ## random inputs for TIME seconds: files, text of every stage, whole compiles
	$(RUN) -m tests.fuzzing --seconds $(TIME) --jobs $(JOBS)
	$(RUN) -m tests.fuzzing.coverage_guided reader --seconds $$(( $(TIME) / 8 + 1 ))
	$(RUN) -m tests.fuzzing.coverage_guided text --seconds $$(( $(TIME) / 8 + 1 ))

fuzz-rounds:  ## the tests of random inputs, ROUNDS times with other inputs
	@for round in $$(seq $(ROUNDS)); do echo "round $$round of $(ROUNDS)"; \
	env -u CI RANDOM_PROGRAMS=$${round}00:$${round}99 $(RUN) -m pytest -q -n $(JOBS) -m 'not gpu' \
	    -k 'fuzz or hypothesis or random_programs' --fuzz-round=$$round tests || exit 1; done

bench-compile:  ## cold compile times over CORPUS and KERNELS, every EVERY-th, beside VENDOR_TILEIRAS
	$(RUN) benchmarks/bench_compile.py $(wildcard $(CORPUS)) $(KERNELS) --gpu-name $(TARGET) --every $(EVERY)

bench-resident:  ## wall times of the resident compiler, cold ones beside it, and VENDOR_TILEIRAS's
	$(RUN) benchmarks/bench_resident.py --gpu-name $(TARGET)

bench-gpu-prepare:  ## make the cubins of bench-gpu with CLIENT, a Python that has cuda-tile; no GPU
	$(CLIENT) benchmarks/gpu/prepare.py --directory $(BENCH_GPU) --jobs $(JOBS)

bench-gpu:  ## prepared cubins beside NVIDIA's and the libraries, on this machine's GPU
	@test -e $(BENCH_GPU)/manifest.json || $(MAKE) bench-gpu-prepare
	$(RUN) benchmarks/gpu/run.py --directory $(BENCH_GPU) --json $(BENCH_GPU)/results.json

bench: bench-compile  ## all benchmarks that this machine can run

lint: $(BIN)/tileiras  ## formatting, lints, types, import direction
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports --no-cache

format:  ## let ruff rewrite what it can
	$(RUN) -m ruff check --fix .
	$(RUN) -m ruff format .

bless:  ## rewrite the expected outputs of the exact file tests and of docs; read the diff
	$(RUN) -m pytest -q tests/filetests tests/test_looking_inside.py tests/test_pass_pages.py \
	    tests/test_walk.py tests/test_schedules_page.py tests/test_targets_page.py tests/test_message_page.py \
	    tests/test_page_runs.py tests/test_captures.py tests/test_import_graph.py tests/test_site.py --bless

docs: $(BIN)/tileiras  ## the site of docs/ in build/site; needs the extra: .venv/bin/pip install -e '.[docs]'
	@$(BIN)/python -c 'import mkdocs' || { echo "make docs needs $(BIN)/pip install -e '.[docs]'"; exit 1; }
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

clean:  ## remove what the targets above made
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache .hypothesis corpus-summary.json
