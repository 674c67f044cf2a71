# What README.md and CONTRIBUTING.md tell people to run. Each target makes .venv when it is missing.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
PROOF := $(VENV)/.proof
# The tests start hundreds of processes; without bytecode each of them compiles the whole package.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo demo-controller demo-gitops plane plane-wheel release test stories test-fast flakes proof contexts \
	killers mutants node image sweep sweep-versions lint bench bench-quick bench-docs docs clean

$(INSTALLED): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "applyprune needs Python 3.11 or newer: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

$(PROOF): $(INSTALLED)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,proof]'
	touch $@

demo: $(INSTALLED)
	$(BIN)/applyprune demo

demo-controller: $(INSTALLED)
	$(BIN)/applyprune demo bundles

# With the Git server of the tests, so not from the package. It needs git.
demo-gitops: $(INSTALLED)
	$(BIN)/python -m tests.demos.gitops

# Beside the default one, for example `make plane KUBERNETES=1.35.4`: those of tests/versions/modules.
plane: $(INSTALLED)
	$(BIN)/python -m tests.versions.build $(KUBERNETES)

# Into dist/plane. It needs Go.
plane-wheel: $(INSTALLED)
	$(BIN)/python -m tests.packaging.plane_wheel

# Into dist/release, for this platform. FROM: where the files will be, for krew. It needs Go and git.
release: $(INSTALLED)
	rm -rf dist/release
	$(BIN)/python -m tests.packaging.release dist/release $(if $(FROM),--from $(FROM))

# Four files at a time, each process with a control plane of its own. Long files come first, so that
# no process is left alone with one at the end: ARGS=--record-durations writes how long they take.
FOUR_FILES := -n 4 --dist loadfile --no-loadscope-reorder

# What a change can break. tests/support/targets.py says what the other targets run.
test: $(INSTALLED)
	$(BIN)/python -m pytest -m "not sweep and not story and not lint and not node" $(FOUR_FILES) $(ARGS)

# Replicas, failover, attacks, bad sources, kills, races, screens, installs, other clusters.
stories: $(INSTALLED)
	$(BIN)/python -m pytest -m "story and not sweep" $(FOUR_FILES) $(ARGS)

# On two real nodes, as root on Linux; it says which packages of Debian are missing. ARGS go to pytest.
node: $(INSTALLED)
	$(BIN)/python -m tests.node $(ARGS)

# Into dist/image: the archive, and what is in it. It needs what `make node` needs.
image: $(INSTALLED)
	$(BIN)/python -m tests.node.image dist/image
	$(BIN)/python -m tests.docs.generate

# TESTS: files; by default those that differ from main.
flakes: $(INSTALLED)
	$(BIN)/python -m tests.flakes $(TESTS)

# For edits to code that needs no server.
test-fast: $(INSTALLED)
	$(BIN)/python -m pytest --fast -m "not sweep and not story and not lint and not node" -n 4 --dist worksteal

# Each test for itself: some of them take minutes. CORPUS names sets of published manifests.
sweep: $(INSTALLED)
	$(BIN)/python -m pytest -m sweep --timeout 7200 -n 3 --dist load

# Whether TESTS may go: what only they execute, and which guards only they hold. `contexts` measures
# what each test executes, `killers` which tests fail without a guard, `mutants` which changes of
# the planning and of the steps no pure test notices. ARGS: `--help` shows them.
proof: $(INSTALLED)
	$(BIN)/python -m tests.mutations.proof $(TESTS)

contexts: $(PROOF)
	$(BIN)/python -m tests.mutations.contexts $(ARGS)

killers: $(INSTALLED)
	$(BIN)/python -m tests.mutations.killers $(ARGS)

mutants: $(PROOF)
	$(BIN)/python -m tests.mutations.generic $(ARGS)

# The end-to-end stories on each version of Kubernetes; KUBERNETES="1.34.4 1.35.4" names some.
sweep-versions: $(INSTALLED)
	$(BIN)/python -m tests.versions $(KUBERNETES)

# A cache of types belongs to one platform.
# Its tests are about the sources: laws, words, links, generated pages, types of the examples.
lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --platform linux
	$(BIN)/mypy --platform darwin --cache-dir .mypy_cache/darwin
	$(BIN)/python -m pytest -q -m "lint and not sweep" -n 3 --dist worksteal

# The parts of docs/ that the code already knows; a test fails when they are out of date.
docs: $(INSTALLED)
	$(BIN)/python -m tests.docs.generate

# ARGS: `--help` shows them, for example `make bench ARGS="--job first-1000 --rounds 3"`.
# It exits with 1 if a target is missed, that is, if a change has broken something. The figures are
# written all the same: those of a job take the place of its last ones.
JSON ?= build/benchmarks.json
bench: $(INSTALLED)
	$(BIN)/python -m tests.benchmarks --json $(JSON) $(ARGS)

# Fewer rounds, without the long rows: under 3 minutes. ARGS="--beside FOLDER" compares with the
# checkout in that folder, by turns.
bench-quick: $(INSTALLED)
	$(BIN)/python -m tests.benchmarks --quick $(ARGS)

# The tables of docs/comparison.md and docs/benchmarks.md, of the figures of `make bench`.
bench-docs: $(INSTALLED)
	cp $(JSON) docs/benchmarks.json
	$(BIN)/python -m tests.docs.generate

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
