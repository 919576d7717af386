"""GrowthView: what is told in lines, what is drawn on a terminal, and where it goes."""

from __future__ import annotations

import io
import subprocess
import sys
from typing import Any

import pytest
from rich.console import Console

from dq_client.show.report.growth import Growth, changes, growth
from dq_client.show.report.live_view import GrowthView
from dq_client.show.report.terminal import growth_panel
from harness.commands import HANG_S
from tests.client.report_data import job, overshot, stay


def seen_at(turns: int, **changes: Any) -> Any:
    """The overshooting job as it was seen on its `turns`-th size, nothing decided there yet."""
    whole = overshot()
    stays = whole["sizes"][:turns]
    last = {**stays[-1], "decision": "continue", "reason": "measuring"}
    return {**whole, "state": "running", "end_s": None, "reason": None, "sweet_spot": None,
            "sizes": [*stays[:-1], last], "processors": last["processors"], **changes}  # fmt: skip


def told(*views: Any) -> list[str]:
    out = io.StringIO()
    with GrowthView(out) as view:
        for each in views:
            view.update(each, 25)
    return out.getvalue().splitlines()


def test_each_thing_that_happens_is_one_line_told_once() -> None:
    starting = {**job(1, []), "state": "starting"}
    once = [starting, seen_at(1), seen_at(2), seen_at(3), seen_at(4, sweet_spot=2), overshot()]
    twice = [view for view in once for _ in range(2)]
    reasons = [visit["reason"] for visit in overshot()["sizes"]]
    assert told(*twice) == [
        "job 1 (matmul) is starting",
        "job 1 is running",
        "  on 1 processor (1×1)",
        f"    109 ms per iteration: expand: {reasons[0]}",
        "  on 2 processors (1×2), data moved in 76.3 ms",
        f"    82.3 ms per iteration: expand: {reasons[1]}",
        "  on 4 processors (2×2), data moved in 92.5 ms",
        f"    95.1 ms per iteration: shrink: {reasons[2]}",
        "  on 2 processors (1×2), data moved in 71 ms",
        "  sweet spot: 2 processors",
        "job 1 done: the application ended with exit code 0",
    ]


def test_who_looks_once_at_the_end_is_told_everything() -> None:
    assert told(overshot())[0] == "job 1 (matmul) is done"
    assert told(overshot())[-1] == "job 1 done: the application ended with exit code 0"
    assert len(told(overshot())) == 10


def test_names_cannot_move_the_cursor() -> None:
    assert told({**job(1, []), "name": "a\x1b[2J\rb"})[0] == "job 1 (a�[2J�b) is queued"


def test_the_view_knows_where_the_job_is_and_how_far() -> None:
    view = growth(seen_at(3), 25)
    assert [stay.current for stay in view.stays] == [False, False, True]
    assert (view.done, view.total, view.processors) == (25, 25, 4)
    assert view.stays[0].share == 1.0  # the longest iteration
    assert view.stays[1].share == pytest.approx(0.0823 / 0.1087)
    assert changes(view, view) == []


def drawn(view: Growth, width: int = 100) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=True, color_system=None)
    console.print(growth_panel(view))
    return out.getvalue()


def test_the_picture_has_progress_sizes_times_and_the_sweet_spot() -> None:
    text = drawn(growth({**overshot(), "remap_points": 20}, 25))
    for words in ("job 1 matmul", "done", "20/25", "1×2", "109 ms", "76.3 ms", "shrink",
                  "★ sweet spot: 2 processors"):  # fmt: skip
        assert words in text
    measuring = growth(job(1, [stay(1, 0.0)]), None)
    assert "measuring" in drawn(measuring)
    assert "4 iterations done" in drawn(measuring)


def test_a_name_is_no_markup() -> None:
    assert "[red]x[/red]" in drawn(growth({**overshot(), "name": "[red]x[/red]"}, 25))


@pytest.mark.parametrize("width", [20, 60, 200])
def test_the_picture_fits_any_terminal(width: int) -> None:
    assert all(len(line) <= width for line in drawn(growth(overshot(), 25), width).splitlines())


def test_on_a_terminal_it_draws_there_and_leaves_stdout_alone() -> None:
    code = (
        "import sys; sys.path.insert(0, '.')\n"
        "from tests.client.report_data import overshot\n"
        "from dq_client.show.report.live_view import GrowthView\n"
        "import os\n"
        "ours, theirs = os.openpty()\n"
        "with GrowthView(os.fdopen(theirs, 'w')) as view:\n"
        "    view.update(overshot(), 25)\n"
        "    print('data')\n"
        "seen = ''\n"
        "while 'sweet spot' not in seen: seen += os.read(ours, 65536).decode(errors='replace')\n"
        "assert 'data' not in seen.replace('data moved', ''), seen\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={"TERM": "xterm-256color", "COLUMNS": "100"},
        capture_output=True, text=True, timeout=HANG_S,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "data\n"), done.stderr


def test_without_a_terminal_rich_stays_unloaded() -> None:
    code = (
        "import sys\n"
        "from dq_client.show.report.live_view import GrowthView\n"
        "GrowthView().close()\n"
        "assert 'rich' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=HANG_S, stderr=subprocess.PIPE)
