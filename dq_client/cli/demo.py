"""`dq demo`: a cluster, a matmul on its smallest size, its growth, its sweet spot, a report."""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import psutil

from dq_client.base import environment
from dq_client.base import messages as m
from dq_client.base.connection import Connection, ask
from dq_client.base.errors import DQError, UsageError
from dq_client.base.home import Home
from dq_client.base.states import ENDED
from dq_client.cli.job_views import sizes_table
from dq_client.cli.requests import json_option
from dq_client.deploy import local, shutdown
from dq_client.deploy.cluster import ClusterShape, local_cluster, usable_cores
from dq_client.examples import app_command
from dq_client.show.feed.one_job import looks
from dq_client.show.job_output import output_of
from dq_client.show.output import note, print_json, say
from dq_client.show.report.collect import collect
from dq_client.show.report.live_view import GrowthView
from dq_client.show.report.page import write_report
from dq_client.show.report.text import processors

SIZES_BEYOND_CORES = 3  # somewhere there the sweet spot of a matmul has been passed
ITERATIONS_PER_SIZE = 8
QUIET_S = 20.0  # without a new iteration: say so, and again after twice as long


PRODUCT = {True: "agrees with numpy", False: "WRONG", None: "not checked: the job ended before"}


def demo_sizes(cores: int) -> list[int]:
    """Sizes of the thesis's chain, some beyond the cores: past them nothing can be gained."""
    sizes: list[int] = []
    k = 1
    while len([s for s in sizes if s > cores]) < SIZES_BEYOND_CORES:
        sizes += [k * k, k * (k + 1)]
        k += 1
    beyond = [s for s in sizes if s > cores][:SIZES_BEYOND_CORES]
    return [s for s in sizes if s <= cores] + beyond


class Pace:
    """Notices that nothing has come for a while, so that a slow machine is not taken for a hang."""

    def __init__(self, iterations: int) -> None:
        self._iterations = iterations
        self._seen: tuple[str, int] = ("", -1)  # state and iterations, when they last changed
        self._since_s = 0.0
        self._next_s = QUIET_S

    def words(self, job: dict[str, Any], now_s: float) -> str | None:
        """What to say, if anything; `now_s` is monotonic."""
        seen = (job["state"], job["remap_points"])
        if seen != self._seen:
            self._seen, self._since_s, self._next_s = seen, now_s, QUIET_S
            return None
        quiet_s = now_s - self._since_s
        if quiet_s < self._next_s:
            return None
        self._next_s *= 2
        return (
            f"nothing new for {quiet_s:.0f} s: the job is {seen[0]}, {seen[1]} of"
            f" {self._iterations} iterations done, load {os.getloadavg()[0]:.1f} on"
            f" {usable_cores()} cores; a smaller --n is faster, Ctrl-C stops"
        )


