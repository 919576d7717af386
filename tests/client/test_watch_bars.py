"""The bars of `dq watch` on a terminal, without one."""

from __future__ import annotations

import io

from rich.console import Console, RenderableType

from dq_client.show.report.terminal import draw_bars
from dq_client.show.top.rows import sparkline
from tests.client.report_data import T0, job, stay


def drawn(picture: RenderableType, width: int = 120, height: int = 40) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, height=height, force_terminal=True, color_system=None)
    console.print(picture)
    return out.getvalue()


def test_a_sparkline_follows_the_sizes_over_time() -> None:
    stays = [stay(1, 0.0), stay(4, 5.0), stay(2, 7.5)]
    assert sparkline(stays, T0, T0 + 10.0, width=8) == "▂▂▂▂██▄▄"
    assert sparkline(stays[:1], T0, T0, width=3) == "███"
    assert sparkline([], None, T0, width=3) == ""


def test_bars_are_as_long_as_the_job_is_large() -> None:
    grown = job(1, [stay(1, 0.0), stay(2, 5.0)], name="[b]grown[/b]", sweet_spot=2)
    waiting = job(2, [], submit_s=8.0, name="waiting")
    text = drawn(draw_bars([waiting, grown], 4, 24))
    first, second = text.splitlines()
    assert first.count("█") == 16
    assert "[b]grown[/b]" in first
    assert "2 of 4  ★ 2" in first
    assert second.count("█") == 0


def test_bars_that_do_not_fit_are_counted() -> None:
    rows = [job(k, [stay(1, 0.0)], name="n" * 60) for k in range(1, 41)]
    lines = drawn(draw_bars(rows, 40, 24), height=24).splitlines()
    assert len(lines) == 21
    assert "and 20 more" in lines[-1]
