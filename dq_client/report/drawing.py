"""Drawing views on a terminal with rich. Imported only when something is drawn there.

Names and reasons become `Text`, never markup: a job called `[red]` is called `[red]`.
"""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from dq_client.report.growth import Growth, Turn
from dq_client.report.text import processors, seconds

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


def growth_panel(view: Growth) -> Panel:
    """One job's growth: progress, sizes visited, and what was decided last."""
    title = Text.assemble(
        (f"job {view.id} ", "bold"),
        (view.name, "bold"),
        "  ",
        (view.state, STATE_STYLE.get(view.state, "")),
        f" on {processors(view.processors)}",
    )
    parts: list[RenderableType] = [_progress(view)]
    if view.turns:
        parts += [Text(), _turns(view.turns)]
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


def _turns(turns: tuple[Turn, ...]) -> Table:
    table = Table(box=None, expand=True, pad_edge=False, header_style="dim")
    table.add_column("size", justify="right", no_wrap=True)
    table.add_column("grid", no_wrap=True)
    table.add_column("iteration", justify="right", no_wrap=True)
    table.add_column("", width=BAR_WIDTH, no_wrap=True)
    table.add_column("moved in", justify="right", no_wrap=True)
    table.add_column("decision and reason", ratio=1, overflow="fold")
    for turn in turns:
        mark = "▸" if turn.current else ("★" if turn.sweet_spot else " ")
        table.add_row(
            Text(f"{mark} {turn.processors}", "bold" if turn.current else ""),
            turn.grid,
            seconds(turn.iteration_time_s),
            _bar(turn),
            seconds(turn.redistribution_time_s) if turn.redistribution_time_s else "–",
            Text.assemble(
                (turn.decision, DECISION_STYLE.get(turn.decision, "dim")),
                "  ",
                (turn.reason, "dim"),
            ),
        )
    return table


def _bar(turn: Turn) -> Text:
    if turn.share is None:
        return Text("measuring", "dim italic")
    eighths = max(1, round(turn.share * BAR_WIDTH * 8))
    whole, rest = divmod(eighths, 8)
    return Text("█" * whole + (" ▏▎▍▌▋▊▉"[rest] if rest else ""),
                "green" if turn.sweet_spot else "blue")  # fmt: skip
