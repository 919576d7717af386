"""`dq watch` and `dq top`: jobs followed as lines, or on the whole screen."""

from __future__ import annotations

import contextlib
import json
import os
import select
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from dq_client import messages as m
from dq_client.cli.output import SCHEMA, clock, note, say
from dq_client.cli.requests import JobId, ask, cluster_now, json_option, resolve, server
from dq_client.connection import Connection
from dq_client.errors import NotFound, UsageError
from dq_client.report.follow import Event, Follower
from dq_client.report.growth import ENDED, NOT_STARTED
from dq_client.report.live_view import is_drawable
from dq_client.report.screen import Screen, screen
from dq_client.report.text import shortened

if TYPE_CHECKING:
    from rich.live import Live

POLL_S = 0.3
JOBS_SHOWN = 60  # no terminal has room for more


@click.command()
@click.option("--job", "job_id", type=JobId(), metavar="ID", help="Follow this job alone.")
@click.option("--keep", is_flag=True, help="Go on when no job is left, until Ctrl-C.")
@json_option
def watch(job_id: int | None, keep: bool, as_json: bool) -> int:
    """Follow jobs: a line for each change of state and each new decision.

    Ends when no active job is left. With --job the job's story is told from its beginning, and the
    exit code is 1 if it failed. With --json each line is one JSON object.
    """
    if job_id is not None and keep:
        raise UsageError("--keep is for all jobs: a job followed alone ends the watch by its end")
    with server() as connection:
        only = None if job_id is None else resolve(connection, job_id)
        follower = Follower(only)
        show: Callable[[list[Event]], None] = _print_json if as_json else _print_lines
        if as_json or not is_drawable(sys.stdout):
            return _follow(connection, follower, show, lambda: None, keep=keep)
        with _live(whole_screen=False) as live:
            from dq_client.report.terminal import draw_bars

            def bars() -> None:
                live.update(draw_bars(look(connection, only), live.console.height), refresh=True)

            return _follow(connection, follower, _above(live), bars, keep=keep)


def _follow(
    connection: Connection,
    follower: Follower,
    show: Callable[[list[Event]], None],
    redraw: Callable[[], None],
    *,
    keep: bool,
) -> int:
    """Poll and show events until no job is left; returns the exit code."""
    reported = False
    while True:
        views, events = poll(connection, follower)
        show(events)
        reported = reported or bool(events)
        redraw()
        if not keep and all(view["state"] in ENDED for view in views):
            break
        time.sleep(POLL_S)
    if not reported:
        note("no job is active: dq jobs lists those that have ended")
    failed = follower.only is not None and any(view["state"] != "done" for view in views)
    return 1 if failed else 0


def poll(connection: Connection, follower: Follower) -> tuple[list[dict[str, Any]], list[Event]]:
    """Poll the server once: the jobs followed, and the events since the last poll."""
    if follower.only is not None:
        views, last_id = [ask(connection, m.JobQuery(follower.only))], follower.only
    else:
        last_id = _last_id(connection)
        views = ask(connection, m.JobsQuery(active_only=True))
        for number in follower.missing(views, last_id):
            with contextlib.suppress(NotFound):
                views.append(ask(connection, m.JobQuery(number)))
    stories = {
        view["id"]: ask(connection, m.WhyQuery(view["id"]))["story"]
        for view in views
        if follower.changed(view)
    }
    return views, follower.take(views, stories, last_id, cluster_now(connection))


def _last_id(connection: Connection) -> int:
    try:
        return int(ask(connection, m.JobQuery(0))["id"])
    except NotFound:
        return 0


def line(event: Event) -> str:
    """An event as one line of text."""
    reason = f"  {event.reason}" if event.reason else ""
    name = shortened(event.name, 20)
    return f"{clock(event.time_s)}  job {event.job} {name}  {event.what:9}{reason}".rstrip()


def _print_lines(events: list[Event]) -> None:
    for event in events:
        say(line(event))


def _print_json(events: list[Event]) -> None:
    for event in events:
        say(json.dumps({"schema": SCHEMA, **event.plain()}))


def _above(live: Live) -> Callable[[list[Event]], None]:
    """Print events above the bars: rich moves the bars down."""

    def show(events: list[Event]) -> None:
        for event in events:
            live.console.print(line(event), markup=False, highlight=False, soft_wrap=True)

    return show


@click.command()
def top() -> None:
    """Follow nodes and jobs on the whole screen; q or Ctrl-C ends."""
    if not is_drawable(sys.stdout):
        raise UsageError("dq top needs a terminal to draw on: use dq watch")
    from dq_client.report.terminal import draw_screen

    with (
        server() as connection,
        contextlib.suppress(KeyboardInterrupt),
        _live(whole_screen=True) as live,
        _keys() as pressed,
    ):
        while True:
            view = look(connection, None)
            size = live.console.size
            live.update(draw_screen(view, size.width, size.height), refresh=True)
            if "q" in pressed(POLL_S).lower():
                return


def look(connection: Connection, only: int | None) -> Screen:
    """The present contents of the screen."""
    status = ask(connection, m.StatusQuery())
    nodes = ask(connection, m.NodesQuery())
    active = ask(connection, m.JobsQuery(active_only=True))
    ids = [job["id"] for job in active if only in (None, job["id"])]
    jobs = [ask(connection, m.JobQuery(number)) for number in ids[:JOBS_SHOWN]]
    waits = {}
    for job in jobs:
        if job["state"] in NOT_STARTED:
            reasons = ask(connection, m.WhyQuery(job["id"]))["now"]
            waits[job["id"]] = reasons[0]["text"] if reasons else ""
    return screen(status, nodes, jobs, waits, status["now_s"])


@contextmanager
def _live(*, whole_screen: bool) -> Iterator[Live]:
    """A display on stdout without a refresh thread; the terminal is restored in any case."""
    from rich.console import Console
    from rich.live import Live

    console = Console(file=sys.stdout)
    with Live(console=console, screen=whole_screen, auto_refresh=False) as live:
        yield live


@contextmanager
def _keys() -> Iterator[Callable[[float], str]]:
    """A function that waits up to some seconds for keys and returns those pressed, without echo."""
    if not sys.stdin.isatty():
        yield _sleep
        return
    import termios
    import tty

    number = sys.stdin.fileno()
    before = termios.tcgetattr(number)

    def pressed(wait_s: float) -> str:
        ready, _, _ = select.select([number], [], [], wait_s)
        if not ready:
            return ""
        return (
            os.read(number, 64).decode(errors="replace") or "q"
        )  # end of file: end as if q was pressed

    tty.setcbreak(number)
    try:
        yield pressed
    finally:
        termios.tcsetattr(number, termios.TCSADRAIN, before)


def _sleep(wait_s: float) -> str:
    time.sleep(wait_s)
    return ""
