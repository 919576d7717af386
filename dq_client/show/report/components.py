"""The components of a page: cards, tables, lists of decisions. Data in, markup out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from dq_client.show.report.data import ReportedJob, ReportedNode, Timeline
from dq_client.show.report.markup import Child, Markup, joined, tag
from dq_client.show.report.measures import fastest, gains_pct, job_times, resizes
from dq_client.show.report.pictures import colour
from dq_client.show.report.text import grid_words, seconds, shortened

STORY_LINES = 60  # shown at once; the rest opens on demand


def card(label: str, value: str, small: str = "", class_: str | None = None) -> Markup:
    """One metric: label, value and a note below."""
    below = tag("small", small) if small else None
    return tag("div", tag("dt", label), tag("dd", value, below), class_=class_)


def cards(*found: Markup | None) -> Markup:
    """A row of cards."""
    return tag("dl", found, class_="cards")


def state(word: str) -> Markup:
    """A job's state."""
    return tag("span", word, class_=f"state {word}" if word.isalpha() else "state")


def table(caption: str, head: Sequence[tuple[str, str]], rows: Sequence[Child]) -> Markup:
    """A table that scrolls sideways where the screen is small. `head`: (class, words)."""
    cells = [tag("th", label, scope="col", class_=class_ or None) for class_, label in head]
    return tag(
        "div",
        tag("table", tag("caption", caption), tag("thead", tag("tr", cells)), tag("tbody", rows)),
        class_="scroll", tabindex="0", role="region", aria_label=caption,
    )  # fmt: skip


def number(value: Child) -> Markup:
    """A cell with a number."""
    return tag("td", value, class_="n")


SIZES_HEAD = (
    ("", "visit"), ("n", "processors"), ("n", "grid"), ("n", "begins"), ("n", "iterations"),
    ("n", "one iteration"), ("n", "shorter by"), ("n", "redistribution"), ("", "decision"),
)  # fmt: skip


def sizes_table(job: ReportedJob) -> Markup:
    """Every stay with its measurements, the decision at its end and the reason."""
    best = fastest(job)
    rows: list[Markup] = []
    for order, (stay, gain) in enumerate(zip(job.sizes, gains_pct(job), strict=True), 1):
        marked = best is not None and best.sweet_spot and stay.processors == best.processors
        star = (" ", tag("span", "★", class_="star", title="sweet spot")) if marked else None
        moved = seconds(stay.redistribution_time_s) if stay.redistribution_time_s else "–"
        best_class = " best" if marked else ""
        rows += [
            tag(
                "tr",
                tag("td", order, star, class_="visit"),
                number(stay.processors),
                number(grid_words(stay.grid)),
                number(after(stay.since_s - job.submit_s)),
                number(stay.iterations),
                number(seconds(stay.iteration_time_s)),
                number("–" if gain is None else f"{gain:.1f} %"),
                number(moved),
                tag("td", decision(stay.decision)),
                class_=f"first{best_class}",
            ),
            tag("tr", tag("td", tag("div", stay.reason), colspan=9), class_=f"why{best_class}"),
        ]
    caption = (
        "Sizes in the order of the visits, with the decision at the end of each and its reason"
    )
    return table(caption, SIZES_HEAD, rows)


def decision(word: str) -> Markup:
    """A decision; its class sets the colour."""
    return tag("span", word, class_=f"what {word}" if word.isalpha() else "what")


def after(value_s: float) -> str:
    """A time after the job's submission (or the run's start)."""
    return f"+{seconds(max(0.0, value_s))}"


def story(job: ReportedJob) -> Markup:
    """The decisions about a job, oldest first."""
    lines = [
        tag(
            "li",
            tag("span", after(line.time_s - job.submit_s), class_="when"),
            decision(line.what),
            tag("span", line.text, class_="text"),
        )
        for line in job.story
    ]
    if not lines:
        return tag("p", "Nothing has been decided about this job yet.", class_="note")
    shown = tag("ol", lines[:STORY_LINES], class_="story")
    rest = lines[STORY_LINES:]
    if not rest:
        return shown
    more = tag("ol", rest, class_="story", start=STORY_LINES + 1)
    return joined(shown, tag("details", tag("summary", f"{len(rest)} more decisions"), more))


