"""The tests of one group against one mutant, in a fork of this process.

The parent has imported what tests need and nothing that is mutated, so a trial starts in the time
of a fork. Whether tests hang is judged by processor time: the machine may have other work.

Where tests start programs (keepers, MPI's ranks), these have to find the mutant, too: such a trial
has a copy of the repository, with the mutant in place of the file.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import inspect
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import CodeType, FrameType, ModuleType

import pytest

from harness.mutants.mutations import ROOT, Mutant

# What the tests import beside our own modules; importing it once saves a second in each trial.
PRELOADED = ("hypothesis", "msgspec", "numpy", "psutil", "zmq", "pytest_timeout")
SURVIVED, KILLED = (int(pytest.ExitCode.OK),), (
    int(pytest.ExitCode.TESTS_FAILED),
    int(pytest.ExitCode.INTERRUPTED),  # a module that cannot be imported
    int(pytest.ExitCode.USAGE_ERROR),  # nor can a conftest; the right code has run with these words
)  # fmt: skip
FIRST_TESTS = 10
# More processor time than a test needs with the right code, whatever the machine is doing.
CIRCLES_S = 20.0
# Waiting for a server that does not answer costs no processor time. For mutants only: the right
# code takes its time on a busy machine.
WALL_LIMIT_S = 600.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a mutant (None: the code as it is)."""

    mutant: Mutant | None
    killed: bool
    cpu_s: float
    how: str


class MutatedLoader(importlib.machinery.SourceFileLoader):
    """Loads a module from other text than its file's."""

    def __init__(self, name: str, path: str, text: str) -> None:
        super().__init__(name, path)
        self.text = text

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002
        """Compiled afresh: a cached file would have the right code."""
        return compile(self.text, self.path, "exec", dont_inherit=True)

    def get_source(self, fullname: str) -> str:  # noqa: ARG002
        """For tracebacks, and for those who ask a function for its source."""
        return self.text


class MutatedFinder(importlib.abc.MetaPathFinder):
    """Finds the mutated module before the right one is found."""

    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The right module's place with the mutant's text."""
        if fullname != self.mutant.module:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        assert spec is not None
        assert spec.origin == str(ROOT / self.mutant.path), "another copy would be tested"
        spec.loader = MutatedLoader(fullname, spec.origin, self.mutant.mutated)
        return spec


class Record:
    """A plugin for the right code: how long each test takes, and which functions it calls.

    Functions of the files that will be mutated only, as first and last line. What runs while tests
    are imported, and in programs that they start, belongs to no test.
    """

    def __init__(self, memory: Path, files: Sequence[str]) -> None:
        self.memory = memory
        self.took_s: dict[str, float] = {}
        self._calls: dict[str, set[tuple[str, int, int]]] = {}
        self._places: dict[CodeType, tuple[str, int, int] | None] = {}
        self._files = {str(Path.cwd() / file): file for file in files}
        self._seen = self._calls.setdefault("", set())

    def start(self) -> None:
        """Record from now on, in all threads."""
        threading.settrace(self._called)
        sys.settrace(self._called)

    def _called(self, frame: FrameType, _event: str, _arg: object) -> None:
        code = frame.f_code
        try:
            place = self._places[code]
        except KeyError:
            place = None
            file = self._files.get(code.co_filename)
            if file is not None and code.co_flags & inspect.CO_OPTIMIZED:  # no module, no class
                last = max(end for _, end, _, _ in code.co_positions() if end is not None)
                place = file, code.co_firstlineno, last
            self._places[code] = place
        if place is not None:
            self._seen.add(place)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Its fixtures count as its own."""
        self._seen = self._calls.setdefault(nodeid, set())
        sys.settrace(self._called)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """With its fixtures."""
        self.took_s[report.nodeid] = self.took_s.get(report.nodeid, 0.0) + report.duration

    def pytest_sessionfinish(self) -> None:
        """Before any mutant starts."""
        sys.settrace(None)
        calls = {name: sorted(found) for name, found in self._calls.items()}
        self.memory.write_text(json.dumps({"took_s": self.took_s, "calls": calls}))


class Choice:
    """The tests to run against a mutant, in two rounds: those that most probably notice it first.

    Only tests that call the changed function can notice it. The first round are those of them that
    are in a file which names the module, or are the quickest: most mutants die there within a
    second, and pytest imports few files for it.
    """

    def __init__(self, memory: Path, mutant: Mutant, *, copied: bool) -> None:
        recorded = json.loads(memory.read_text())
        self.took_s: dict[str, float] = recorded["took_s"]
        line = mutant.line

        def calls(test: str) -> bool:
            places = recorded["calls"].get(test, ())
            return any(f == mutant.path and a <= line <= b for f, a, b in places)

        ordered = sorted(self.took_s, key=self.took_s.__getitem__)
        calling = [test for test in ordered if calls(test)]
        named = {file for file in map(_file_of, ordered) if _names(file, mutant)}
        first = [test for test in calling if _file_of(test) in named] or calling[:FIRST_TESTS]
        # Imports, and programs that tests start, are not recorded.
        last = ordered if copied or not calling or calls("") else calling
        done = set(first)
        self.rounds = [first, [test for test in last if test not in done]]


