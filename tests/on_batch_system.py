"""A cluster whose nodes a batch system is asked for, as a test drives it."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from harness.commands import HANG_S
from harness.live import Live

Json = dict[str, Any]


def which(name: str) -> str | None:
    """The path of a program, also of those for root only."""
    return shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")


class MiniSystem:
    """A batch system on this machine. `processes`: its daemons; `log` in `root`: what they say."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.processes: list[subprocess.Popen[bytes]] = []

    def environment(self) -> dict[str, str]:
        """For its commands."""
        raise NotImplementedError

    def _daemon(self, name: str, *options: str, **more: str) -> subprocess.Popen[bytes]:
        program = which(name)
        assert program is not None
        with (self.root / "log" / f"{name}.out").open("ab") as out:
            process = subprocess.Popen(
                [program, *options], env=self.environment() | more, stdin=subprocess.DEVNULL,
                stdout=out, stderr=out, cwd="/",
            )  # fmt: skip
        self.processes.append(process)
        return process

    def _last_lines(self, paths: Iterable[Path]) -> str:
        lines = [x for p in sorted(paths) for x in p.read_text(errors="replace").splitlines()[-5:]]
        return "\n".join(lines)

    def _end_daemons(self) -> None:
        for process in reversed(self.processes):
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
        for process in self.processes:
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(15)

    def run(self, *words: object, check: bool = True) -> str:
        """Standard output of one of its commands."""
        done = subprocess.run(
            [str(w) for w in words], env=self.environment(), capture_output=True, text=True,
            timeout=HANG_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0 or not check, f"{words}: {done.stderr}{done.stdout}"
        return done.stdout.strip()


class OnBatchSystem(Live):
    """A cluster of at most four nodes that a batch system is asked for."""

    def up_with(self, pool: str = "") -> None:
        """`dq up` with this pool of at most four nodes."""
        raise NotImplementedError

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

    def until(self, what: Callable[[], object], timeout_s: float = HANG_S) -> None:
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

    def ended_well(self, job: int, timeout_s: float = HANG_S) -> None:
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


def killed_while_it_asks(
    on: OnBatchSystem, fake: Fake, command: str, held: Callable[[], list[int]], kills: int
) -> None:
    """The server, so many times; the system takes its time before it has a request, and after."""
    dice = random.Random(7)
    fake.does(
        f'sleep .0$((RANDOM % 10)); {command} "$@"; code=$?; sleep .$((RANDOM % 3)); exit $code'
    )
    # Idle nodes go at once, so that each job that follows one asks anew.
    on.up_with("idle_s = 0\ngrow = false\nretry_s = 1\nretry_max_s = 1")
    jobs: list[int] = []
    for _ in range(kills):
        if len(jobs) > 2:
            on.dq("kill", jobs.pop(0))
            # Else the next job has its node.
            on.until(lambda: len(on.pool()["tickets"]) <= len(jobs), 120)
        jobs.append(on.submit("-n", 1, "--kind", "rigid", "--", "sleep", 600))
        time.sleep(dice.uniform(0.0, 0.5))
        os.kill(on.home.server()["pid"], signal.SIGKILL)
        on.dq("server", "start", "--detach")
    on.until(lambda: on.agrees_with(held()), 120)
    time.sleep(3)
    assert on.agrees_with(held()), "and it stays so"
