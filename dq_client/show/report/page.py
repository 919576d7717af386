"""The report as one self-contained HTML file: no network; its script draws the pictures.

`write_report(path, data)` takes what `collect` gathered or `data.load` read.
"""

from __future__ import annotations

import time
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

from dq_client.base.errors import UsageError
from dq_client.show.report.components import (
    card,
    cards,
    changes_table,
    jobs_table,
    nodes_table,
    size_summary,
    sizes_table,
    state,
    story,
)
from dq_client.show.report.data import Report, ReportedJob, checked
from dq_client.show.report.markup import Child, Markup, joined, tag
from dq_client.show.report.measures import (
    fastest,
    fastest_label,
    has_curve,
    job_times,
    measured,
    resizes,
    run_times,
)
from dq_client.show.report.pictures import curve, over_time, script, style
from dq_client.show.report.text import processors, seconds, shortened

CURVES = 40  # jobs with a section of their own: a page of thousands of curves would not load

ROWS = 2000  # of the table of all jobs, the latest ones: one of 10,000 would be 5 MB

NODES_OPEN = 12  # nodes whose table is shown at once; more of them unfold

CURVE_NOTE = (
    "Numbers are visits in their order; a dashed line leads back to a smaller size, the dotted one"
    " shows perfect speed-up, and a bar spans the middle half of the iteration times."
)
TIMES_NOTE = (
    "Wait: submission to start. Run: start to end. Turnaround: submission to end. Makespan: first"
    " submission to last end (to now, while jobs are left)."
)


def write_report(path: Path | str, data: dict[str, Any]) -> None:
    """Write the page to `path`; UsageError if `data` are invalid or the file cannot be written."""
    text = render(checked(data))
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as e:
        raise UsageError(f"cannot write {path}: {e.strerror}") from None


def render(report: Report) -> str:
    """The HTML of the page."""
    body = _run_page(report) if report.job is None else _job_page(report, report.jobs[0])
    title = "DQ report" if report.job is None else f"Job {report.job} {report.jobs[0].name}"
    own = resources.files(__package__).joinpath("style.css").read_text(encoding="utf-8")
    page = tag(
        "html",
        tag(
            "head",
            tag("meta", charset="utf-8"),
            tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
            tag("meta", name="color-scheme", content="light dark"),
            tag("title", shortened(title, 80)),
            Markup(f"<style>{style()}{own}</style>"),
        ),
        tag("body", body, _footer(report), _script(report)),
        lang="en",
    )
    return f"<!DOCTYPE html>\n{page}\n"


def frame(report: Report) -> str:
    """The page as an element of another page, such as a notebook."""
    style = "width:100%;height:32rem;border:0"
    return f'<iframe title="DQ report" style="{style}" srcdoc="{escape(render(report))}"></iframe>'


def _footer(report: Report) -> Markup:
    return tag("footer", tag("p", f"Written by dq report. Data of {_date(report.timeline.now_s)}."))


def _script(report: Report) -> Markup | None:
    if all(job.start_s is None for job in report.jobs):
        return None
    return script(report, _until_s(report), list(filter(has_curve, report.jobs))[:CURVES])


def _until_s(report: Report) -> float:
    now_s = report.timeline.now_s
    return max(
        (job.end_s if job.end_s is not None else now_s for job in report.jobs), default=now_s
    )


def _date(time_s: float) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(time_s))
    except (OverflowError, ValueError, OSError):
        return f"{time_s:g} s"


# --- one job ---------------------------------------------------------------------------------


def _job_page(report: Report, job: ReportedJob) -> Markup:
    drawn: Child = (
        over_time(["use"]),
        tag("p", "Submitted at ", _date(job.submit_s), ".", class_="note"),
        changes_table(report.timeline, job.submit_s, _until_s(report)),
    )
    if job.start_s is None:
        drawn = tag("p", "The job has not started.", class_="note")
    return joined(
        tag(
            "header",
            tag("p", "DQ report", class_="eyebrow"),
            tag("h1", f"Job {job.id} · {job.name} ", state(job.state)),
            tag("p", size_summary(job), " ", _ending(job), class_="lead"),
            tag("p", tag("code", " ".join(job.argv))) if job.argv else None,
            _job_cards(job),
        ),
        tag(
            "main",
            _section("Sweet spot", _curve_part(job)),
            _section("Sizes and decisions", sizes_table(job)) if job.sizes else None,
            _section("Nodes and processors over time", drawn),
            _section("What was decided, and why", story(job)),
            _nodes(report),
        ),
    )


def _section(title: str, *inside: Child) -> Markup:
    return tag("section", tag("h2", title), *inside)


def _ending(job: ReportedJob) -> str:
    if job.end_s is None or not job.reason:
        return ""
    return f"{job.state.capitalize()}: {job.reason}."


