"""An agent's own ranks over keepers that only note what they are sent."""

from __future__ import annotations

import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dq_client.base import messages as m
from dq_client.base.home import Home
from dq_client.base.process_tree import Owner
from dq_client.node.agent import keepers, own_ranks
from dq_client.node.agent.context import Context
from dq_client.node.agent.holdings import Holdings, Tree
from dq_client.node.agent.own_ranks import OwnRanks

NODES = ["n1", "n2"]
PID = 77  # of each keeper


class Line:
    """Stands for KeeperLine."""

    def __init__(self) -> None:
        self.sock, self._its = socket.socketpair()
        self.gone = False
        self.sent: list[dict[str, Any]] = []
        self.unread: list[dict[str, Any]] = []

    def fileno(self) -> int:
        return self.sock.fileno()

    def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)

    def read(self) -> list[dict[str, Any]]:
        found, self.unread = self.unread, []
        return found

    def close(self) -> None:
        self.sock.close()
        self._its.close()


class Starters:
    """Stands for Starters. `found`: what is wanted of it."""

    def __init__(self, *_: object, **__: object) -> None:
        self.found: Any = None
        self.by_name: dict[str, Any] = {}

    def wanted(self, argv: list[str], env: dict[str, str], cwd: str) -> Any:
        if isinstance(self.found, OSError):
            raise self.found
        return self.found

    def look(self) -> None:
        """They say nothing."""

    def close(self) -> None:
        self.by_name = {}


class Starter:
    """Stands for one of them. `forks`: it is still there when it is asked."""

    def __init__(self, ready: bool | None, *, forks: bool = True) -> None:
        self.ready, self.forks = ready, forks
        self.waiting: list[Any] = []
        self.asked: list[dict[str, Any]] = []
        self.sock = socket.socketpair()[0]

    def ask(self, request: dict[str, Any], _: socket.socket) -> bool:
        self.asked.append(request)
        return self.forks


class Played:
    """An agent of two nodes; a third, `n3`, is another agent's."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.patch, self.home = patch, Home(folder / "home")
        self.home.create()
        self.lines: list[Line] = []
        self.controls: list[socket.socket] = []  # the keepers' ends of them
        self.requests: list[dict[str, Any]] = []  # keepers that were executed
        self.said: list[m.RequestBody] = []  # to the server, unacknowledged
        self.refuses: OSError | None = None  # to execute a keeper
        self.reached: Line | None = None  # by an agent that adopts
        self.left = False  # processes of a keeper that is gone
        patch.setattr(keepers, "pair", self._pair)
        patch.setattr(keepers, "execute", self._execute)
        patch.setattr(keepers, "reach", lambda _folder, _alive: self.reached)
        patch.setattr(own_ranks, "Starters", Starters)
        patch.setattr(Tree, "find", _find)
        patch.setattr(Tree, "sweep", lambda held: held.over and not self.left)
        self.context, self.own = self.agent()

    def agent(self) -> tuple[Context, OwnRanks]:
        """One that starts now."""
        owner = Owner(self.home.root, "a")
        line: Any = SimpleNamespace(send=self._send)
        context = Context(
            home=self.home,
            owner=owner,
            connection=line,
            holdings=Holdings(self.home.agent("a") / "holdings", owner),
        )
        context.troubles.cannot_start = lambda: ""  # type: ignore[method-assign]
        return context, OwnRanks(context, NODES, environment={"E": "emulated"})

    def _pair(self) -> tuple[Line, socket.socket]:
        self.lines.append(Line())
        self.controls.append(socket.socketpair()[1])
        return self.lines[-1], self.controls[-1]

    def _execute(self, asked: dict[str, Any], control: socket.socket) -> Any:
        if self.refuses is not None:
            raise self.refuses
        assert control.fileno() >= 0
        self.requests.append(asked)
        return SimpleNamespace(poll=lambda: None)

    def _send(self, body: m.RequestBody) -> str:
        self.said.append(body)
        return f"id-{len(self.said)}"

    @property
    def line(self) -> Line:
        """To the newest keeper."""
        return self.lines[-1]

    def sent(self) -> list[dict[str, Any]]:
        """What the newest keeper was sent since the last call."""
        found, self.line.sent = self.line.sent, []
        return found

    def reports(self) -> dict[str, m.RequestBody]:
        """What is being reported, by what it is about."""
        return {about: report.body for about, report in self.context.reports._open.items()}

    def acknowledge(self, about: str) -> None:
        """The server knows what is reported about it."""
        held = self.context.reports._open.pop(about).held
        if held is not None:
            self.own.acknowledged(held)

    def hears(self, **message: Any) -> None:
        """The newest keeper says something."""
        self.line.unread.append(message)
        self.own.look()

    def says(self, *worlds: dict[str, Any], **more: Any) -> None:
        """The newest keeper says how its worlds stand."""
        known = {str(world["number"]): world for world in worlds}
        self.hears(state={"worlds": known, **more})

    def dies(self) -> None:
        """The newest keeper ends, or is killed."""
        self.line.gone = True
        self.own.look()

    def running(self, **more: Any) -> m.StartRanks:
        """A job whose world 0 runs here."""
        first = order(**more)
        self.own.start(first)
        self.says(world())
        self.sent()
        return first


def _find(held: Tree) -> bool:
    held.record.pid = PID
    return True


def order(number: int = 0, **more: Any) -> m.StartRanks:
    """To start a world of the second start of job 7."""
    given: dict[str, Any] = {
        "job": 7, "instance": 2, "world": number, "programs": [["sh"]], "program_of": [],
        "cwd": "/", "env": {"DQ_SERVER_KEY": "key"}, "places": [m.RankPlace(0, "n1", "n1")],
        "root": "n1",
    }  # fmt: skip
    return m.StartRanks(**(given | more))


def world(
    number: int = 0, running: int = 1, *, part: bool = True, spawned: bool = False
) -> dict[str, Any]:
    """As a keeper describes it."""
    return {"number": number, "running": running, "part": part, "spawned": spawned}


def end(reports: dict[str, m.RequestBody]) -> tuple[int, str, int]:
    """What the server is told of how job 7 ended here."""
    body = reports["end 7.2"]
    assert isinstance(body, m.AppEnded)
    return body.exit_code, body.error, body.world