@dataclass(slots=True)
class Demo:
    """One run and what came of it."""

    home: Home
    cluster: ClusterShape
    argv: list[str]
    environment: dict[str, str]
    sizes: list[int]
    report: Path
    iterations: int
    job: dict[str, Any] = field(default_factory=dict)
    output: str = ""

    def run(self) -> None:
        """Cluster up, job in, growth shown, report written; the cluster is down again after."""
        note(f"cluster: {self.cluster.processors} processors on this machine ({self.home.root})")
        local.bring_up(self.home, self.cluster, [])
        with closing(Connection.to(self.home)) as connection:
            job_id = self._submit(connection)
            self._follow(connection, job_id)
            self.output = b"".join(output_of(connection, job_id)).decode(errors="replace")
            write_report(self.report, collect(connection, job_id))

    def _submit(self, connection: Connection) -> int:
        note(f"job: {' '.join(self.argv[1:])} on sizes {' '.join(map(str, self.sizes))}")
        body = m.Submit(
            request=f"demo-{os.getpid()}",
            name="matmul",
            argv=self.argv,
            cwd=str(Path.cwd()),
            sizes=m.Sizes(listed=[*self.sizes]),
            env=self.environment,
            inherited=environment.inherited(os.environ)[0],
        )
        reply = connection.call(body)
        assert isinstance(reply, m.Submitted)
        return reply.job

    def _follow(self, connection: Connection, job_id: int) -> None:
        pace = Pace(self.iterations)
        with GrowthView() as view:
            # No limit: how long an iteration takes is the machine's and --n's business.
            for job in looks(connection, job_id, wait_s=1.0, pause_s=0.1):
                view.update(job, self.iterations)
                if words := pace.words(job, time.monotonic()):
                    note(words)
                if job["state"] in ENDED:
                    break
            self.job = ask(connection, m.JobQuery(job_id))

    @property
    def verdict(self) -> bool | None:
        """Whether the application found its own product right; None if it did not get so far."""
        for line in self.output.splitlines():
            if line.startswith('{"check"'):
                return bool(json.loads(line)["ok"])
        return None

    @property
    def result_ok(self) -> bool:
        """Whether the product is known to be right."""
        return self.verdict is True


def clear(home: Home) -> int:
    """Stop the cluster and count its processes that are still there; none should be."""
    try:
        shutdown.bring_down(home, force=True)
    except DQError as e:
        note(f"the cluster did not go down by itself: {e}")
    deadline = time.monotonic() + 3.0
    while (left := local.leftovers(home)) and time.monotonic() < deadline:
        time.sleep(0.05)
    for pid in left:
        note(f"left over, killed now: {pid}")
        if psutil.pid_exists(pid):
            psutil.Process(pid).kill()
    shutil.rmtree(home.root, ignore_errors=True)
    return len(left)


@click.command()
@click.option("--n", "n", type=click.IntRange(min=64), default=2000, help="Rows of the matrices.")
@click.option(
    "-o", "--output", "report", default="report.html", show_default=True,
    type=click.Path(dir_okay=False, path_type=Path), help="Where the report goes.",
)  # fmt: skip
@json_option
def demo(n: int, report: Path, as_json: bool) -> int:
    """Start a cluster, let a matmul find its sweet spot, check its product, write a report.

    Everything happens under a temporary DQ_HOME; your own cluster, if any, is not touched.
    """
    if not report.absolute().parent.is_dir():
        raise UsageError(f"{report}: no such folder to write the report to")
    sizes = demo_sizes(usable_cores())
    iterations = ITERATIONS_PER_SIZE * len(sizes) + 10
    arguments = ["--n", str(n), "--iterations", str(iterations), "--check"]
    argv, environment = app_command("matmul", arguments)
    home = Home(Path(tempfile.mkdtemp(prefix="dq-demo-")))
    cluster = local_cluster(sizes[-1])
    run = Demo(home, cluster, argv, environment, sizes, report, iterations)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    orphans = 0
    try:
        run.run()
    finally:
        orphans = clear(home)
    return _outcome(run, orphans, as_json=as_json)


def _outcome(run: Demo, orphans: int, *, as_json: bool) -> int:
    job = run.job
    ok = job["state"] == "done" and run.result_ok and orphans == 0
    if as_json:
        print_json(ok=ok, job=job, result_ok=run.result_ok, orphans=orphans, report=str(run.report))
        return 0 if ok else 1
    say(sizes_table(job["sizes"]))
    spot = job["sweet_spot"]
    grew = "every size gained" if len(job["sizes"]) > 1 else "no resize was done"
    say()
    say(f"sweet spot:   {processors(spot) if spot else f'not reached: {grew}'}")
    say(f"product:      {PRODUCT[run.verdict]}")
    say(f"left behind:  {orphans} processes")
    say(f"report:       {run.report}")
    if job["state"] != "done":
        say(f"the job {job['state']}: {job['reason']}")
    return 0 if ok else 1
