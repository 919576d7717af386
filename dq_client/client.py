"""DQ from Python: start a cluster or find one, submit jobs, follow them (docs/python.md).

    from dq_client import client as dq

    with dq.cluster(local=4) as c:
        job = c.submit(["python", "app.py"], n=1, sizes=[1, 2, 4])
        job.wait()
        print(job.state, job.sizes)

Jobs, nodes and decisions are plain data, as `dq ... --json` prints them. Errors are those of the
command line, with the same text (base/errors.py): UsageError, NoServer, Refused, NotFound,
Timeout, all of them DQError.

Of one cluster, one call is made at a time; several threads may share it.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import click

from dq_client.base import messages as m
from dq_client.base.connection import Connection
from dq_client.base.errors import NoServer, NotFound, Timeout, UsageError
from dq_client.base.home import Home
from dq_client.base.states import ENDED
from dq_client.deploy import local as bringup
from dq_client.deploy import shutdown
from dq_client.show.feed.cursor import FeedCursor
from dq_client.show.feed.one_job import WAIT_S, looks
from dq_client.show.views import FollowedJob, JobInfo, JobRow, NodeRow, Stay, Why

if TYPE_CHECKING:
    from dq_client.executor.executor import Executor

Plain = dict[str, Any]
FOLLOW_S = 5.0  # of one question for what has changed
ANSWER_WITHIN_S = 15.0
PATIENCE_S = 0.5  # of one question, where somebody does not want to wait for ever


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a job: a decision of the scheduler, or the job's end.

    time_s      seconds since 1970
    what        submit, start, expand, continue, committed, shrink, done, failed ...
    processors  after it; None where it changes nothing
    text        why, for people
    figures     what `text` is made of
    """

    time_s: float
    job: int
    what: str
    processors: int | None
    text: str
    figures: Plain


def cluster(
    local: int | None = None,
    *,
    file: str | os.PathLike[str] | None = None,
    config: str | os.PathLike[str] | None = None,
    home: str | os.PathLike[str] | None = None,
) -> Cluster:
    """Start a cluster on this machine, as `dq up`; leaving its `with` block ends it and its jobs.

    local: processors; default: all cores of the machine. file: a cluster file instead, of emulated
    nodes. config: the scheduler's configuration file. home: where it keeps its state; default: a
    folder of its own, which is removed in the end.

    Raises:
        UsageError: for an invalid file; for hosts or a batch system, which `dq up` starts
                (then `connect`).
    """
    from dq_client.cli.cluster_commands import cluster_of
    from dq_client.deploy.mechanism import require_fit

    wanted = cluster_of(None if file is None else os.fspath(file), local)
    if wanted.engine == "hosts" or wanted.batch:
        raise UsageError(f"{wanted.name}: start it with dq up --cluster, then use dq.connect()")
    require_fit(wanted)
    options = [] if config is None else ["--config", str(Path(config).absolute())]
    own = tempfile.TemporaryDirectory(prefix="dq-cluster-") if home is None else None
    root = Path(own.name) / "home" if own is not None else Path(os.fspath(home or ""))
    place = Home(root.expanduser().absolute())
    try:
        bringup.bring_up(place, wanted, options)
    except BaseException:
        if own is not None:
            own.cleanup()
        raise
    return Cluster(place, started=True, folder=own)


def connect(home: str | os.PathLike[str] | None = None) -> Cluster:
    """Return the cluster that runs in `home`; default: $DQ_HOME, as for the command line.

    Raises:
        NoServer: if no server runs there.
    """
    place = Home.default() if home is None else Home(Path(home).expanduser().absolute())
    return Cluster(place)


def executor(
    least: int,
    most: int,
    *,
    cluster: Cluster | None = None,
    initializer: Callable[..., Any] | None = None,
    initargs: tuple[Any, ...] = (),
    idle_s: float = 5.0,
    **options: Any,
) -> Executor:
    """Return an executor of `concurrent.futures` with `least` to `most` workers (docs/workers.md).

    cluster: default: that of `connect()`. initializer, initargs: called once in each worker's
    process. idle_s: a worker that had no task for so long ends, if `least` is 0. options: those of
    `Cluster.submit` for the jobs of workers (`priority`, `memory`, `gpus`, `env`).

    Raises:
        UsageError, Refused: invalid options; the server refuses the job of workers.
    """
    from dq_client.executor.executor import Executor

    return Executor(
        cluster or connect(), least, most, initializer=initializer, initargs=initargs,
        idle_s=idle_s, owned=cluster is None, options=options,
    )  # fmt: skip


