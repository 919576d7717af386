"""The pictures of a report: the page's own modules (show/web/static), with their data beside them.

A report is one file, which a browser shows without a server: the modules are embedded, each as a
`data:` address that an import map names.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterable
from importlib import resources
from itertools import pairwise
from typing import Any

import msgspec

from dq_client.show.report.data import JobTimeline, Report, ReportedJob
from dq_client.show.report.markup import Markup, joined, tag
from dq_client.show.report.text import printable

STATIC = resources.files("dq_client.show").joinpath("web/static")
MODULES = ("text", "cluster", "time", "gantt", "charts", "curve", "report")
CHARTS = {
    "use": "Processors in use",
    "queue": "Jobs waiting",
    "turnaround": "Turnaround, mean of the latest 20 that ended",
}
COLOURS = 8  # classes c0 to c7 of the style sheet


def colour(job: int) -> str:
    """The CSS class that colours a job."""
    return f"c{job % COLOURS}"


def style() -> str:
    """What the style sheet has for pictures: that of the page."""
    return STATIC.joinpath("pictures.css").read_text(encoding="utf-8")


def over_time(charts: Iterable[str] = CHARTS) -> Markup:
    """Where nodes over time, and these step charts below them, are drawn."""
    canvas = tag("canvas", id="gantt", tabindex="0", role="img",
                 aria_label="Which job ran on which node when")  # fmt: skip
    figures = (
        tag("figure", tag("figcaption", CHARTS[name]), tag("canvas", id=name, role="img"))
        for name in charts
    )
    return joined(
        tag("p", "A block is a job, a line across it a resize. Drag to move, + − to zoom.",
            class_="note"),
        tag("div", canvas, tag("div", id="gantt-space"), class_="gantt", id="gantt-scroll"),
        tag("div", figures, class_="pair"),
        tag("noscript", tag("p", "A script of this file draws the pictures.", class_="note")),
    )  # fmt: skip


def curve(job: ReportedJob) -> Markup:
    """Where the sweet-spot curve of a job is drawn."""
    return tag("canvas", class_="curve", data_job=job.id, role="img")


def script(report: Report, until_s: float, curves: Iterable[ReportedJob]) -> Markup:
    """What draws all of them; `until_s`: the end of the time shown."""
    imports = {f"dq-{name}": _embedded(name) for name in MODULES}
    return joined(
        _script("importmap", json.dumps({"imports": imports})),
        _script("application/json", _data(report, until_s, curves), ' id="data"'),
        _script("module", 'import "dq-report";'),
    )


def _script(kind: str, text: str, more: str = "") -> Markup:
    text = text.replace("<", "\\u003c")  # a name of the user's must not end the element
    return Markup(f'<script type="{kind}"{more}>{text}</script>')


def _embedded(name: str) -> str:
    source = STATIC.joinpath(f"{name}.js").read_text(encoding="utf-8")
    source = re.sub(r'"\./(\w+)\.js"', r'"dq-\1"', source)
    return f"data:text/javascript;base64,{b64encode(source.encode()).decode()}"


def _data(report: Report, until_s: float, curves: Iterable[ReportedJob]) -> str:
    """As the page gets it from its server (views.State), with the job that it is about."""
    own = {job.id: job for job in report.jobs}
    lines = {line.id: line for line in report.timeline.jobs}
    curved = {job.id for job in curves}
    jobs = [
        _job(own.get(number), lines.get(number), sizes=number in curved)
        for number in sorted(own.keys() | lines.keys())
    ]
    nodes: list[dict[str, Any]] = [
        {"name": n.name, "state": n.state, "processors": n.processors, "drain": None}
        for n in report.nodes
    ]
    found = msgspec.to_builtins(
        {
            "now_s": until_s, "about": report.job or 0, "whole": True, "jobs": jobs,
            "nodes": nodes + _former(report, {n.name for n in report.nodes}), "gone": [],
            "decisions": [], "status": {"up": True, "processors": report.timeline.capacity},
        }
    )  # fmt: skip
    return json.dumps(found)


def _job(job: ReportedJob | None, line: JobTimeline | None, *, sizes: bool) -> dict[str, Any]:
    places = job.places if job is not None else []
    found: dict[str, Any] = {
        "id": job.id if job is not None else line.id if line is not None else 0,
        "places": places or _spans(line),
        "sizes": job.sizes if job is not None and sizes else [],
    }
    if job is not None:
        return found | {
            "name": printable(job.name), "state": job.state, "submit_s": job.submit_s,
            "start_s": job.start_s, "end_s": job.end_s, "sweet_spot": job.sweet_spot,
        }  # fmt: skip
    assert line is not None
    begin_s = line.steps[0][0] if line.steps else 0.0
    return found | {"name": printable(line.name), "state": line.state, "submit_s": begin_s,
                    "start_s": begin_s, "end_s": None, "sweet_spot": None}  # fmt: skip


def _spans(line: JobTimeline | None) -> list[dict[str, Any]]:
    """Places of a job of which only its sizes over time are known."""
    steps = line.steps if line is not None else []
    return [
        {"since_s": since_s, "until_s": until_s, "nodes": {}, "size": size}
        for (since_s, size), (until_s, _) in pairwise(steps)
        if size
    ]


def _former(report: Report, there: set[str]) -> list[dict[str, Any]]:
    """Nodes that jobs were on, and that are no more."""
    slots: dict[str, int] = {}
    for place in (place for job in report.jobs for place in job.places):
        for node, text in place.nodes.items():
            last = int(re.split(r"[,-]", text)[-1])
            slots[node] = max(slots.get(node, 0), last + 1)
    return [
        {"name": name, "state": "left", "processors": count, "drain": None}
        for name, count in sorted(slots.items())
        if name not in there
    ]
