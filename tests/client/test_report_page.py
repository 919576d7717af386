"""The page: well formed, complete in itself, deaf to hostile names, told also without pictures."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from dq_client.base.errors import UsageError
from dq_client.show.report.data import checked
from dq_client.show.report.page import render, write_report
from dq_client.show.report.pictures import STATIC
from tests.client.report_data import job, mix, overshot, report, stay, thesis

HOSTILE = "<script>alert('x')</script>\"' onload=\"y\" &amp; \x1b[31m\u202e\x00"


class Page(HTMLParser):
    """A parsed page: fails on tags that do not nest."""

    VOID = ("meta",)

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"style", "script"} & set(self.open):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.words)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def page(data: dict[str, Any]) -> Page:
    return Page(render(checked(data)))


CASES = {
    "one job": report([overshot()], about=1),
    "seven sizes": report([thesis()], about=1, capacity=25, now_s=1100),
    "eight jobs and one that waits": report(mix(), capacity=40, now_s=660),
    "one of eight jobs": report(mix(), about=5, capacity=40, now_s=660),
    "a job that waits": report(mix(), about=9, capacity=40, now_s=660),
    "no jobs": report([]),
    "no nodes": report([], capacity=0),
    "nothing measured": report([job(1, [stay(2, 1.0)])], about=1),
    "ended at once": report([job(1, [stay(1, 0.0)], end_s=0.0)], about=1),
    "workers that come and leave": report(
        [job(1, [stay(0, 0.0, grid=(0, 0)), stay(3, 2.0), stay(0, 9.0, grid=(0, 0))])], about=1
    ),
    "resized forty times": report(
        [job(1, [stay(1 + i % 5, float(i), time_s=0.5, moved_s=0.1) for i in range(40)])], about=1
    ),
    "hostile": report([job(1, [stay(1, 0.0, time_s=1.0, reason=HOSTILE, decision=HOSTILE),
                               stay(2, 5.0, time_s=0.5)], name=HOSTILE, state=HOSTILE)], about=1),
    "hostile run": report([job(i, [stay(1, 0.0, time_s=1.0), stay(2, 5.0, time_s=0.5)],
                               name=HOSTILE, state=HOSTILE) for i in (1, 2)]),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_every_page_is_well_formed_and_needs_nothing_else(case: str) -> None:
    text = render(checked(CASES[case]))
    found = Page(text)
    assert not {"link", "img", "iframe", "object"} & {tag for tag, _ in found.tags}
    assert not [a for _, attributes in found.tags for a in attributes if a.startswith("on")]
    assert not [a for _, attributes in found.tags for a in ("src", "href") if a in attributes]
    assert not re.search(r"url\(|@import|https?://", text)
    assert "nan" not in found.text.lower().replace("name", "")
    ids = [attributes["id"] for _, attributes in found.tags if "id" in attributes]
    assert len(ids) == len(set(ids))


def drawn(data: dict[str, Any]) -> dict[str, Any]:
    """What the pictures are drawn of."""
    text = render(checked(data))
    found: dict[str, Any] = json.loads(text.partition('json" id="data">')[2].partition("<")[0])
    return found


def test_pictures_are_the_pages_own_modules() -> None:
    text = render(checked(CASES["one job"]))
    names = json.loads(text.partition('"importmap">')[2].partition("<")[0])["imports"]
    sources = {name: b64decode(url.partition(",")[2]).decode() for name, url in names.items()}
    named = {
        n for source in sources.values() for n in re.findall(r'(?:from|import) "(.*)"', source)
    }
    assert named < names.keys(), "each module that one imports is there"
    assert "drawCurve" in sources["dq-curve"]


@pytest.mark.parametrize("case", CASES)
def test_only_what_can_be_drawn_has_a_picture(case: str) -> None:
    data = CASES[case]
    canvases = {
        str(canvas.get("data-job", canvas.get("id"))) for canvas in page(data).all("canvas")
    }
    started = [j for j in data["jobs"] if j["start_s"] is not None]
    assert ("gantt" in canvases) is bool(started) is ('id="data"' in render(checked(data)))
    sizes = {
        j["id"]: {s["processors"] for s in j["sizes"] if s["iteration_time_s"]} for j in started
    }
    curves = {str(number) for number, seen in sizes.items() if len(seen) > 1}
    assert {name for name in canvases if name.isdigit()} == curves


def test_nodes_that_are_no_more_and_jobs_of_which_only_sizes_are_known_are_drawn() -> None:
    data = report(mix(), about=5, capacity=2, now_s=660)
    own = data["jobs"][0]
    own["places"] = [{"since_s": own["start_s"], "until_s": own["end_s"],
                      "nodes": {"n01": "0", "gone": "0-1,6"}}]  # fmt: skip
    found = drawn(data)
    jobs = {j["id"]: j for j in found["jobs"]}
    assert jobs[5]["places"] == own["places"]
    assert [place["size"] for place in jobs[2]["places"]] == [2, 4, 6, 4]
    assert {n["name"]: n["processors"] for n in found["nodes"]} == {"n01": 1, "n02": 1, "gone": 7}
    assert found["about"] == 5
    assert found["status"]["processors"] == 2


def test_hostile_words_are_shown_as_text_without_control_characters() -> None:
    for case in ("hostile", "hostile run"):
        text = render(checked(CASES[case]))
        assert "<script>alert('x')</script>" in Page(text).text
        assert not re.search(r"[\x00-\x09\x0b-\x1f\u202e]", text)


def test_a_job_that_overshot_shows_its_way_the_sweet_spot_and_every_reason() -> None:
    data = CASES["one job"]
    found = page(data)
    assert "1 → 2 → 4 → 2 processors: expanded twice, shrunk once" in found.text
    assert found.words.count("★") == 2
    for visit in data["jobs"][0]["sizes"]:
        assert found.words.count(visit["reason"]) == 2  # among the sizes, and in the story


def test_a_job_that_is_fastest_on_its_first_size_has_no_speed_up() -> None:
    slow = [stay(1, 0, time_s=2.0), stay(4, 1, time_s=9.0), stay(1, 2, time_s=1.0)]
    found = page(report([job(1, slow, end_s=9.0, sweet_spot=1)], about=1))
    assert "sweet spot" in found.words
    assert "speed-up" not in found.words
    assert "speed-up" in page(CASES["one job"]).words


def test_a_size_with_several_grids_shows_them_on_the_way() -> None:
    stays = [stay(2, 0, time_s=3.0), stay(4, 1, time_s=2.0, decision="regrid"),
             stay(4, 2, time_s=1.0, grid=(1, 4))]  # fmt: skip
    found = page(report([job(1, stays, end_s=9.0)], about=1))
    way = "It ran on 2 → 2×2 → 1×4 processors: expanded once, never shrunk, its grid changed once."
    assert way in found.text
    assert "2 resizes" in found.words


def test_without_a_sweet_spot_the_fastest_size_is_not_called_one() -> None:
    found = page(report([job(1, [stay(1, 0, time_s=1.0), stay(2, 9, time_s=0.4)])], about=1))
    assert "fastest so far" in found.words
    assert "★" not in found.words


def test_a_run_tells_each_jobs_times() -> None:
    found = page(CASES["eight jobs and one that waits"])
    assert "9 jobs on 40 processors" in found.text
    assert "1m 45s" in found.words  # jacobi's wait


def test_a_job_has_the_colour_of_its_picture_in_the_table() -> None:
    jobs = [job(i, [stay(1, 10.0 * i)], submit_s=10.0 * i, end_s=10.0 * i + 9) for i in range(1, 5)]
    found = page(report(jobs))
    swatches = [a["class"] for a in found.all("span") if str(a.get("class")).startswith("swatch")]
    assert swatches == [f"swatch c{i}" for i in range(1, 5)], "as in gantt.js"


def test_the_nodes_of_a_large_cluster_unfold() -> None:
    for capacity, unfolds in ((12, False), (13, True)):
        found = page(report(mix(), capacity=capacity, now_s=660))
        assert (f"{capacity} nodes" in found.words) is unfolds


def test_what_a_curve_shows_is_explained_once() -> None:
    for data in (report([thesis()], about=1), report(mix(), capacity=40, now_s=660)):
        assert page(data).text.count("Numbers are visits in their order") == 1


def test_a_page_is_written_whole_or_the_reason_is_told(tmp_path: Path) -> None:
    write_report(tmp_path / "report.html", CASES["one job"])
    assert (tmp_path / "report.html").read_text().endswith("</html>\n")
    with pytest.raises(UsageError, match=r"cannot write .*nowhere/r.html: No such file"):
        write_report(tmp_path / "nowhere" / "r.html", CASES["one job"])


def test_a_table_of_very_many_jobs_has_the_latest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dq_client.show.report.page.ROWS", 3)
    jobs = [job(i, [], submit_s=float(i), name=f"name-{i}") for i in range(1, 6)]
    found = page(report(jobs))
    assert [n for n in range(1, 6) if f"name-{n}" in found.text] == [3, 4, 5]
    assert "The latest 3 of 5: dq acct lists all." in found.words
    assert "The latest" not in page(report(jobs[:3])).text


def luminance(colour: str) -> float:
    """Relative luminance of #rrggbb (WCAG 2.1)."""
    parts = (int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5))
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_words_of_page_and_report_can_be_read(theme: int) -> None:
    """Contrast as WCAG 2.1 AA asks for."""
    text = (STATIC / "pictures.css").read_text()
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", text.split("@media")[theme]))
    for words in ("ink", "soft", "faint", "accent", "best", "warn", "bad"):
        for ground in ("card", "page"):
            assert contrast(colours[words], colours[ground]) > 4.5, (words, ground)
    for k in range(8):  # the number of a job on its block: black or white (inkOn in text.js)
        ink = "#000000" if luminance(colours[f"c{k}"]) > 0.179 else "#ffffff"
        assert contrast(ink, colours[f"c{k}"]) > 4.5, f"c{k}"


def test_times_begin_with_the_submission() -> None:
    found = page(report([job(1, [stay(1, 7.0, time_s=0.5)], submit_s=2.0, end_s=12.0)], about=1))
    assert "+5 s" in found.words  # the first stay began 5 s after the submission
    assert "10 s" in found.words  # turnaround
