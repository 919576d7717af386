"""The runs of `dq verify`, as jobs of a private cluster under a temporary DQ_HOME."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from dq_client.base import environment
from dq_client.base import messages as m
from dq_client.base.connection import Connection, ask
from dq_client.base.errors import DQError
from dq_client.base.home import Home
from dq_client.base.states import ENDED
from dq_client.deploy import local, shutdown
from dq_client.deploy.cluster import local_cluster
from dq_client.show.feed.one_job import looks
from dq_client.show.job_output import last_errors, output_of
from dq_client.verify.records import Record

SPARE = 64  # processors beside those in use: those of ranks that have left become idle later
PATIENCE_S, SLOWER = 120.0, 30.0  # a resized run may take so much longer than a plain one
SAID_FROM_S, SAID_EVERY_S = 2.0, 20.0
CONFIG = """\
[scheduler]
resize = "drawn"
keep_decisions = 10000

[scheduler.drawn]
seed = {seed}
every = {every}
most = {most}
"""


@dataclass(frozen=True, slots=True)
class SeenResize:
    """A resize that was carried out, or given up for a reason.

    iteration: the first one on the new size, counted from 0
    """

    iteration: int
    before: int
    after: int
    refused: str = ""


@dataclass(slots=True)
class Run:
    """One run of the program and what came of it."""

    size: int
    job: dict[str, Any]
    output: str
    errors: list[str]
    record: Record
    resizes: list[SeenResize] = field(default_factory=list)

    @property
    def done(self) -> bool:
        """Whether the program has ended in order."""
        return bool(self.job["state"] == "done")

    @property
    def took_s(self) -> float:
        """Seconds from its start to its end."""
        return float(self.job["end_s"] - (self.job["start_s"] or self.job["end_s"]))


@dataclass(slots=True)
class Runs:
    """Clusters and jobs of one verification; `say` gets its progress, a line each."""

    argv: Sequence[str]
    say: Callable[[str], None]
    root: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="dq-verify-")))
    _connection: Connection | None = None
    _home: Home | None = None

    def plain(self, size: int) -> Run:
        """A run on `size` ranks that keeps its size."""
        self._up(size, "")
        return self._run(f"without resizes on {_ranks(size)}", "rigid", size, [])

    def resized(self, sizes: Sequence[int], seed: int, most: int, plain: Run) -> Run:
        """A run from the first of `sizes` on that is resized up to `most` times."""
        iterations = len(plain.record.iterations)
        every = max(1, (iterations - 1) // most)
        self.down()
        self._up(max(sizes) + SPARE, CONFIG.format(seed=seed, every=every, most=most))
        limit_s = PATIENCE_S + SLOWER * plain.took_s
        run = self._run("with resizes", "malleable", sizes[0], list(sizes), limit_s, iterations)
        run.resizes = resizes_of(run.job.pop("story"))
        return run

    def down(self) -> None:
        """End the cluster, if there is one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._home is not None:
            home, self._home = self._home, None
            shutdown.bring_down(home, force=True)

    def clear(self) -> None:
        """End everything and remove the folder; quiet, because an error may be on its way."""
        try:
            self.down()
        except DQError as e:
            self.say(f"the private cluster did not go down by itself: {e}")
        for pid in local.leftovers(Home(self.root / "plain")) + local.leftovers(
            Home(self.root / "resized")
        ):
            if psutil.pid_exists(pid):
                psutil.Process(pid).kill()
        shutil.rmtree(self.root, ignore_errors=True)

    def _up(self, processors: int, config: str) -> None:
        if self._connection is not None:
            return
        home = Home(self.root / ("resized" if config else "plain"))
        file = self.root / "config.toml"
        file.write_text(config or '[scheduler]\nresize = "none"\n')
        self._home = home
        local.bring_up(home, local_cluster(max(processors, SPARE)), ["--config", str(file)])
        self._connection = Connection.to(home)

    def _run(
        self,
        words: str,
        kind: str,
        size: int,
        sizes: list[int],
        limit_s: float | None = None,
        iterations: int = 0,
    ) -> Run:
        assert self._connection is not None, "the cluster is up"
        folder = self.root / f"{kind}-{size}"
        folder.mkdir()
        body = m.Submit(
            request=folder.name,
            name="verify",
            argv=list(self.argv),
            cwd=str(Path.cwd()),
            kind=kind,
            initial=size,
            sizes=m.Sizes(listed=[*sizes]),
            env={"DQ_VERIFY_DIR": str(folder), "DQ_WAIT_FOR_RANKS": "1"},
            inherited=environment.inherited(os.environ)[0],
            walltime_s=limit_s,
        )
        reply = self._connection.call(body)
        assert isinstance(reply, m.Submitted)
        job = self._follow(reply.job, words, iterations)
        if sizes:
            job["story"] = ask(self._connection, m.WhyQuery(reply.job))["story"]
        output = b"".join(output_of(self._connection, reply.job)).decode(errors="replace")
        errors = [] if job["state"] == "done" else last_errors(self._connection, reply.job)
        return Run(size, job, output, errors, Record(folder))

    def _follow(self, number: int, words: str, iterations: int) -> dict[str, Any]:
        """Until the job has ended; what takes long is told of."""
        assert self._connection is not None, "the cluster is up"
        next_s, pause_s = time.monotonic() + SAID_FROM_S, SAID_FROM_S
        for job in looks(self._connection, number, wait_s=1.0, pause_s=0.1):
            if job["state"] in ENDED:
                break
            if time.monotonic() >= next_s:
                pause_s = min(pause_s * 1.5, SAID_EVERY_S)
                next_s = time.monotonic() + pause_s
                points = f", iteration {job['remap_points']} of {iterations}" if iterations else ""
                self.say(f"{words}: {job['state']} on {_ranks(job['processors'])}{points}")
        found: dict[str, Any] = ask(self._connection, m.JobQuery(number))
        return found


def resizes_of(story: list[dict[str, Any]]) -> list[SeenResize]:
    """What became of the resizes that were drawn, from a job's story (`dq why --json`)."""
    found: list[SeenResize] = []
    drawn: dict[str, Any] | None = None
    for entry in story:
        if entry["code"] == "drawn_resize":
            drawn = entry["figures"]
        elif entry["code"] in ("resize_committed", "resize_aborted") and drawn is not None:
            refused = entry["figures"]["why"] if entry["code"] == "resize_aborted" else ""
            point, before, after = drawn["point"], drawn["size"], drawn["next_size"]
            found.append(SeenResize(point, before, after, refused))
            drawn = None
    return found


def _ranks(count: int) -> str:
    return f"{count} rank{'s' if count != 1 else ''}"