def _job_cards(job: ReportedJob) -> Markup:
    best, times, found = fastest(job), job_times(job), measured(job)
    shown: list[Markup | None] = []
    if best is not None:
        label = fastest_label(job, best)
        unit = "processor" if best.processors == 1 else "processors"
        small = f"{unit}, {seconds(best.iteration_time_s)} per iteration"
        class_ = "best" if best.sweet_spot else None
        shown.append(card(label, str(best.processors), small, class_))
    _, stay, time_s = found[0] if found else (0, best, 0.0)
    if best and stay and best.processors != stay.processors and best.iteration_time_s > 0:
        shown.append(
            card("speed-up", f"{time_s / best.iteration_time_s:.2f}×",
                 f"over {processors(stay.processors)} ({seconds(time_s)})")
        )  # fmt: skip
    share = ""
    if times.run_s:
        share = f"{100 * times.redistribution_s / times.run_s:.1f} % of the run"
    count = resizes(job).total
    iterations = sum(stay.iterations for stay in job.sizes)
    return cards(
        *shown,
        card("redistribution", seconds(times.redistribution_s), share),
        card("iterations", str(iterations), f"{count} resize{'s' * (count != 1)}"),
        card("wait", seconds(times.wait_s), "submission to start"),
        card("turnaround", seconds(times.turnaround_s), "submission to end"),
    )


def _curve(job: ReportedJob) -> Markup:
    return joined(curve(job), tag("p", CURVE_NOTE, class_="note"))


def _curve_part(job: ReportedJob) -> Markup:
    if has_curve(job):
        return _curve(job)
    found = measured(job)
    if not found:
        text = "No iteration has been measured, so there is no curve to draw."
    else:
        _, stay, time_s = found[-1]
        text = (f"Measured on one size only: {processors(stay.processors)},"
                f" {seconds(time_s)} per iteration. A curve needs two.")  # fmt: skip
    return tag("p", text, class_="note")


# --- a whole run -----------------------------------------------------------------------------


def _run_page(report: Report) -> Markup:
    jobs, data = report.jobs, report.timeline
    count = "No jobs yet" if not jobs else f"{len(jobs)} job{'s' * (len(jobs) != 1)}"
    header = tag(
        "header",
        tag("p", "DQ report", class_="eyebrow"),
        tag("h1", f"{count} on {processors(data.capacity)}"),
        _run_cards(report) if jobs else None,
    )
    if not jobs:
        nothing = tag("p", "Submit one with dq submit, or see dq demo.", class_="note")
        return joined(header, tag("main", _section("Jobs", nothing), _nodes(report)))
    since_s = min(job.submit_s for job in jobs)
    started = any(job.start_s is not None for job in jobs)
    return joined(
        header,
        tag(
            "main",
            _section(
                "Nodes and processors over time",
                over_time() if started else None,
                tag("p", "The first job was submitted at ", _date(since_s), ".", class_="note"),
                changes_table(data, since_s, _until_s(report)),
            ),
            _section("Jobs", jobs_table(jobs[-ROWS:]),
                     _left_out(len(jobs)),
                     tag("p", TIMES_NOTE, class_="note")),
            _each(jobs),
            _nodes(report),
        ),
    )  # fmt: skip


def _left_out(count: int) -> Markup | None:
    if count <= ROWS:
        return None
    return tag("p", f"The latest {ROWS} of {count}: dq acct lists all.", class_="note")


def _nodes(report: Report) -> Markup | None:
    count = len(report.nodes)
    if count > NODES_OPEN:
        table = tag("details", tag("summary", f"{count} nodes"), nodes_table(report.nodes))
        return _section("Nodes", table)
    return _section("Nodes", nodes_table(report.nodes)) if count else None


def _run_cards(report: Report) -> Markup:
    times, jobs = run_times(report), report.jobs
    states = [job.state for job in jobs]
    kinds = ", ".join(f"{states.count(s)} {s}" for s in dict.fromkeys(states))
    count = sum(resizes(job).total for job in jobs)
    used = "–" if times.used_pct is None else f"{times.used_pct:.0f} %"
    return cards(
        card("jobs", str(len(jobs)), kinds),
        card("makespan", seconds(times.makespan_s), "first submission to last end"),
        card("mean wait", seconds(times.mean_wait_s), "submission to start"),
        card("mean turnaround", seconds(times.mean_turnaround_s), "submission to end"),
        card("processors in use", used, "of those there were"),
        card("resizes", str(count), "expansions, shrinks, changes of the grid"),
    )


def _each(jobs: list[ReportedJob]) -> Markup:
    """A section for each job that has a curve; the others have only their row in the table."""
    drawn = [job for job in jobs if has_curve(job)]
    parts = [
        tag(
            "section",
            tag("h2", f"Job {job.id} · {job.name} ", state(job.state)),
            tag("p", size_summary(job), class_="lead"),
            curve(job) if k else _curve(job),  # one note is enough
            tag("details", tag("summary", "Sizes, decisions and reasons"), sizes_table(job)),
            tag("details", tag("summary", "What was decided, and why"), story(job)),
        )
        for k, job in enumerate(drawn[:CURVES])
    ]
    left = len(drawn) - len(parts)
    more = f"{left} more jobs have a curve: dq report ID shows one." if left > 0 else None
    return joined(parts, tag("p", more, class_="note") if more else None)
