"""The views of `dq top` and of `dq watch` on a terminal, without one."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console, RenderableType

from dq_client.report.screen import screen, sparkline
from dq_client.report.terminal import draw_bars, draw_screen
from tests.client.report_data import T0, job, stay


def status(processors: int, idle: int, **jobs: int) -> dict[str, Any]:
    none = dict.fromkeys(("held", "queued", "starting", "running", "killing", "done"), 0)
    return {"address": "tcp://127.0.0.1:1", "processors": processors, "idle": idle,
            "jobs": {**none, "failed": 0, "killed": 0, **jobs}}  # fmt: skip


def node(name: str, owners: list[int], state: str = "up") -> dict[str, Any]:
    return {"name": name, "state": state, "processors": len(owners), "idle": owners.count(0),
            "owners": owners, "jobs": sorted(set(owners) - {0})}  # fmt: skip


def example() -> Any:
    grown = job(1, [stay(1, 0.0, time_s=0.1), stay(2, 5.0, time_s=0.06)], name="[b]grown[/b]")
    waiting = job(2, [], submit_s=8.0, name="waiting")
    nodes = [node("n01", [1, 1]), node("n02", [0, 7]), node("n03", [0, 0], state="lost")]
    return screen(status(4, 1, running=5, queued=1, done=3), nodes, [grown, waiting],
                  {2: "the job needs 4 processors, 1 is idle"}, T0 + 10.0)  # fmt: skip


def drawn(picture: RenderableType, width: int = 120, height: int = 40) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, height=height, force_terminal=True, color_system=None)
    console.print(picture)
    return out.getvalue()


def test_the_screen_has_what_the_server_answers() -> None:
    view = example()
    assert [n.owners for n in view.nodes] == [(1, 1), (0, 7), (0, 0)]
    assert [n.up for n in view.nodes] == [True, True, False]
    first, second = view.jobs
    assert (first.processors, first.iteration_time_s, first.ran_s) == (2, 0.06, 10.0)
    assert first.last == "continue: no processor is idle"
    assert (second.processors, second.last) == (0, "the job needs 4 processors, 1 is idle")
    assert (view.more_jobs, view.ended) == (4, 3)


def test_a_sparkline_follows_the_sizes_over_time() -> None:
    stays = [stay(1, 0.0), stay(4, 5.0), stay(2, 7.5)]
    assert sparkline(stays, T0, T0 + 10.0, width=8) == "▂▂▂▂██▄▄"
    assert sparkline(stays[:1], T0, T0, width=3) == "███"
    assert sparkline([], None, T0) == ""


def test_top_shows_owners_sizes_and_decisions() -> None:
    text = drawn(draw_screen(example(), 120, 40))
    assert "3 of 4 processors in use" in text
    for words in ("n01   1  1", "n02  ·   7", "n03  x  x", "[b]grown[/b]", "60 ms",
                  "continue: no processor is idle", "the job needs 4", "and 4 more"):  # fmt: skip
        assert words in text


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("height", [10, 24, 60])
def test_top_never_grows_out_of_its_screen(width: int, height: int) -> None:
    jobs = [job(i, [stay(1, 0.0)], name="n" * 60) for i in range(1, 41)]
    nodes = [node(f"node{i:03}", [i % 40 + 1] * 4) for i in range(1000)]
    view = screen(status(4000, 0, running=40), nodes, jobs, {}, T0 + 5)
    lines = drawn(draw_screen(view, width, height), width, height).splitlines()
    assert len(lines) <= height
    assert all(len(line) <= width for line in lines)
    assert "more nodes" in "".join(lines)


def test_top_says_that_there_is_no_job() -> None:
    empty = screen(status(0, 0), [], [], {}, T0)
    assert "no active job" in drawn(draw_screen(empty, 80, 24))


def test_bars_are_as_long_as_the_job_is_large() -> None:
    text = drawn(draw_bars(example(), 24))
    grown, waiting, more = text.splitlines()
    assert grown.count("█") == 16
    assert "2 of 4" in grown
    assert waiting.count("█") == 0
    assert "and 4 more" in more
