"""Process trees: claimed once, ended whole, known to their own cluster only."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from dq_client.agent import holdings, keeper, tree
from dq_client.agent.holdings import Holdings, Record


def start(folder: Path, owner: tree.Owner, program: list[str], job: int = 1) -> holdings.Tree:
    held = Holdings(folder / "holdings", owner)
    of = {"DQ_JOB_ID": str(job), "DQ_JOB_INSTANCE": "1"}
    env = {**owner.marks(), **of, "PATH": os.environ["PATH"]}
    return held.start(Record(job, 1), program, "/", env, folder / "out", folder / "err")


def wait(what, limit_s: float = 20.0) -> None:
    end = time.monotonic() + limit_s
    while not what():
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.01)


def test_a_folder_is_claimed_once(tmp_path):
    assert keeper.claim(str(tmp_path))
    assert not keeper.claim(str(tmp_path))
    assert not keeper.claim(str(tmp_path / "gone"))


def test_a_keeper_that_comes_late_runs_nothing(tmp_path):
    """The agent died between writing the record and starting the keeper; its successor claimed."""
    folder = tmp_path / "1.1"
    folder.mkdir()
    assert keeper.claim(str(folder))
    words = [sys.executable, "-I", "-S", keeper.__file__, str(folder), "/"]
    out = tmp_path / "out"
    subprocess.run([*words, str(out), str(out), "touch", str(tmp_path / "ran")], check=True)
    assert not (tmp_path / "ran").exists()


def test_an_agent_killed_before_the_keeper_started_leaves_nothing_to_adopt(tmp_path):
    folder = tmp_path / "holdings" / "1.1"
    folder.mkdir(parents=True)
    (folder / "record.json").write_text('{"job":1,"instance":1}')
    assert not Holdings(tmp_path / "holdings", tree.Owner(tmp_path, "a")).trees
    assert not folder.exists()


def test_an_agent_finds_what_its_predecessor_started(tmp_path):
    owner = tree.Owner(tmp_path, "a")
    first = start(tmp_path, owner, ["sleep", "60"])
    wait(lambda: (first.folder / "claim").exists())
    (second,) = Holdings(tmp_path / "holdings", owner).trees.values()
    assert second.record.pid == first.record.pid
    assert second.running()
    second.terminate()
    wait(lambda: not second.running())
    assert second.exit_code() == 128 + 15


def test_a_program_that_ignores_sigterm_ends(tmp_path):
    owner = tree.Owner(tmp_path, "a")
    held = start(tmp_path, owner, ["sh", "-c", 'trap "" TERM; echo on; while :; do sleep 1; done'])
    wait(lambda: (tmp_path / "out").exists() and (tmp_path / "out").read_text() == "on\n")
    held.terminate()
    wait(lambda: not held.running())
    assert held.exit_code() == 128 + 9


def test_a_sweep_stays_within_its_own_cluster(tmp_path):
    """Another home on this machine has an agent of the same name and a job of the same number."""
    theirs = tree.Owner(tmp_path / "theirs", "local")
    ours = tree.Owner(tmp_path / "ours", "local")
    (tmp_path / "theirs").mkdir()
    held = start(tmp_path / "theirs", theirs, ["sleep", "60"])
    wait(lambda: len(tree.members(1, 1, theirs)) >= 2)
    assert tree.members(1, 1, ours) == []
    held.terminate()
    wait(lambda: not tree.members(1, 1, theirs))


def test_pids_of_others_do_not_keep_processors(tmp_path):
    """A job names process 1, or a pid that somebody else has got since: neither is its own."""
    assert tree.belonging([1, os.getpid()], 1, 1, tmp_path) == []
