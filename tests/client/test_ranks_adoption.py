"""A keeper that takes processes in that are not its children: whom it lets in, whom it ends."""

from __future__ import annotations

import json
import os
import select
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dq_client.base import process
from dq_client.base.channel import Channel
from dq_client.node.ranks import adoption
from dq_client.node.ranks.adoption import Adoption, adopted
from dq_client.node.ranks.world import Rank, World, WorldStart

# A process that connects, if it is told to, says the lines it is given, and ends as it is told.
CALLER = """
import os, sys
sys.path.insert(0, sys.argv[2])
from dq_client.base.channel import connect
link = None
for line in sys.stdin:
    word, _, rest = line.strip().partition(" ")
    if word == "call":
        link = connect(sys.argv[1], "attach")
        print(link.makefile().readline().strip() or "nothing", flush=True)
    elif word == "say":
        link.sendall(rest.encode() + b"\\n")
    elif word == "fork":
        os.fork() or os.execvp("sleep", ["sleep", "100"])
    elif word == "end":
        os._exit(int(rest))
"""
ROOT = str(Path(__file__).parents[2])


class Caller:
    """One that runs already: somebody else's child would be as good."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", CALLER, str(folder), ROOT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def do(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def heard(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()


class Keeping:
    """The part of a keeper around an Adoption."""

    def __init__(self, folder: Path, callers: list[Caller]) -> None:
        self.folder = folder
        self.selector = selectors.DefaultSelector()
        self.ends: list[tuple[int, int]] = []
        self.failures: list[str] = []
        start = WorldStart(
            world=0, programs=[["p"]], program_of=[], cwd="/", env={}, nodes=["n1"] * len(callers),
            folder=str(folder), name="w", adopted=[c.process.pid for c in callers],
        )  # fmt: skip
        self.world = World(start, ["n1"])
        self.adoption = Adoption(
            str(folder), self.selector,
            hear=self.hear,
            ended=lambda _, rank, code: self.ends.append((rank.number, code)),
            fail=lambda _, why: self.failures.append(why),
        )  # fmt: skip
        self.adoption.expect(self.world)

    def hear(self, world: World, rank: Rank, link: Channel) -> None:
        if link not in self.selector.get_map():
            return
        lines = link.lines()
        for line in lines or ():
            said = json.loads(line)
            if "session" in said:
                rank.in_session, rank.left = said["session"], not said["session"]
        if lines is None:
            self.selector.unregister(link)
            self.adoption.unlinked(world, rank)

    def serve(self, until: Any, limit_s: float = 60.0) -> None:
        end_s = time.monotonic() + limit_s
        while not until():
            assert time.monotonic() < end_s, (self.ends, self.failures)
            for key, _ in self.selector.select(0.01):
                key.data()
            self.adoption.look(time.monotonic())

    def taken_in(self, callers: list[Caller]) -> None:
        """All call and come to their session."""
        for caller in callers:
            caller.do("call")
        self.serve(lambda: not self.world.expected)
        for caller in callers:
            assert json.loads(caller.heard()) == {"adopted": True}
            caller.do('say {"session": true}')
        self.serve(lambda: len(adopted(str(self.folder))) == len(callers))


@pytest.fixture
def callers(tmp_path: Path) -> Iterator[list[Caller]]:
    made = [Caller(tmp_path) for _ in range(2)]
    yield made
    for caller in made:
        caller.process.kill()
        caller.process.communicate()


@pytest.fixture
def keeping(tmp_path: Path, callers: list[Caller], monkeypatch: pytest.MonkeyPatch) -> Keeping:
    right = process.descendants
    # Here the ranks are children of the process that plays the keeper, which they never are.
    monkeypatch.setattr(
        process, "descendants", lambda *roots: right(*(r for r in roots if r != os.getpid()))
    )
    return Keeping(tmp_path, callers)


def test_ranks_that_call_are_taken_in_and_their_ends_seen(
    keeping: Keeping, callers: list[Caller]
) -> None:
    keeping.taken_in(callers)
    assert {rank.pid for rank in keeping.world.running()} == {c.process.pid for c in callers}
    assert sorted(adopted(str(keeping.folder))) == sorted(c.process.pid for c in callers)
    assert keeping.adoption.due_s == float("inf")
    callers[1].do("end 3")
    callers[1].process.wait()
    keeping.serve(lambda: keeping.ends)
    os.kill(callers[0].process.pid, signal.SIGSEGV)
    callers[0].process.wait()
    keeping.serve(lambda: len(keeping.ends) == 2)
    assert keeping.ends == [(1, 3), (0, -signal.SIGSEGV)]
    assert not adopted(str(keeping.folder))
    assert not keeping.failures


def test_the_exit_code_is_known_before_the_parent_has_collected_it(
    keeping: Keeping, callers: list[Caller]
) -> None:
    keeping.taken_in(callers)
    callers[0].do("end 5")
    keeping.serve(lambda: keeping.ends)
    assert keeping.ends == [(0, 5)]


def test_who_was_killed_for_another_comes_after_it(keeping: Keeping, callers: list[Caller]) -> None:
    keeping.taken_in(callers)
    callers[0].process.kill()
    callers[1].do("end 5")
    for caller in callers:
        caller.process.wait()
    keeping.serve(lambda: len(keeping.ends) == 2)
    assert keeping.ends == [(1, 5), (0, -signal.SIGKILL)]


def test_a_stranger_is_turned_away(keeping: Keeping, callers: list[Caller], tmp_path: Path) -> None:
    stranger = Caller(tmp_path)
    stranger.do("call")
    waiting = select.poll()
    waiting.register(stranger.process.stdout or 0, select.POLLIN)
    keeping.serve(lambda: waiting.poll(0))
    assert stranger.heard() == "nothing\n", "hung up"
    assert not keeping.world.local
    stranger.process.kill()
    stranger.process.communicate()
    keeping.taken_in(callers)


def test_who_does_not_come_to_its_session_goes_on_by_itself(
    keeping: Keeping, callers: list[Caller]
) -> None:
    for caller in callers:
        caller.do("call")
    keeping.serve(lambda: not keeping.world.expected)
    keeping.adoption.terminate()
    assert not keeping.adoption.kill()
    keeping.adoption.release()
    assert not keeping.world.is_alive
    assert all(caller.process.poll() is None for caller in callers)


def test_one_that_hangs_up_before_fails_the_job_and_lives(
    keeping: Keeping, callers: list[Caller]
) -> None:
    for caller in callers:
        caller.do("call")
    keeping.serve(lambda: not keeping.world.expected)
    callers[1].do("end 0")
    keeping.serve(lambda: keeping.failures)
    assert keeping.failures == ["rank 1 on n1 did not attach: it goes on by itself"]
    assert not keeping.ends


def test_one_that_never_calls_fails_the_job(keeping: Keeping, callers: list[Caller]) -> None:
    callers[0].do("call")
    keeping.serve(lambda: len(keeping.world.expected) == 1)
    due_s = keeping.adoption.due_s
    assert 0 < due_s - time.monotonic() <= adoption.ATTACH_WITHIN_S
    keeping.adoption.look(due_s)
    assert keeping.failures == ["rank 1 on n1 did not attach within 15 s"]
    assert not keeping.world.is_alive
    assert not (keeping.folder / "attach").exists() or not _connects(keeping.folder)
    assert all(caller.process.poll() is None for caller in callers)


def _connects(folder: Path) -> bool:
    try:
        socket.socket(socket.AF_UNIX).connect(str(folder / "attach"))
    except OSError:
        return False
    return True


def test_the_end_of_the_job_ends_them_and_what_they_have_started(
    keeping: Keeping, callers: list[Caller]
) -> None:
    keeping.taken_in(callers)
    callers[0].do("fork")
    child: list[int] = []

    def born() -> bool:
        child[:] = process.descendants(callers[0].process.pid)
        return bool(child)

    keeping.serve(born)
    callers[1].do('say {"session": false}')
    keeping.serve(lambda: keeping.world.local[1].left)
    keeping.adoption.terminate()
    assert callers[0].process.wait(60) == -signal.SIGTERM
    assert callers[1].process.poll() is None, "it is about to end by itself, and gets a moment"
    keeping.serve(lambda: callers[1].process.poll() is not None)
    until_s = time.monotonic() + 60
    its = Path(f"/proc/{child[0]}")
    while its.exists() and time.monotonic() < until_s:
        time.sleep(0.01)
    assert not its.exists()
