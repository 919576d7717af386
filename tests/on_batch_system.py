"""A cluster whose nodes a batch system is asked for, as a test drives it."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.live import Live

Json = dict[str, Any]


class OnBatchSystem(Live):
    """A cluster of at most four nodes that a batch system is asked for."""

    def nodes(self) -> dict[str, str]:
        """Names and states."""
        found = json.loads(self.dq("nodes", "--json"))["nodes"]
        return {n["name"]: n["state"] for n in found}

    def pool(self) -> Json:
        """`dq pool --json`."""
        found: Json = json.loads(self.dq("pool", "--json"))["pool"]
        return found

    def ticket_of(self, node: str) -> int:
        """The ticket that a node of now was asked for with."""
        (found,) = {t["ticket"] for t in self.pool()["tickets"] if t["node"] == node}
        return int(found)

    def until(self, what: Callable[[], object], timeout_s: float = 60.0) -> None:
        """Wait."""
        until_s = time.monotonic() + timeout_s
        while not what():
            assert time.monotonic() < until_s, f"nodes {self.nodes()}, pool {self.pool()}"
            time.sleep(0.1)

    def why(self, job: int) -> str:
        """`dq why JOB --json`: why it is as it is now."""
        return json.dumps(json.loads(self.dq("why", job, "--json"))["now"])

    def sizes(self, job: int) -> list[int]:
        """Processors of a job, one after the other."""
        return [stay["processors"] for stay in self.job(job)["sizes"]]

    def ended_well(self, job: int, timeout_s: float = 90) -> None:
        """Wait for its end; its product must be right."""
        view = self.wait_end(job, timeout_s)
        assert view["state"] == "done", view["reason"]
        # Not by `dq logs`: its node may have been given back.
        assert json.loads((self.home.job(job) / "out").read_text().splitlines()[-1])["ok"]

    def agrees_with(self, held: list[int]) -> bool:
        """Whether these holders' tickets are all of the pool's, each with a node of its own."""
        tickets = self.pool()["tickets"]
        nodes = [t["node"] for t in tickets]
        return (
            sorted(held) == sorted(t["ticket"] for t in tickets)
            and all(t["state"] == "up" for t in tickets)
            and len(set(nodes)) == len(nodes)
            and sorted(n for n, s in self.nodes().items() if s == "up") == sorted(nodes)
        )

    def journal(self) -> list[tuple[float, str, Json]]:
        """Events so far: time, type, body."""
        with sqlite3.connect(f"file:{self.home.journal}?mode=ro", uri=True) as connection:
            rows = connection.execute("SELECT time, type, body FROM events ORDER BY seq").fetchall()
        return [(t, kind, json.loads(body)) for t, kind, body in rows]


class Fake:
    """A command in front of the system's own."""

    def __init__(self, on: Live, folder: Path, name: str) -> None:
        self.folder, self.file = folder, folder / name
        on.env["PATH"] = f"{folder}:{on.env['PATH']}"

    def does(self, lines: str) -> None:
        """What it does from now on; in its lines the system's own command has its name."""
        draft = self.file.with_suffix(".new")
        draft.write_text(f"#!/bin/bash\nPATH=${{PATH#{self.folder}:}}\n{lines}\n")
        draft.chmod(0o755)
        draft.replace(self.file)

    def gone(self) -> None:
        """The system's own command is there again."""
        self.file.unlink()
