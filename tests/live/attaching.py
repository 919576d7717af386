"""Programs that mpiexec starts beside a cluster and that attach themselves, for tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil

from dq_client.deploy.cluster import ClusterShape
from dq_client.node.mpiexec.command import find_mpiexec
from harness.bench import until
from harness.commands import ROOT, default_interrupts
from harness.live import ENDED
from tests.live.own_ranks import STAYING, OwnRanks

MARK = "DQ_TEST_ATTACH"


class Started:
    """A program under mpiexec, and what its terminal shows."""

    def __init__(self, folder: Path, ranks: int, words: list[str], env: dict[str, str]) -> None:
        self.folder = folder
        folder.mkdir()
        self.mark = str(folder)
        {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "", MARK: self.mark}
        with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
            self.process = subprocess.Popen(
                [find_mpiexec(), "-n", str(ranks), sys.executable, *words],
                env={
                    **os.environ,
                    "PYTHONPATH": str(ROOT),
                    "PYTHONUNBUFFERED": "",
                    MARK: self.mark,
                    **env,
                },
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=folder,
                start_new_session=True,
                preexec_fn=default_interrupts,
            )

    @property
    def out(self) -> str:
        return (self.folder / "out").read_text()

    @property
    def err(self) -> str:
        return (self.folder / "err").read_text()

    def said(self) -> list[str]:
        """The library's notes."""
        return [line for line in self.err.splitlines() if line.startswith("dq: ")]

    def code(self, timeout_s: float = 60.0) -> int:
        """Wait for the end; mpiexec's exit code."""
        return self.process.wait(timeout_s)

    def left(self) -> list[list[str]]:
        """Processes of it, mpiexec, proxies and ranks, wherever they were started."""
        found = []
        for process in psutil.process_iter():
            try:
                zombie = process.status() == psutil.STATUS_ZOMBIE
                if not zombie and process.environ().get(MARK) == self.mark:
                    found.append(process.cmdline())
            except psutil.Error:
                continue
        return found


class Beside(OwnRanks):
    """A cluster, and programs that are started beside it."""

    def __init__(self, root: Path, cluster: ClusterShape) -> None:
        super().__init__(root, cluster)
        self.root, self.count = root, 0
        self.started: Started | None = None

    def start(
        self, ranks: int, *words: object, attach: str | None = "1", home: Path | None = None
    ) -> Started:
        """mpiexec -n RANKS python WORDS."""
        self.count += 1
        env = {"DQ_HOME": str(home or self.home.root)}
        if attach is not None:
            env["DQ_ATTACH"] = attach
        folder = self.root / f"started-{self.count}"
        self.started = Started(folder, ranks, [*map(str, words)], env)
        return self.started

    def attached(self, ranks: int, *words: object, attach: str = "sizes=1,2,3,4") -> int:
        """Start a program, STAYING if none is named; the job that it has become."""
        self.stop.unlink(missing_ok=True)
        program = words or (STAYING, self.stop)
        before = len(self.states())
        started = self.start(ranks, *program, attach=attach)
        until(lambda: bool(started.said()), f"it says nothing: {started.err}")
        assert "attached as job" in started.said()[0], started.err
        job = max(self.states())
        assert len(self.states()) == before + 1
        return job

    def lines(self, job: int) -> list[str]:
        assert self.started is not None
        # mpiexec may tear the lines of ranks that write at once; DQ does not.
        shown = self.started.out.replace("here ", "\nhere ").splitlines()
        return [*shown, *super().lines(job)]

    def over(self, job: int) -> Any:
        """How the job ended; nothing of it is left, be it the cluster's or mpiexec's."""
        view = self.ended(job)
        assert self.started is not None
        self.started.code()
        until(lambda: not self.started or not self.started.left(), f"left: {self.started.left()}")
        self.assert_clear()
        assert view["state"] in ENDED
        return view

    def interrupt(self, number: int = signal.SIGINT) -> None:
        """A signal to mpiexec."""
        assert self.started is not None
        self.started.process.send_signal(number)