def _file_of(test: str) -> str:
    return test.partition("::")[0]


def _names(file: str, mutant: Mutant) -> bool:
    """Whether a file of tests speaks of the mutated module."""
    name = mutant.module.rpartition(".")[2]
    words = Path(file).stem + "\n" + (ROOT / file).read_text()
    return re.search(rf"(\b|_){name}(\b|_)", words) is not None


class Round:
    """A plugin that runs these tests only, quickest first, and ends one that goes in circles."""

    def __init__(self, tests: Sequence[str], took_s: dict[str, float]) -> None:
        self._turn = {test: number for number, test in enumerate(tests)}
        self._took_s = took_s

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Tests whose names the mutant has changed run, too."""
        known = self._took_s
        items[:] = [i for i in items if i.nodeid in self._turn or i.nodeid not in known]
        items.sort(key=lambda item: self._turn.get(item.nodeid, 0))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Limit its processor time."""
        used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        limit = used + CIRCLES_S + 10 * self._took_s.get(nodeid, 0.0)
        resource.setrlimit(resource.RLIMIT_CPU, (min(int(limit), hard), hard))


def preload() -> None:
    """Import what every trial needs."""
    for name in PRELOADED:
        import_module(name)
    loaded = [name for name in sys.modules if name.startswith(("dq_", "resize_lib"))]
    assert not loaded, f"imported before it could be mutated: {loaded}"


class Trial:
    """A running fork."""

    def __init__(
        self,
        mutant: Mutant | None,
        files: Sequence[str],
        tests: Sequence[str],
        log: Path,
        cpu_limit_s: float = 3600.0,
        *,
        copied: bool = False,
    ) -> None:
        self.mutant, self.log, self._began = mutant, log, time.monotonic()
        self.pid = os.fork()
        if self.pid == 0:
            code = 70  # neither a failed test nor success
            try:
                code = _run(mutant, files, tests, log, cpu_limit_s, copied=copied)
            finally:
                os._exit(code)

    def verdict(self) -> Verdict | None:
        """None while it runs.

        Raises:
            RuntimeError: the tests could not be run.
        """
        pid, status, used = os.wait4(self.pid, os.WNOHANG)
        if pid == 0:
            waits = time.monotonic() - self._began > WALL_LIMIT_S
            if waits and self.mutant is not None:
                os.killpg(self.pid, signal.SIGKILL)
            return None
        cpu_s = used.ru_utime + used.ru_stime
        if os.WIFSIGNALED(status):
            name = signal.Signals(os.WTERMSIG(status)).name
            return Verdict(self.mutant, killed=True, cpu_s=cpu_s, how=f"ended by {name}")
        code = os.WEXITSTATUS(status)
        if code not in (*SURVIVED, *KILLED):
            raise RuntimeError(f"pytest ended with {code}:\n{self.log.read_text()[-3000:]}")
        return Verdict(self.mutant, code in KILLED, cpu_s, self._first_failure())

    def _first_failure(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()
        found = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
        return found[0].partition(" - ")[0] if found else ""


def _enter_copy(mutant: Mutant | None, copy: Path) -> None:
    """Give this process, and what it starts, a copy of the repository with the mutant."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    for name in filter(None, os.fsdecode(listed.stdout).split("\0")):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, copy / name)
    if mutant is not None:
        (copy / mutant.path).write_text(mutant.mutated)
    os.chdir(copy)
    os.environ["PYTHONPATH"] = str(copy)
    sys.path[:] = [str(copy), *(p for p in sys.path if Path(p or ROOT).resolve() != ROOT)]
    for name in [n for n in sys.modules if n.partition(".")[0] == "harness"]:
        del sys.modules[name]  # tests start programs in the folder that it lies in


def _run(
    mutant: Mutant | None,
    files: Sequence[str],
    tests: Sequence[str],
    log: Path,
    cpu_limit_s: float,
    *,
    copied: bool,
) -> int:
    os.setsid()
    if copied:
        _enter_copy(mutant, log.with_suffix(""))
    with log.open("w") as out:
        os.dup2(out.fileno(), 1)
        os.dup2(out.fileno(), 2)
    limit = int(cpu_limit_s) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
    os.environ.update(HYPOTHESIS_PROFILE="mutants", DQ_SEEDS="25")
    memory = log.with_name("right.json")
    code = int(pytest.ExitCode.OK)
    if mutant is None:
        record = Record(memory, files)
        record.start()
        code = _pytest(tests, record)
    else:
        if not copied:
            sys.meta_path.insert(0, MutatedFinder(mutant))
        choice = Choice(memory, mutant, copied=copied)
        for some in filter(None, choice.rounds):
            code = _pytest(sorted(set(map(_file_of, some))), Round(some, choice.took_s))
            if code not in SURVIVED:
                break
    sys.stdout.flush()
    if copied:
        shutil.rmtree(log.with_suffix(""), ignore_errors=True)
    return code


def _pytest(tests: Sequence[str], plugin: object) -> int:
    # Without those that look at the whole machine: other trials are on it.
    options = ["-x", "-q", "-p", "no:cacheprovider", "-o", "timeout=0", "--tb=line", "-rfE"]
    return int(pytest.main([*options, "-m", "not alone", *tests], plugins=[plugin]))
