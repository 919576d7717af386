"""A keeper whose ranks are no processes, under a clock of the test."""

from __future__ import annotations

import json
import selectors
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dq_client.base import process
from dq_client.base.channel import Channel
from dq_client.node.ranks import adoption, keeper
from dq_client.node.ranks.keeper import Keeper
from dq_client.node.ranks.output import Stream
from dq_client.node.ranks.world import Rank, World

BYTES = 1 << 20
KILL, TERM = signal.SIGKILL, signal.SIGTERM


class Played:
    """Of node n1. `kills`: pid and signal; `ends`: the sockets of ranks, PMI's first."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.now, self.pids = folder, 1000.0, 100
        self.kills: list[tuple[int, int]] = []
        self.slept_s: list[float] = []
        self.ends: list[socket.socket] = []
        self.streams: list[Stream] = []  # of the next rank
        self.handlers: dict[int, Any] = {}  # of signals
        clock: Any = SimpleNamespace(monotonic=lambda: self.now, sleep=self._sleep)
        patch.setattr(keeper, "time", clock)
        signals = SimpleNamespace(
            signal=self.handlers.__setitem__, set_wakeup_fd=lambda *_, **__: None,
            SIGCHLD=signal.SIGCHLD,
        )  # fmt: skip
        patch.setattr(keeper, "signal", signals)
        patch.setattr(process, "kill", self._kill)
        patch.setattr(process, "descendants", lambda *_: [])
        patch.setattr(process, "reap_all", lambda: None)
        patch.setattr(adoption.Adoption, "kill", lambda _: self._kill_all())
        patch.setattr(adoption.Adoption, "terminate", lambda _: self._kill(0, signal.SIGTERM))
        patch.setattr(World, "run", lambda world, number, *_: self._run(world, number))
        self.left = 0  # so many looks find processes that are left
        self.agent, its = socket.socketpair()
        self.agent.setblocking(False)
        self.keeper = Keeper(str(folder), ["n1"], its, None)

    def _sleep(self, seconds: float) -> None:
        self.slept_s.append(seconds)
        self.now += seconds

    def _kill(self, pid: int, number: int = signal.SIGKILL) -> None:
        self.kills.append((pid, number))

    def _kill_all(self) -> bool:
        self._kill(0)
        self.left -= 1
        return self.left >= 0

    def _run(self, world: World, number: int) -> Rank:
        """A rank that is two sockets."""
        self.pids += 1
        pairs = [socket.socketpair() for _ in range(2)]
        self.ends += [its for _, its in pairs]
        pmi, link = (Channel(mine, BYTES) for mine, _ in pairs)
        world.local[number] = Rank(
            number, world.start.nodes[number], self.pids, pmi, link, self.streams
        )
        return world.local[number]

    def close(self) -> None:
        self.keeper._selector.close()
        for end in (*self.ends, self.agent):
            end.close()

    # --- what happens -----------------------------------------------------------------------

    def does(self, **message: Any) -> None:
        """The agent orders something."""
        self.keeper._carry_out(message)

    def start(self, world: int = 0, nodes: tuple[str, ...] = ("n1", "n1"), **more: Any) -> World:
        self.does(**order(self.folder, world, nodes, **more))
        return self.keeper.worlds[world]

    def ended(self, world: World, number: int, code: int) -> None:
        self.keeper._ended(world, world.local[number], code)

    def look(self, after_s: float = 0.0) -> None:
        self.now += after_s
        self.keeper._look()

    def serves(self) -> None:
        """What has come on its sockets."""
        for key, _ in self.keeper._selector.select(0.0):
            key.data()

    # --- what is seen -----------------------------------------------------------------------

    def told(self) -> list[dict[str, Any]]:
        """What the agent was sent since the last call."""
        try:
            data = self.agent.recv(BYTES)
        except BlockingIOError:
            return []
        return [json.loads(line) for line in data.decode().splitlines()]

    def state(self) -> dict[str, Any]:
        """What the agent was told last of how things stand."""
        self.keeper._said = self.keeper._noted = ""
        self.keeper._tell_state()
        state: dict[str, Any] = self.told()[-1]["state"]
        return state

    def on_disk(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "ends").read_text())
        return found

    def watched(self) -> set[int]:
        """Descriptors that are waited for, to read."""
        found = self.keeper._selector.get_map().values()
        return {key.fd for key in found if key.events & selectors.EVENT_READ}


def order(folder: Path, world: int, nodes: tuple[str, ...], **more: Any) -> dict[str, Any]:
    """To start a world, as agents say it."""
    return {
        "do": "start", "world": world, "programs": [["p"]], "program_of": [], "cwd": "/",
        "env": {}, "nodes": list(nodes), "folder": str(folder), "name": f"w{world}",
    } | more  # fmt: skip


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Played]:
    made = Played(tmp_path, monkeypatch)
    yield made
    made.close()