class Cluster:
    """A running cluster; made by `cluster` and `connect`.

    home      where it keeps its state (DQ_HOME)
    """

    def __init__(
        self,
        home: Home,
        *,
        started: bool = False,
        folder: tempfile.TemporaryDirectory[str] | None = None,
    ) -> None:
        self.home = home.root
        self._home, self._started, self._folder = home, started, folder
        self._lock = threading.Lock()
        self._connection: Connection | None = Connection.to(home)

    # --- jobs -----------------------------------------------------------------------------------

    def submit(
        self,
        program: str | Sequence[str | os.PathLike[str]],
        *,
        n: int | None = None,
        sizes: Sequence[int | str] | str | None = None,
        env: Mapping[str, str] | None = None,
        after: Sequence[int | Job] = (),
        **options: Any,
    ) -> Job:
        """Submit a program as a job, as `dq submit` does.

        program: its words, or one line of them. n: processors to start on. sizes: the legal ones,
        or grids ("2x2"). env: variables beside those of this process. after: jobs that must have
        ended well before. options: any option of `dq submit` under its name (`walltime="10m"`,
        `name="run"`, `kind="rigid"`, `max=8`, `hold=True`, `array="0-9"`); a number of seconds
        where an option takes a time.

        Raises:
            UsageError: for an unknown or invalid option.
            Refused: if the server refuses the job, or the program cannot run.
        """
        from dq_client.cli import program as programs
        from dq_client.cli.submit import message_of

        words = (
            shlex.split(program)
            if isinstance(program, str)
            else [os.fspath(word) for word in program]
        )
        named = {"n": n, "sizes": sizes, "after": [int(job) for job in after] or None, **options}
        pairs = [f"{name}={value}" for name, value in (env or {}).items()]
        given = [*_options(named), *(word for pair in pairs for word in ("--env", pair))]
        try:
            body, _ = message_of([*given, "--", *words])
        except click.ClickException as e:
            raise UsageError(e.format_message()) from e
        except click.exceptions.Exit:  # --help
            raise UsageError("these options submit nothing") from None
        programs.check(body, self._home)
        reply = self._call(body, 10.0)
        assert isinstance(reply, m.Submitted)
        return Job(self, reply.job, [Job(self, number) for number in reply.jobs])

    def job(self, number: int) -> Job:
        """A job by its id. Raises NotFound if there is none."""
        return Job(self, int(self._data(m.JobQuery(number))["id"]))

    def jobs(self, *, active_only: bool = False) -> list[JobRow]:
        """All jobs that the server remembers, as in `dq jobs --json`."""
        return list(self._data(m.JobsQuery(active_only=active_only)))

    def nodes(self) -> list[NodeRow]:
        """All nodes, as in `dq nodes --json`."""
        return list(self._data(m.NodesQuery()))

    def follow(self) -> Iterator[tuple[list[FollowedJob], list[Event]]]:
        """Yield changes without end: rows of jobs, and events; at least one item every few seconds.

        The first has the jobs that there are, and the latest events. It waits at the server and
        polls nothing.
        """
        with closing(Connection.to(self._home)) as connection:
            place = FeedCursor()
            while True:
                told = place.look(connection, wait_s=FOLLOW_S, within_s=ANSWER_WITHIN_S)
                yield told["jobs"], [_event(found) for found in told["decisions"]]

    # --- the cluster itself ---------------------------------------------------------------------

    def down(self, *, force: bool = False) -> None:
        """End the cluster. Refused while jobs run, unless `force`, which kills them."""
        shutdown.bring_down(self._home, force=force)
        self._started = False
        self.close()

    def close(self) -> None:
        """Hang up; the cluster goes on, but for one of `cluster(...)`, which ends."""
        with self._lock:
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        if self._started:
            self._started = False
            shutdown.bring_down(self._home, force=True)
        if self._folder is not None:
            self._folder.cleanup()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Cluster at {self.home}>"

    def _repr_html_(self) -> str | None:
        """In a notebook: the report of all jobs."""
        return _report(self._home, None)

    def _call(self, body: m.RequestBody, within_s: float = 5.0) -> m.ReplyBody:
        with self._lock:
            if self._connection is None:
                raise UsageError("this cluster was closed: use dq.connect() for another connection")
            return self._connection.call(body, within_s)

    def _data(self, body: m.RequestBody) -> Any:
        reply = self._call(body)
        assert isinstance(reply, m.Data)
        return reply.data


