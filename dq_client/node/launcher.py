"""DQ's own ranks on this machine, without a cluster, as `dq doctor` tries them:

    python -m dq_client.ranks -n 4 [--exec] -- python app.py ARGS

It stands in for an agent: one keeper, and one world of ranks. harness/standalone.py has the job
of several hosts, worlds that join and worlds that are spawned.
"""

from __future__ import annotations

import argparse
import os
import select
import selectors
import signal
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from dq_client.base import opened
from dq_client.base.launch import rank_environment
from dq_client.base.opened import open_output
from dq_client.base.process import KEEPER_ENDS
from dq_client.node.agent import keepers
from dq_client.node.agent.keepers import KeeperLine
from dq_client.node.agent.starters import Starter, Starters
from dq_client.node.ranks import ends
from dq_client.node.ranks.world import unique_name

KEEPERS_END_WITHIN_S = 5.0
Json = dict[str, Any]


class Standalone:
    """One job on named hosts of this machine, which all are this machine."""

    def __init__(self, folder: Path, programs: list[list[str]], *, forks: bool) -> None:
        self._folder, self._programs, self._forks = folder, programs, forks
        self._env = {**rank_environment("lo"), **os.environ}
        self._starters = Starters()
        self._lines: dict[str, KeeperLine] = {}
        self._states: dict[str, Json] = {}
        self._begun: dict[str, list[str]] = {}  # worlds that were started there
        self._selector = selectors.DefaultSelector()
        self._over = False
        self._printed = {"out": 0, "err": 0}

    def run(self, hosts: list[str], program_of: list[int], **more: object) -> int:
        """Until the job is over; its exit code. `more`: for the keepers, with the order to start"""
        first = {**more, "program_of": program_of}
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        try:
            self._start(0, hosts, self._programs, str(Path.cwd()), **first)
            return self._wait()
        finally:
            self._starters.close()
            self._end_keepers()

    def _end_keepers(self) -> None:
        """Of worlds that nobody waited for, and whoever is about to write into the folder."""
        for pid in self._keepers():
            with suppress(ProcessLookupError):
                os.kill(pid, KEEPER_ENDS)
        until_s = time.monotonic() + KEEPERS_END_WITHIN_S
        while self._keepers() and time.monotonic() < until_s:
            time.sleep(0.005)

    def _keepers(self) -> list[int]:
        """Those that still run."""
        claims = [opened.read_text(path).split()[0] for path in self._folder.glob("*/claim")]
        return [int(pid) for pid in claims if Path("/proc", pid).exists()]

    def _wait(self) -> int:
        while self._lines:
            for key, _ in self._selector.select(0.2):
                self._read(key.data)
            self._print()
            if not self._over and self._done():
                self._over = True
                for host, line in self._lines.items():
                    for world in self._begun[host]:
                        line.send({"do": "end", "world": int(world)})
                    line.send({"do": "leave"})
        self._print()
        failures = [s["failed"] for s in self._states.values() if s["failed"]]
        if failures and failures[0]["why"]:
            sys.stderr.write(f"dq: {failures[0]['why']}\n")
        return int(failures[0]["code"]) if failures else 0

    def _done(self) -> bool:
        failed = any(state["failed"] for state in self._states.values())
        begun = [(host, world) for host, worlds in self._begun.items() for world in worlds]
        return failed or not any(self._goes_on(*each) for each in begun)

    def _goes_on(self, host: str, world: str) -> bool:
        """Whether the job needs it."""
        known = self._states[host]["worlds"].get(world)
        return known is None or bool(known["running"])

    def _start(
        self, world: int, hosts: list[str], programs: list[list[str]], cwd: str, **more: object
    ) -> None:
        self._starter(programs[0], cwd)  # comes up before the start is timed, as in a cluster
        name = unique_name(f"{os.getpid()}_{world}")
        order = {
            "do": "start",
            "world": world,
            "programs": programs,
            "program_of": [],
            "cwd": cwd,
            "env": {**self._env, "DQ_WISHED_S": f"{time.time():.6f}"},
            "nodes": hosts,
            "folder": str(self._folder),
            "name": name,
            **more,
        }
        for host in dict.fromkeys(hosts):
            if host not in self._lines:
                self._make(host, programs[0], cwd)
            self._states.setdefault(host, {"worlds": {}, "failed": None})
            self._begun.setdefault(host, []).append(str(world))
            self._lines[host].send(order)

    def _make(self, host: str, argv: list[str], cwd: str) -> None:
        folder = self._folder / host
        folder.mkdir()
        line, control = keepers.pair()
        asked = keepers.request(folder, [host], self._env)
        starter = self._starter(argv, cwd)
        if starter is None or not starter.ask(asked, control):
            keepers.execute(asked, control)
        control.close()
        self._lines[host] = line
        self._selector.register(line, selectors.EVENT_READ, host)

    def _starter(self, argv: list[str], cwd: str) -> Starter | None:
        found = self._starters.wanted(argv, self._env, cwd) if self._forks else None
        while found is not None and found.ready is None:
            select.select([found.sock], [], [], 60)
            self._starters.look()
        return found if found is not None and found.ready else None

    def _read(self, host: str) -> None:
        line = self._lines[host]
        for message in line.read():
            self._hear(host, message)
        if line.gone:
            if not (ends.read(str(self._folder / host)) or {}).get("over"):
                self._states[host]["failed"] = {"code": 137, "why": f"the keeper on {host} is lost"}
            self._selector.unregister(line)
            line.close()
            del self._lines[host]

    def _hear(self, host: str, message: Json) -> None:
        if "state" in message:
            self._states[host] = message["state"]

    def _print(self) -> None:
        for name, stream in (("out", sys.stdout), ("err", sys.stderr)):
            path = self._folder / name
            if path.exists():
                with os.fdopen(open_output(path, os.O_RDONLY), "rb") as f:
                    f.seek(self._printed[name])
                    data = f.read()
                self._printed[name] += len(data)
                stream.buffer.write(data)
                stream.flush()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m dq_client.ranks", description=__doc__)
    parser.add_argument("-n", type=int, default=1, help="ranks")
    parser.add_argument("--exec", action="store_true", help="without a starter")
    parser.add_argument("program", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    words = options.program[1:] if options.program[:1] == ["--"] else options.program
    if not words or options.n < 1:
        parser.error("a program and at least one rank are needed")
    with tempfile.TemporaryDirectory(prefix="dq-ranks-") as folder:
        job = Standalone(Path(folder), [words], forks=not options.exec)
        return job.run(["localhost"] * options.n, [0] * options.n)


if __name__ == "__main__":
    sys.exit(main())
