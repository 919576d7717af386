"""`dq watch`: jobs followed as lines."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from dq_client.base import messages as m
from dq_client.base.connection import Connection, ask
from dq_client.base.errors import UsageError
from dq_client.cli.requests import JobId, json_option, resolve, server
from dq_client.show.feed.cursor import FeedCursor
from dq_client.show.output import SCHEMA, clock, note, say
from dq_client.show.report.live_view import is_drawable
from dq_client.show.report.text import shortened
from dq_client.show.report.watch_events import WatchEvent, WatchEvents

if TYPE_CHECKING:
    from rich.live import Live

WAIT_S = 2.0  # the server answers then, if nothing happens


@click.command()
@click.option("--job", "job_id", type=JobId(), metavar="ID", help="Follow this job alone.")
@click.option("--keep", is_flag=True, help="Go on when no job is left, until Ctrl-C.")
@json_option
def watch(job_id: int | None, keep: bool, as_json: bool) -> int:
    """Follow jobs: a line for each change of state and each new decision.

    Ends when no active job is left. With --job the output begins with the job's history, and the
    exit code is 1 if it failed. With --json each line is one JSON object.
    """
    if job_id is not None and keep:
        raise UsageError("--keep is for all jobs: a job followed alone ends the watch by its end")
    with server() as connection:
        only = None if job_id is None else resolve(connection, job_id)
        follower = WatchEvents(only)
        show: Callable[[list[WatchEvent]], None] = _print_json if as_json else _print_lines
        if as_json or not is_drawable(sys.stdout):
            return _follow(connection, follower, show, lambda _: None, keep=keep)
        with _live() as live:
            from dq_client.show.report.terminal import draw_bars

            def bars(processors: int) -> None:
                drawn = draw_bars(follower.active.values(), processors, live.console.height)
                live.update(drawn, refresh=True)

            return _follow(connection, follower, _above(live), bars, keep=keep)


def _follow(
    connection: Connection,
    follower: WatchEvents,
    show: Callable[[list[WatchEvent]], None],
    redraw: Callable[[int], None],
    *,
    keep: bool,
) -> int:
    """Show events until no job is left; returns the exit code."""
    reported, place = False, FeedCursor(follower.only or 0)
    while True:
        answer = place.look(connection, wait_s=WAIT_S, stories_s=follower.stories_s)
        events = follower.take(answer)
        for number in follower.forgotten:
            events += _forgotten(connection, follower, number, answer["now_s"])
        show(events)
        reported = reported or bool(events)
        redraw(answer["processors"])
        if not keep and follower.complete and not follower.active:
            break
    if not reported:
        note("no job is active: dq jobs lists those that have ended")
    failed = follower.last is not None and follower.last["state"] != "done"
    return 1 if failed else 0


def _forgotten(
    connection: Connection, follower: WatchEvents, number: int, now_s: float
) -> list[WatchEvent]:
    """Events of a job that has ended, and that the scheduler has forgotten since."""
    view = ask(connection, m.JobQuery(number))
    if "jobs" in view:
        raise UsageError(f"{number} is an array: follow one of its jobs, or all without --job")
    story = ask(connection, m.WhyQuery(number))["story"]
    return follower.take_forgotten(view, story, now_s)


def line(event: WatchEvent) -> str:
    """An event as one line of text."""
    reason = f"  {event.reason}" if event.reason else ""
    name = shortened(event.name, 20)
    return f"{clock(event.time_s)}  job {event.job} {name}  {event.what:9}{reason}".rstrip()


def _print_lines(events: list[WatchEvent]) -> None:
    for event in events:
        say(line(event))


def _print_json(events: list[WatchEvent]) -> None:
    for event in events:
        say(json.dumps({"schema": SCHEMA, **event.plain()}))


def _above(live: Live) -> Callable[[list[WatchEvent]], None]:
    """Print events above the bars: rich moves the bars down."""

    def show(events: list[WatchEvent]) -> None:
        for event in events:
            live.console.print(line(event), markup=False, highlight=False, soft_wrap=True)

    return show


@contextmanager
def _live() -> Iterator[Live]:
    """A display on stdout without a refresh thread; the terminal is restored in any case."""
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(file=sys.stdout), auto_refresh=False) as live:
        yield live
