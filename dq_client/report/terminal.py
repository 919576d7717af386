"""Displays drawn with rich: the growth panel of `dq demo`, `dq top`, and the bars of `dq watch`.

Import this module only where something is drawn: rich takes longer to load than most commands run.
Names and reasons become `Text`, never markup, so that a job called `[red]` is shown as `[red]`.
"""

from __future__ import annotations

from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from dq_client.report.growth import Growth, StayView
from dq_client.report.screen import JobRow, NodeCells, Screen
from dq_client.report.text import processors, seconds, shortened

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
CELL = 3  # characters per processor
JOB_BAR_WIDTH = 32
FIXED_ROWS = 6  # lines of the screen that are neither nodes nor jobs


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


def draw_screen(view: Screen, width: int, height: int) -> Group:
    """The whole screen of `dq top`. `width` and `height` in characters."""
    rows = max(1, (height - FIXED_ROWS) // 2)
    cells = _nodes(view.nodes, width, rows)
    left = max(1, height - FIXED_ROWS - min(rows, _lines(view.nodes, width)))
    parts: list[RenderableType] = [_head(view), Text(), cells, Text()]
    if view.jobs:
        parts.append(_jobs(view.jobs[:left]))
    else:
        parts.append(Text("no active job", "dim italic"))
    hidden = view.more_jobs + max(0, len(view.jobs) - left)
    if hidden:
        parts.append(Text(f"and {hidden} more", "dim"))
    return Group(*parts)


def _head(view: Screen) -> Text:
    busy = view.processors - view.idle
    active = len(view.jobs) + view.more_jobs
    return Text.assemble(
        ("DQ ", "bold"),
        (view.address, "dim"),
        f"   {busy} of {view.processors} processors in use   {active} active, {view.ended} ended",
        ("   q ends", "dim"),
        no_wrap=True,
        overflow="ellipsis",
    )


def _node_width(nodes: tuple[NodeCells, ...], width: int) -> int:
    widest = max((len(n.name) + 1 + CELL * len(n.owners) for n in nodes), default=1)
    return min(width, widest) + 2


def _lines(nodes: tuple[NodeCells, ...], width: int) -> int:
    across = max(1, width // _node_width(nodes, width))
    return -(-len(nodes) // across)


def _nodes(nodes: tuple[NodeCells, ...], width: int, rows: int) -> RenderableType:
    across = max(1, width // _node_width(nodes, width))
    shown = nodes[: rows * across]
    longest = max((len(n.name) for n in shown), default=0)
    drawn: list[RenderableType] = [_node(node, longest, width) for node in shown]
    if len(nodes) > len(shown):
        drawn[-1] = Text(f"and {len(nodes) - len(shown) + 1} more nodes", "dim")
    return Columns(drawn, equal=True, padding=(0, 2))


def _node(node: NodeCells, longest: int, width: int) -> Text:
    text = Text(f"{node.name:{longest}} ", "" if node.up else "red", no_wrap=True)
    room = max(1, (width - longest - 6) // CELL)
    for owner in node.owners[:room]:
        if owner:
            text.append(f"{owner % 1000:>3}", f"bold white on {job_colour(owner)}")
        else:
            text.append(" · " if node.up else " x ", "dim" if node.up else "red")
    if len(node.owners) > room:
        text.append("…")
    return text


def _jobs(jobs: tuple[JobRow, ...]) -> Table:
    table = Table(box=None, expand=True, pad_edge=False, header_style="dim")
    for name, right in (("job", True), ("name", False), ("state", False), ("size", True),
                        ("spot", True), ("iteration", True), ("ran", True)):  # fmt: skip
        table.add_column(name, justify="right" if right else "left", no_wrap=True)
    table.add_column("sizes over time", no_wrap=True)
    table.add_column("last decision", ratio=1, no_wrap=True, overflow="ellipsis")
    for job in jobs:
        table.add_row(
            Text(f"{job.id}", f"bold white on {job_colour(job.id)}"),
            Text(shortened(job.name, 16)),
            Text(job.state, STATE_STYLE.get(job.state, "")),
            str(job.processors or "–"),
            str(job.sweet_spot or "–"),
            seconds(job.iteration_time_s),
            seconds(job.ran_s, 2),
            Text(job.spark, job_colour(job.id)),
            Text(job.last, "dim"),
        )
    return table


def draw_bars(view: Screen, height: int) -> RenderableType:
    """A bar of processors per active job, for `dq watch`."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(justify="right", no_wrap=True)
    for _ in range(3):
        table.add_column(no_wrap=True)
    shown = view.jobs[: max(1, height - 4)]
    for job in shown:
        length = -(-JOB_BAR_WIDTH * job.processors // max(1, view.processors))
        spot = f"  ★ {job.sweet_spot}" if job.sweet_spot else ""
        table.add_row(
            Text(f"{job.id}", "bold"),
            Text(shortened(job.name, 20)),
            Text(job.state, STATE_STYLE.get(job.state, "")),
            Text.assemble(
                ("█" * length, job_colour(job.id)),
                ("·" * (JOB_BAR_WIDTH - length), "dim"),
                f" {job.processors} of {view.processors}{spot}",
            ),
        )
    hidden = view.more_jobs + len(view.jobs) - len(shown)
    if hidden:
        table.add_row("", Text(f"and {hidden} more", "dim"))
    return table
