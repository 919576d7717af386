"""Process trees: claimed once, ended whole, known to their own cluster only."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from dq_client.base import process, process_tree
from dq_client.node.agent import holdings
from dq_client.node.agent.holdings import HoldingRecord, Holdings
from dq_client.node.ranks import boot
from harness.bench import until


def start(
    folder: Path, owner: process_tree.Owner, program: list[str], job: int = 1
) -> holdings.Tree:
    held = Holdings(folder / "holdings", owner)
    of = {"DQ_JOB_ID": str(job), "DQ_JOB_INSTANCE": "1"}
    env = {**owner.marks(), **of, "PATH": os.environ["PATH"]}
    return held.start(HoldingRecord(job, 1), program, "/", env, folder / "out", folder / "err")


def test_a_folder_is_claimed_once(tmp_path: Path) -> None:
    assert process.claim(str(tmp_path))
    assert not process.claim(str(tmp_path))
    assert not process.claim(str(tmp_path / "gone"))


def test_a_keeper_that_comes_late_runs_nothing(tmp_path: Path) -> None:
    """The agent died between writing the record and starting the keeper; its successor claimed."""
    folder = tmp_path / "1.1"
    folder.mkdir()
    assert process.claim(str(folder))
    words = [sys.executable, "-I", "-S", boot.__file__, "program", str(folder), "/"]
    out = tmp_path / "out"
    subprocess.run([*words, str(out), str(out), "touch", str(tmp_path / "ran")], check=True)
    assert not (tmp_path / "ran").exists()


def test_an_agent_killed_before_the_keeper_started_leaves_nothing_to_adopt(tmp_path: Path) -> None:
    folder = tmp_path / "holdings" / "1.1"
    folder.mkdir(parents=True)
    (folder / "record.json").write_text('{"job":1,"instance":1}')
    assert not Holdings(tmp_path / "holdings", process_tree.Owner(tmp_path, "a")).trees
    assert not folder.exists()


def test_an_agent_finds_what_its_predecessor_started(tmp_path: Path) -> None:
    owner = process_tree.Owner(tmp_path, "a")
    first = start(tmp_path, owner, ["sleep", "60"])
    until(lambda: (first.folder / "claim").exists(), "no keeper claims it")
    (second,) = Holdings(tmp_path / "holdings", owner).trees.values()
    assert second.record.pid == first.record.pid
    assert second.running()
    second.terminate()
    until(lambda: not second.running(), "it does not end")
    assert second.exit_code() == 128 + 15


def test_a_keeper_that_is_told_to_end_before_it_has_a_program_ends_it_at_once(
    tmp_path: Path,
) -> None:
    def told() -> None:  # it is pending when the keeper begins
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        os.kill(os.getpid(), signal.SIGTERM)

    words = [sys.executable, "-I", "-S", boot.__file__, "program", str(tmp_path), "/"]
    out = str(tmp_path / "out")
    keeper = subprocess.Popen([*words, out, out, "sleep", "60"], preexec_fn=told)
    assert keeper.wait(timeout=50) == 0
    assert (tmp_path / "exit").read_text() == str(128 + 15)


def test_a_program_that_ignores_sigterm_ends(tmp_path: Path) -> None:
    owner = process_tree.Owner(tmp_path, "a")
    held = start(tmp_path, owner, ["sh", "-c", 'trap "" TERM; echo on; while :; do sleep 1; done'])
    out = tmp_path / "out"
    until(lambda: out.exists() and out.read_text() == "on\n", "it does not begin")
    held.terminate()
    until(lambda: not held.running(), "it does not end")
    assert held.exit_code() == 128 + 9


def test_a_sweep_stays_within_its_own_cluster(tmp_path: Path) -> None:
    """Another home on this machine has an agent of the same name and a job of the same number."""
    theirs = process_tree.Owner(tmp_path / "theirs", "local")
    ours = process_tree.Owner(tmp_path / "ours", "local")
    (tmp_path / "theirs").mkdir()
    held = start(tmp_path / "theirs", theirs, ["sleep", "60"])
    until(lambda: len(process_tree.members(1, 1, theirs)) >= 2, "it does not begin")
    assert process_tree.members(1, 1, ours) == []
    held.terminate()
    until(lambda: not process_tree.members(1, 1, theirs), "it does not end")


def test_pids_of_others_do_not_keep_processors(tmp_path: Path) -> None:
    """A job names process 1, or a pid that somebody else has got since: neither is its own."""
    assert process_tree.belonging([1, os.getpid()], 1, 1, tmp_path) == []