JOBS_HEAD = (
    ("", "job"), ("", "name"), ("", "state"), ("n", "sizes"),
    ("n", "sweet spot"), ("n", "wait"), ("n", "run"), ("n", "turnaround"), ("n", "moving data"),
)  # fmt: skip


def jobs_table(jobs: Sequence[ReportedJob]) -> Markup:
    """All jobs with their times."""
    rows = []
    for job in jobs:
        times = job_times(job)
        ran = job.start_s is not None
        swatch = tag("span", class_=f"swatch {colour(job.id)}") if ran else None
        rows.append(
            tag(
                "tr",
                tag("td", swatch, job.id, class_="visit"),
                tag("td", shortened(job.name, 48), class_="name"),
                tag("td", state(job.state)),
                number(size_sequence(job, 5)),
                number(job.sweet_spot if job.sweet_spot is not None else "–"),
                number(seconds(times.wait_s)),
                number(seconds(times.run_s)),
                number(seconds(times.turnaround_s)),
                number(seconds(times.redistribution_s) if times.redistribution_s else "–"),
            )
        )
    return table("Jobs in the order of their submission", JOBS_HEAD, rows)


def size_sequence(job: ReportedJob, most: int) -> str:
    """`1 → 2 → 4 → 2`, or `2 → 2×2 → 1×4` where a size had several grids.

    The middle is left out where there are more than `most`.
    """
    grids = {(stay.processors, stay.grid) for stay in job.sizes}
    several = Counter(size for size, _ in grids)
    sizes = [
        grid_words(stay.grid) if several[stay.processors] > 1 else str(stay.processors)
        for stay in job.sizes
    ]
    if len(sizes) > most:
        sizes = [*sizes[: most - 2], "…", sizes[-1]]
    return " → ".join(sizes) or "–"


def changes_table(timeline: Timeline, since_s: float, until_s: float) -> Markup:
    """Processors over time as a table: the chart for readers who cannot see it."""
    changes = []
    for line in timeline.jobs:
        before = 0
        for time_s, size in line.steps:
            if since_s <= time_s <= until_s and size != before:
                changes.append((time_s, line, before, size))
            before = size
    changes.sort(key=lambda change: (change[0], change[1].id))
    rows = [
        tag("tr", number(after(t - since_s)), tag("td", f"{line.id} {line.name}", class_="name"),
            number(before), number(size))
        for t, line, before, size in changes
    ]  # fmt: skip
    head = (("n", "time"), ("", "job"), ("n", "from"), ("n", "to"))
    return tag("details", tag("summary", "The same as a table"),
               table("Changes of size over time", head, rows))  # fmt: skip


def nodes_table(nodes: Sequence[ReportedNode]) -> Markup:
    """The nodes when the data were gathered."""
    rows = [
        tag("tr", tag("td", n.name, class_="name"), tag("td", n.state), number(n.processors),
            number(n.idle), tag("td", ", ".join(map(str, n.jobs)) or "–"))
        for n in nodes
    ]  # fmt: skip
    head = (("", "node"), ("", "state"), ("n", "processors"), ("n", "idle"), ("", "jobs"))
    return table("Nodes when these data were gathered", head, rows)


def size_summary(job: ReportedJob) -> str:
    """A sentence that lists the sizes of a job and counts its resizes."""
    sizes = [stay.processors for stay in job.sizes]
    if not sizes:
        return "It has not started yet."
    if len(sizes) == 1:
        return f"It ran on {sizes[0]} processors throughout." if sizes[0] > 1 else (
            "It ran on 1 processor throughout."
        )  # fmt: skip

    def times(done: str, n: int) -> str:
        if n == 0:
            return f"never {done}"
        return f"{done} {('once', 'twice')[n - 1] if n < 3 else f'{n} times'}"

    sizes_text = size_sequence(job, 12)
    made = resizes(job)
    counts = [times("expanded", made.expansions), times("shrunk", made.shrinks)]
    if made.regrids:
        counts.append(times("its grid changed", made.regrids))
    return f"It ran on {sizes_text} processors: {', '.join(counts)}."
