"""Starters: which jobs share one, what cannot have one, and when they end."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dq_client.base.launch import ONE_THREAD
from dq_client.base.process import names, set_environment
from dq_client.node.agent.starters import IDLE_S, STARTERS_MAX, Starters, interpreter, name_of
from dq_client.node.ranks import program

ENV = {**os.environ, **ONE_THREAD}


@pytest.mark.parametrize(
    ("variable", "same"),
    [
        ("SEED", True),
        ("DQ_JOB_ID", True),
        ("OMP_NUM_THREADS", False),
        ("PYTHONPATH", False),
        ("UCX_TLS", False),
        ("LD_LIBRARY_PATH", False),
        ("HOME", False),
        ("LC_ALL", False),
    ],
)
def test_jobs_share_a_starter_if_what_is_read_at_import_is_the_same(
    variable: str, same: bool
) -> None:
    one, other = name_of("/bin/python", {"A": "1"}), name_of("/bin/python", {variable: "other"})
    assert (one == other) is same
    assert name_of("/usr/bin/python", {"A": "1"}) != one


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ([sys.executable, "app.py"], sys.executable),
        (["python3", "app.py"], f"{Path(sys.executable).parent}/python3"),
        (["./a.out"], None),
        (["no-such-program"], None),
        (["sh", "-c", "python app.py"], None),
    ],
)
def test_which_interpreter_runs_a_program(words: list[str], found: str | None) -> None:
    env = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    assert interpreter(words, env, "/") == found


class Clocked(Starters):
    """With a clock that tests move on."""

    def __init__(self) -> None:
        self.now = 0.0
        super().__init__(clock=lambda: self.now)


@pytest.fixture
def starters() -> Iterator[Clocked]:
    made = Clocked()
    yield made
    made.close()


def until_settled(of: Starters, limit_s: float = 60) -> None:
    """Wait until every starter has said whether it is ready."""
    end_s = time.monotonic() + limit_s
    while any(s.ready is None for s in of.by_name.values()) and time.monotonic() < end_s:
        select.select([s.sock for s in of.by_name.values()], [], [], 1)
        of.look()


def test_one_is_started_once_and_says_its_memory(starters: Clocked) -> None:
    first = starters.wanted([sys.executable], ENV, "/")
    assert first is not None
    assert starters.wanted([sys.executable], {**ENV, "SEED": "1"}, "/") is first
    until_settled(starters)
    assert first.ready
    assert 10 << 20 < first.rss_bytes < 200 << 20


def test_an_idle_one_ends_and_the_next_job_gets_another(starters: Clocked) -> None:
    first = starters.wanted([sys.executable], ENV, "/")
    assert first is not None
    until_settled(starters)
    starters.now = IDLE_S + 1
    starters.look()
    assert not starters.by_name
    assert first.process.poll() is not None
    assert starters.wanted([sys.executable], ENV, "/") is not first


def test_packages_that_start_threads_cannot_be_forked(starters: Clocked) -> None:
    told: list[bool] = []
    env = {**ENV, "OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"}
    threads = starters.wanted([sys.executable], env, "/")
    assert threads is not None
    threads.waiting.append(told.append)
    until_settled(starters)
    if os.cpu_count() == 1:
        pytest.skip("numpy starts no thread on one core")
    assert told == [False]
    assert starters.wanted([sys.executable], env, "/") is None, "it is not tried again"


def test_there_are_never_more_than_a_few(starters: Clocked) -> None:
    for i in range(STARTERS_MAX + 2):
        starters.now = float(i)
        starters.wanted([sys.executable], {**ENV, "OMP_SCHEDULE": str(i)}, "/")
    assert len(starters.by_name) == STARTERS_MAX


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (["app.py", "x"], "file"),
        (["-u", "app.py"], "file"),
        (["-m", "module", "x"], "module"),
        (["-c", "pass", "x"], "code"),
        (["-O", "app.py"], None),
        (["-X", "dev", "app.py"], None),
        (["-m"], None),
        (["missing.py"], None),
        (["-"], None),
        ([], None),
        (["."], None),
    ],
)
def test_what_can_be_run_without_exec(words: list[str], kind: str | None, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("")
    plan = program.plan([sys.executable, *words], {}, str(tmp_path), {})
    assert (plan.kind if plan else None) == kind


def test_what_cannot_be_run_without_exec(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("")
    words, cwd = [sys.executable, "app.py"], str(tmp_path)
    assert program.plan(words, {}, cwd, {"numpy": "/elsewhere/numpy"})
    assert program.plan(words, {"PYTHONPATH": "here"}, cwd, {}) is None, "depends on the folder"
    assert program.plan(["/bin/sh", "app.py"], {}, cwd, {}) is None, "another interpreter"
    (tmp_path / "numpy.py").write_text("")
    assert program.plan(words, {}, cwd, {"numpy": "/elsewhere/numpy"}) is None, "its own numpy"


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (3, "exit code 3"),
        (-9, "signal 9 (SIGKILL)"),
        (139, "signal 11 (SIGSEGV)"),
        (-63, "signal 63"),
    ],
)
def test_how_a_process_ended_in_words(code: int, told: str) -> None:
    assert names(code) == told


def test_a_starter_is_given_what_names_it_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ranks of other jobs are forked of it, and /proc shows what it was started with."""
    given: dict[str, str] = {}

    def begin(_words: object, env: dict[str, str], **_: object) -> object:
        given.update(env)
        raise OSError("enough")

    monkeypatch.setattr("dq_client.node.agent.starters.subprocess.Popen", begin)
    env = {**ENV, "MY_OWN": "word", "LD_LIBRARY_PATH": "/opt/lib"}
    with pytest.raises(OSError, match="enough"):
        Starters().wanted([sys.executable, "app.py"], env, "/")
    assert given["LD_LIBRARY_PATH"] == "/opt/lib"
    assert "MY_OWN" not in given


def test_a_forked_rank_has_the_environment_of_its_job_and_nothing_else() -> None:
    before = dict(os.environ)
    wanted = {"PATH": before["PATH"], "HOME": "/elsewhere", "MY_OWN": "word"}
    os.environ["OF_THE_STARTER"] = "1"
    try:
        set_environment(wanted)
        assert dict(os.environ) == wanted
        # Readline may have set two of them behind os.environ's back.
        told = subprocess.run(["env", "-0"], capture_output=True, text=True, check=True).stdout
        of_c = dict(line.split("=", 1) for line in told.split("\0")[:-1])
        assert of_c.items() >= wanted.items()
        assert not before.keys() & of_c.keys() - wanted.keys() - {"COLUMNS", "LINES"}
        assert "OF_THE_STARTER" not in of_c
    finally:
        set_environment(before)
