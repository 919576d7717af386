"""`dq top`: what its lists show, and what its keys do, in a terminal of textual's."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from dq_client.base import messages as m
from dq_client.base.errors import NoServer, NotFound, UsageError
from dq_client.cli.top import top as top_command
from dq_client.show.feed.follower import Asker
from dq_client.show.feed.model import Model
from dq_client.show.report.text import printable
from dq_client.show.top import rows
from dq_client.show.top.app import Top
from dq_client.show.top.listing import Listing, fitted

NOW = time.time()
Pilot = Any


def job(number: int, state: str = "running", name: str = "job", **more: Any) -> dict[str, Any]:
    waits, ended = state == "queued", state in ("done", "failed")
    size = more.pop("size", 1)
    place = {"since_s": NOW - 50, "until_s": None, "nodes": {"n1": f"0-{size - 1}"}}
    return {
        "id": number, "name": name, "kind": "malleable", "state": state, "user": "anna",
        "submit_s": NOW - 100, "start_s": None if waits else NOW - 90,
        "end_s": NOW - 10 if ended else None, "processors": size, "grid": [1, size],
        "sweet_spot": None, "nodes": [], "remap_points": 3, "exit_code": None, "reason": None,
        "sizes": [] if waits else [{"processors": size, "since_s": NOW - 90}],
        "places": [place] if state == "running" else [], **more,
    }  # fmt: skip


def decision(event: int, number: int = 1, text: str = "it is idle") -> dict[str, Any]:
    return {"event": event, "time_s": NOW, "what": "expand", "job": number, "node": "",
            "processors": 2, "code": "probe", "text": text, "figures": {}}  # fmt: skip


def answer(jobs: list[dict[str, Any]], *, whole: bool = True, **more: Any) -> dict[str, Any]:
    node = {"name": "n1", "state": "up", "processors": 4}
    return {"whole": whole, "jobs": jobs, "nodes": [node] if whole else [], "gone": [],
            "decisions": [], "more": False, "epoch": 1, "processors": 4, "idle": 1,
            "paused": "", **more}  # fmt: skip


class Answers(Asker):
    """Stands for an Asker."""

    def __init__(self) -> None:
        """It has no connection."""

    def ask(self, body: m.RequestBody) -> m.ReplyBody:
        if isinstance(body, m.JobQuery):
            view = job(body.job, name="asked for")
            stay = {"grid": [1, 1], "iterations": 3, "iteration_time_s": 0.5, "decision": "start",
                    "redistribution_time_s": 0.0, "reason": "4 are idle"}  # fmt: skip
            view["sizes"] = [{**stay, **view["sizes"][0]}]
            return m.Data(view)
        if isinstance(body, m.WhyQuery):
            told = {"time_s": NOW, "what": "start", "code": "x", "text": "the \x1b[31mstory"}
            return m.Data({"now": [{"text": "it computes"}], "story": [told]})
        assert isinstance(body, m.LogsQuery)
        if body.stream == "err":
            raise NotFound("it has written nothing there")
        data = b"" if body.offset else b"line 1\n\x1b]0;evil\x07line 2\n"
        return m.LogPiece(data, body.offset + len(data), end=False)


def tried(
    model: Model, use: Callable[[Top, Pilot], Awaitable[None]], size: tuple[int, int] = (120, 40)
) -> Top:
    """Use a `dq top`."""
    top = Top(model, Answers())

    async def run() -> None:
        async with top.run_test(size=size) as pilot:
            await pilot.pause()
            await use(top, pilot)

    asyncio.run(run())
    return top


def seen(top: Top) -> str:
    """All that stands on the terminal."""
    width, height = top.size
    lines = [top.screen._compositor.render_strips()[y] for y in range(height)]
    assert all(strip.cell_length == width for strip in lines)
    return "\n".join(strip.text for strip in lines)


def numbers(top: Top) -> list[int]:
    return [row["id"] for row in top.list_of("jobs").rows]


@pytest.fixture
def model() -> Model:
    found = Model()
    some = [job(1, "queued"), job(2, "done"), job(3, name="漢字" * 40, size=3), job(4, "failed"),
            job(5, name="[red]\x1b[31m" + "x" * 80)]  # fmt: skip
    found.take(answer(some, decisions=[decision(1, 3), decision(2, 5, "nobody \x1b[2Jwaits")]))
    return found


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
def test_what_stands_there(model: Model, size: tuple[int, int]) -> None:
    async def use(top: Top, pilot: Pilot) -> None:
        text = seen(top)
        assert "4 processors, 1 idle" in text and "2 running, 1 queued, 2 ended" in text
        assert "active jobs: 3" in text and "decisions, latest first" in text
        assert "[red]" in text and "\x1b" not in text and "漢" in text
        assert ("nodes: 1" in text) is (size[0] >= 100)
        await pilot.press("n")
        await pilot.pause()
        assert "nodes: 1" in seen(top) and "4/4" in seen(top)

    tried(model, use, size)


def test_news_after_the_end_are_nothing_to_show(model: Model) -> None:
    async def use(top: Top, pilot: Pilot) -> None:
        pass

    top = tried(model, use)
    top._draw_news()  # the timer's last turn may come while the lists are taken down
    model.take(answer([job(9)], whole=False))
    top.news()
    top._draw_news()


def test_running_jobs_come_first_and_the_queue_as_it_was_submitted(model: Model) -> None:
    async def use(top: Top, pilot: Pilot) -> None:
        assert numbers(top) == [3, 5, 1]
        await pilot.press("a")
        assert numbers(top) == [1]
        await pilot.press("a")
        assert numbers(top) == [2, 4]
        await pilot.press("a")
        assert sorted(numbers(top)) == [1, 2, 3, 4, 5]
        await pilot.press("s")
        assert numbers(top) == [1, 2, 3, 4, 5]
        await pilot.press("r")
        assert numbers(top) == [5, 4, 3, 2, 1]

    tried(model, use)


def test_a_filter_is_by_number_name_or_user(model: Model) -> None:
    async def use(top: Top, pilot: Pilot) -> None:
        await pilot.press("slash", *"XXX")
        assert numbers(top) == [5]
        await pilot.press("enter", "escape")
        assert numbers(top) == [3, 5, 1]
        await pilot.press("slash", "1", "enter", "q")
        assert numbers(top) == [5, 1] and not top.list_of("decisions").rows

    assert not tried(model, use).is_running


def test_news_arrive_and_the_chosen_row_stays_chosen(model: Model) -> None:
    async def use(top: Top, pilot: Pilot) -> None:
        listing = top.list_of("jobs")
        await pilot.press("down")
        assert listing.chosen is not None and listing.chosen["id"] == 5
        model.take(answer([job(6), job(3, "done")], whole=False, gone=[1]))
        top.news()
        await pilot.pause(0.5)
        assert numbers(top) == [5, 6] and listing.chosen["id"] == 5
        model.take(answer([job(9)], epoch=2))
        top.draw()
        assert numbers(top) == [9]

    tried(model, use)


def test_a_server_that_is_away_is_said_and_found_again(model: Model) -> None:
    async def use(top: Top, pilot: Pilot) -> None:
        model.away(str(NoServer("the server is gone")))
        top.draw()
        await pilot.pause()
        assert "the server is away (the server is gone)" in seen(top) and "active jobs: 3" in seen(
            top
        )
        model.take(answer([], whole=False))
        top.draw()
        await pilot.pause()
        assert "is away" not in seen(top)

    tried(model, use)


def test_a_job_is_shown_with_its_story_and_output(model: Model) -> None:
    async def use(top: Top, pilot: Pilot) -> None:
        await pilot.press("enter")
        await settled(top, pilot, "it computes")
        text = seen(top)
        assert (
            "job 3 asked for" in text
            and "500 ms" in text
            and "the \N{REPLACEMENT CHARACTER}" in text
        )
        assert "filter" not in text
        await pilot.press("o")
        await settled(top, pilot, "line 2")
        assert "\x1b" not in seen(top)
        await pilot.press("e")
        await settled(top, pilot, "it has written nothing there")
        await pilot.press("escape")
        await settled(top, pilot, "active jobs")

    tried(model, use)


async def settled(top: Top, pilot: Pilot, text: str) -> None:
    until_s = time.monotonic() + 120
    while text not in seen(top):
        assert time.monotonic() < until_s, seen(top)
        await pilot.pause(0.05)


def test_ten_thousand_jobs_are_reached_by_keys_and_drawn_by_the_screenful() -> None:
    model = Model()
    model.take(answer([job(k) for k in range(1, 10_001)]))

    async def use(top: Top, pilot: Pilot) -> None:
        listing, drawn = top.list_of("jobs"), list[int]()
        plain = listing.render_line

        def counted(y: int) -> Any:
            drawn.append(y)
            return plain(y)

        listing.render_line = counted  # type: ignore[method-assign]
        await pilot.press("end")
        await pilot.pause()
        assert listing.chosen is not None and listing.chosen["id"] == 10_000
        assert "10000" in seen(top) and len(drawn) < 20 * 40
        await pilot.press("home", "pagedown", "pagedown")
        assert 20 < listing.chosen["id"] < 100

    tried(model, use)


def test_an_element_of_an_array_has_its_index_and_a_rigid_job_no_iterations() -> None:
    model = Model()
    model.take(answer([job(1, name="sweep") | {"array_index": 7, "remap_points": 0}]))

    async def use(top: Top, pilot: Pilot) -> None:
        (line,) = [line for line in seen(top).split("\n") if "sweep" in line]
        assert "sweep[7]" in line and " 0 " not in line

    tried(model, use, (124, 36))


def test_nodes_that_have_left_are_not_listed() -> None:
    model = Model()
    states = {"n1": "up", "n2": "left", "n3": "lost"}
    nodes = [{"name": name, "state": state, "processors": 4} for name, state in states.items()]
    model.take(answer([job(1)], nodes=nodes))

    async def use(top: Top, pilot: Pilot) -> None:
        assert "nodes: 2" in seen(top) and "n3" in seen(top) and "n2" not in seen(top)

    tried(model, use)


def test_the_keys_fit_into_eighty_columns(model: Model) -> None:
    async def use(top: Top, pilot: Pilot) -> None:
        assert "t theme" in seen(top)

    tried(model, use, (80, 24))


@given(st.text(), st.integers(2, 30), st.booleans())
def test_a_cell_is_as_wide_as_its_column(text: str, width: int, right: bool) -> None:
    assert cell_len(fitted(printable(text), width, right=right)) == width


@pytest.mark.parametrize(("text", "count"), [("0", 1), ("0-3", 4), ("0-3,6", 5), ("1,3,5-6", 4)])
def test_slots_are_counted(text: str, count: int) -> None:
    assert rows.slots(text) == count


def test_without_a_terminal_it_says_what_to_use() -> None:
    with pytest.raises(UsageError, match="dq top needs a terminal: use dq watch"):
        CliRunner().invoke(top_command, standalone_mode=False, catch_exceptions=False)


def test_listings_take_clicks(model: Model) -> None:
    async def use(top: Top, pilot: Pilot) -> None:
        await pilot.click("#jobs", offset=(10, 4))
        chosen = top.query_one("#jobs", Listing).chosen
        assert chosen is not None and chosen["id"] == 1

    tried(model, use)
