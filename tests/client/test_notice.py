"""What a batch system's signals are to an agent, to keepers and to ranks of a borrowed node."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from dq_client.base import process
from dq_client.base.errors import UsageError
from dq_client.cli.agent_commands import read_notice
from dq_client.node.agent.notice import Notice

TERM, INT, USR2 = signal.SIGTERM, signal.SIGINT, signal.SIGUSR2

# A keeper's part: it ignores what a batch system sends, and so does the rank that it forks.
KEEPER = """
import os, signal, sys, time
from dq_client.base import process
process.ignore_site_signals(ranks=True)
birth = process.Birth([sys.executable, "-c", sys.argv[1]], dict(os.environ), "/", (0, 1, 2))
rank = process.fork(birth)
print(rank, flush=True)
sys.stdin.read(1)
begun_s = time.monotonic()
process.terminate_all()
print(os.waitstatus_to_exitcode(os.waitpid(rank, 0)[1]), flush=True)
"""
WAITS = "print('runs', flush=True); import time; time.sleep(60)"
SAVES = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(7)); " + WAITS


def test_an_ordinary_agent_goes_in_its_time_and_at_once_when_told_again() -> None:
    notice = Notice(30.0)
    assert notice.left_s(0.0) is None and notice.give(TERM, 100.0)
    assert (notice.by_s, notice.left_s(100.0), notice.why) == (
        130.0,
        28.0,
        "its agent was told to go",
    )
    assert not notice.give(INT, 101.0)
    assert not Notice(0.0).give(TERM, 100.0)


def test_on_a_borrowed_node_the_earliest_end_counts_and_none_means_at_once() -> None:
    notice = Notice(30.0, {TERM: 1.75, USR2: 9.0})
    assert notice.give(USR2, 100.0) and notice.by_s == 109.0
    assert notice.give(USR2, 101.0) and notice.by_s == 109.0
    assert notice.give(TERM, 102.0) and notice.by_s == 103.75
    assert notice.why == "its agent was told to go: SIGTERM of the batch system"
    left_s = notice.left_s(102.0)
    assert left_s is not None and 1.5 < left_s < 1.75, "what is left is ended before that"
    assert notice.give(USR2, 102.5) and notice.by_s == 103.75


@pytest.mark.parametrize(("program", "ended"), [(WAITS, -signal.SIGKILL), (SAVES, 7)])
def test_a_batch_systems_signals_end_neither_keeper_nor_rank(program: str, ended: int) -> None:
    """DQ's own end is as quick as ever; a program that handles SIGTERM is asked, as elsewhere."""
    with process.site_signals_held():
        keeper = subprocess.Popen(
            [sys.executable, "-c", KEEPER, program],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
    assert keeper.stdin is not None and keeper.stdout is not None
    rank = int(keeper.stdout.readline())
    assert keeper.stdout.readline() == "runs\n"
    numbers = process.SITE_SIGNALS - ({TERM} if program is SAVES else set())
    for number in numbers:
        os.kill(keeper.pid, number)
        os.kill(rank, number)
    time.sleep(0.1)
    assert keeper.poll() is None and psutil.pid_exists(rank)
    keeper.stdin.write("x")
    keeper.stdin.close()
    assert keeper.stdout.read() == f"{int(ended)}\n"
    assert keeper.wait(30) == 0


@pytest.mark.parametrize("text", ["TERM", "TERM=", "SIGTERM=3s", "NEVER=3s"])
def test_a_notice_that_cannot_be_read(text: str) -> None:
    with pytest.raises(UsageError, match="--notice"):
        read_notice(text)
    assert read_notice("TERM=1.75s") == (TERM, 1.75)
