"""Displays drawn with rich: the growth panel of `dq demo`, and the bars of `dq watch`.

Import this module only where something is drawn: rich takes longer to load than most commands run.
Names and reasons become `Text`, never markup, so that a job called `[red]` is shown as `[red]`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from dq_client.base.states import NOT_STARTED
from dq_client.show.report.growth import Growth, StayView
from dq_client.show.report.text import printable, processors, seconds, shortened

STATE_STYLE = {
    "held": "dim",
    "waiting": "dim",
    "queued": "yellow",
    "starting": "cyan",
    "running": "green",
    "killing": "magenta",
    "done": "bold green",
    "failed": "bold red",
    "killed": "bold magenta",
}
DECISION_STYLE = {"expand": "green", "shrink": "yellow", "regrid": "cyan"}
BAR_WIDTH = 16
# White is legible on each of them; the job's number stands in the cell, too.
JOB_COLOURS = (
    *("blue", "dark_orange3", "dark_green", "deep_pink4"),
    *("purple4", "dark_goldenrod", "dark_cyan", "orange4"),
)
JOB_BAR_WIDTH = 32


def growth_panel(view: Growth) -> Panel:
    """The growth of one job: progress, stays, the last decision."""
    title = Text.assemble(
        (f"job {view.id} ", "bold"),
        (view.name, "bold"),
        "  ",
        (view.state, STATE_STYLE.get(view.state, "")),
        f" on {processors(view.processors)}",
    )
    parts: list[RenderableType] = [_progress(view)]
    if view.stays:
        parts += [Text(), _stays(view.stays)]
    if view.sweet_spot is not None:
        parts += [Text(), Text(f"★ sweet spot: {processors(view.sweet_spot)}", "bold green")]
    return Panel(Group(*parts), title=title, title_align="left", border_style="dim", padding=(0, 1))


def _progress(view: Growth) -> RenderableType:
    if view.total is None:
        return Text(f"{view.done} iterations done")
    row = Table.grid(padding=(0, 1), expand=True)
    row.add_column(no_wrap=True)
    row.add_column(ratio=1)
    row.add_column(no_wrap=True, justify="right")
    bar = ProgressBar(total=max(1, view.total), completed=min(view.done, view.total))
    row.add_row("iterations", bar, f"{view.done}/{view.total}")
    return row


def _stays(stays: tuple[StayView, ...]) -> Table:
    table = Table(box=None, expand=True, pad_edge=False, header_style="dim")
    table.add_column("size", justify="right", no_wrap=True)
    table.add_column("grid", no_wrap=True)
    table.add_column("iteration", justify="right", no_wrap=True)
    table.add_column("", width=BAR_WIDTH, no_wrap=True)
    table.add_column("moved in", justify="right", no_wrap=True)
    table.add_column("decision and reason", ratio=1, overflow="fold")
    for stay in stays:
        mark = "▸" if stay.current else ("★" if stay.sweet_spot else " ")
        table.add_row(
            Text(f"{mark} {stay.processors}", "bold" if stay.current else ""),
            stay.grid,
            seconds(stay.iteration_time_s),
            _bar(stay),
            seconds(stay.redistribution_time_s) if stay.redistribution_time_s else "–",
            Text.assemble(
                (stay.decision, DECISION_STYLE.get(stay.decision, "dim")),
                "  ",
                (stay.reason, "dim"),
            ),
        )
    return table


def _bar(stay: StayView) -> Text:
    if stay.share is None:
        return Text("measuring", "dim italic")
    eighths = max(1, round(stay.share * BAR_WIDTH * 8))
    whole, rest = divmod(eighths, 8)
    return Text("█" * whole + (" ▏▎▍▌▋▊▉"[rest] if rest else ""),
                "green" if stay.sweet_spot else "blue")  # fmt: skip


def job_colour(job: int) -> str:
    """A job keeps its colour as long as it lives."""
    return JOB_COLOURS[job % len(JOB_COLOURS)]


def draw_bars(jobs: Iterable[dict[str, Any]], processors: int, height: int) -> RenderableType:
    """A bar of processors per active job, for `dq watch`; `processors`: of the cluster."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(justify="right", no_wrap=True)
    for _ in range(3):
        table.add_column(no_wrap=True)
    by_id = sorted(jobs, key=lambda job: int(job["id"]))
    shown = by_id[: max(1, height - 4)]
    for job in shown:
        held = 0 if job["state"] in NOT_STARTED else job["processors"]
        length = -(-JOB_BAR_WIDTH * held // max(1, processors))
        spot = f"  ★ {job['sweet_spot']}" if job["sweet_spot"] else ""
        table.add_row(
            Text(f"{job['id']}", "bold"),
            Text(shortened(printable(job["name"]), 20)),
            Text(job["state"], STATE_STYLE.get(job["state"], "")),
            Text.assemble(
                ("█" * length, job_colour(job["id"])),
                ("·" * (JOB_BAR_WIDTH - length), "dim"),
                f" {held} of {processors}{spot}",
            ),
        )
    hidden = len(by_id) - len(shown)
    if hidden:
        table.add_row("", Text(f"and {hidden} more", "dim"))
    return table