@dataclass(frozen=True)
class Job:
    """A job of a cluster, or an array of them. `members`: the jobs of an array."""

    cluster: Cluster = field(repr=False)
    id: int
    members: list[Job] = field(default_factory=list, repr=False)

    def __int__(self) -> int:
        return self.id

    def _repr_html_(self) -> str | None:
        """In a notebook: the job's report, as it is now."""
        return _report(self.cluster._home, self.id)

    @property
    def info(self) -> JobInfo:
        """All that is known of it now, as in `dq job ID --json`."""
        found: JobInfo = self.cluster._data(m.JobQuery(self.id))
        return found

    @property
    def state(self) -> str:
        """queued, held, waiting, starting, running ... or, at its end, done, failed, killed."""
        return str(self.info["state"])

    @property
    def sizes(self) -> list[Stay]:
        """Sizes of the job so far, in order: processors, start, iteration time and reason."""
        return list(self.info["sizes"])

    @property
    def reason(self) -> str | None:
        """Why it is as it is, or why it ended."""
        found = self.info["reason"]
        return None if found is None else str(found)

    def why(self) -> Why:
        """The decisions about it, as in `dq why ID --json`."""
        found: Why = self.cluster._data(m.WhyQuery(self.id))
        return found

    def wait(self, timeout_s: float | None = None) -> str:
        """Wait for the job's end and return its last state.

        Raises:
            Timeout: if the job has not ended by then.
        """
        until_s = None if timeout_s is None else time.monotonic() + timeout_s
        wait_s = WAIT_S if timeout_s is None else PATIENCE_S
        with closing(Connection.to(self.cluster._home)) as connection:
            for view in looks(connection, self.id, wait_s=wait_s):
                state = str(view["state"])
                if state in ENDED:
                    break
                if until_s is not None and time.monotonic() > until_s:
                    raise Timeout(f"job {self.id} has not ended in {timeout_s:g} s; it is {state}")
        return state

    def kill(self) -> None:
        """Kill it and all its processes."""
        self.cluster._call(m.Kill(self.id))

    def hold(self) -> None:
        """Keep it from starting, while it is in the queue."""
        self.cluster._call(m.Hold(self.id))

    def release(self) -> None:
        """Let it start after a `hold`."""
        self.cluster._call(m.Release(self.id))

    def edit(self, *, walltime: float | str | None = None, priority: int | None = None) -> None:
        """Change walltime (seconds, or "2h") or priority of a job that has not started."""
        from dq_client.base.values import parse_time

        walltime_s = None if walltime is None else parse_time("walltime", str(walltime))
        self.cluster._call(m.Edit(self.id, walltime_s=walltime_s, priority=priority))

    def resize(self, size: int | str, *, hold: bool = False) -> None:
        """Bring it to a size, or a grid ("2x4"), at its next remap point; `hold` keeps it there."""
        from dq_client.base.values import parse_size

        count, rows = parse_size(str(size))
        self.cluster._call(m.Resize(job=self.id, size=count, rows=rows, hold=hold))

    def release_size(self) -> None:
        """Let the scheduler choose its size again."""
        self.cluster._call(m.ReleaseSize(self.id))

    def output(self, stream: str = "out") -> str:
        """Return the output of the job so far; stream: "out" or "err"."""
        from dq_client.show.job_output import output_of

        with closing(Connection.to(self.cluster._home)) as connection:
            return b"".join(output_of(connection, self.id, stream)).decode(errors="replace")

    async def events(self) -> AsyncIterator[Event]:
        """Yield the job's events, from its submission (the cluster's last 2,000) to its end."""
        follow = self.cluster.follow()
        ended = False
        try:
            while True:
                rows, found = await asyncio.to_thread(next, follow)
                ended |= any(row["id"] == self.id and row["state"] in ENDED for row in rows)
                for event in found:
                    if event.job == self.id:
                        yield event
                        if event.what in ENDED:
                            return
                if ended and not found:
                    return
        finally:
            await asyncio.to_thread(follow.close)  # type: ignore[attr-defined]


def _report(home: Home, job: int | None) -> str | None:
    """A report to be shown inside a page; None, for which a notebook has text, without a server."""
    from dq_client.show.report.collect import collect
    from dq_client.show.report.data import checked
    from dq_client.show.report.page import frame

    try:
        with closing(Connection.to(home)) as connection:
            return frame(checked(collect(connection, job)))
    except (NoServer, NotFound):  # an array has no report of its own
        return None


def _event(row: Plain) -> Event:
    return Event(
        row["time_s"], row["job"], row["what"], row["processors"], row["text"], row["figures"]
    )


def _options(named: Mapping[str, Any]) -> list[str]:
    """Keywords as words of the command line."""
    words: list[str] = []
    for name, value in named.items():
        option = "-n" if name == "n" else f"--{name.replace('_', '-')}"
        if value is None or value is False:
            continue
        if value is True:
            words.append(option)
        elif isinstance(value, list | tuple | range):
            words += [option, ",".join(map(str, value))]
        else:
            words += [option, str(value)]
    return words
