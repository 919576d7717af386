"""Sweet spots on noisy and on drifting curves: verdicts that age beside verdicts that stand.

    python -m experiments.changing_spots [--quick] [--curves 300] [--json] [--csv F] [--plot F]

Each job runs alone for 1,000 turns on sizes 2 to 32 of a curve a + b/p + c*p that is drawn by seed.
Every turn has 5 % noise (lognormal); 1 in 50 is an outlier of 1.5 to 4 times its time; every 200th
begins a burst of 2 to 6 turns that take 1.3 to 2 times as long; the first turn after a resize takes
1.1 to 1.5 times as long, and a resize 2 to 20 % of a turn. Four kinds of load:

    steady     nothing else happens
    disturber  slows the processors beyond some number down to 0.3 to 0.8 of their speed, so every
               larger size, comes after 100 to 300 turns and leaves 60 to 130 turns later, and so on
    program    at turns 100 to 300 apart the shared work becomes 0.25 to 4 times what it was first
    slow       communication grows linearly over 100 turns, to 2 to 6 times what it was

Rules: `thesis` (1 sample, threshold 0), `kept` (3 samples, 5 %, verdicts stand: sweet_spot =
"thesis"), `model` (reshape-model), and `search` (sweet_spot = "search", a server's default). In
these the scheduler is not told of the disturber. In the last one (`told`) the agents of its nodes,
of 8 processors each, report it three turns after it has come or gone: a processor at 0.3 of its
speed has a load of 0.7.

Regret: what the job took longer than on the best size at each turn, in percent, over the whole run
with the search and all resizes; `spot`: than on the sweet spot, which is the size where a walk over
the true times ends if growth must gain more than 5 %; `later`: without the first 60 turns. Trials
are counted under a steady load, after the first 60 turns: `lost` is what they took longer (resizes
too), `tried` all turns in them, in percent of the run. `found`: of the changes that moved the sweet
spot off the job's size, those after which the job came, within 60 turns, to a size that is no worse
than the new sweet spot by more than the threshold, and stayed for 5 turns (percent), and the turns
that it took (median, 95th percentile). Changes that slow the size that the job is on are `seen`; on
the others its own times tell nothing: `unseen`. A change that is followed by another before it was
found, within 60 turns, is not counted. Where times drift the change is the turn from which on the
job's size does not fit any more.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import groupby
from math import exp
from statistics import fmean, median
from typing import Any

from dq_server.core.model import events as ev
from dq_server.core.model.actions import AnswerRemap, StartJob
from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.jobs import JobKind, JobSpec
from dq_server.core.model.places import LEAST, load_of
from dq_server.core.model.sizes import configurations, nearest_square
from dq_server.core.scheduler import Scheduler
from dq_server.core.settings import configured
from harness.output import (
    Parser,
    add_options,
    check_options,
    note,
    pyplot,
    table,
    whole_number,
    write_csv,
)

SIZES = (2, 4, 8, 16, 32)
TURNS, SEARCH_TURNS, FOUND_WITHIN, STAYS_FOR = 1000, 60, 60, 5
THRESHOLD = 0.05
RULES: Mapping[str, Mapping[str, Any]] = {
    "thesis": {"samples": 1, "discard": 0, "threshold": 0.0, "settle": 0},
    "kept": {},
    "model": {"resize": "reshape-model"},
    "search": {"sweet_spot": "search"},
    "search, told": {"sweet_spot": "search"},
}
HEARD_AFTER = 3  # turns: two measurements, two seconds apart
ON_NODE = 8  # processors
LOADS = ("steady", "disturber", "program", "slow")
Times = Mapping[int, float]


@dataclass(frozen=True, slots=True)
class Life:
    """What a job meets: for each turn the true times by size, and the noise; the turns of changes.

    `true[k]` and `noise[k]` belong to turn k; `noise` is a factor. `loads`: by turn the
    background load of each node from then on.
    """

    true: list[Times]
    noise: list[float]
    slow_start: list[float]
    redistribution: float
    changes: list[int]  # none where times drift
    loads: dict[int, list[float]]


@dataclass(slots=True)
class Ran:
    """One job under one rule: percentages as in the module's docstring."""

    load: str
    rule: str
    seed: int
    regret_pct: float = 0.0
    spot_pct: float = 0.0
    later_pct: float = 0.0
    lost_pct: float = 0.0
    tried_pct: float = 0.0
    seen: list[int | None] = field(default_factory=list)  # turns until found, None: not in time
    unseen: list[int | None] = field(default_factory=list)


def curve(shared: float, best: float, serial: float) -> dict[int, float]:
    """a + b/p + c*p in seconds, with its minimum at `best` processors."""
    return {p: serial + shared / p + shared / best**2 * p for p in SIZES}


def drawn(load: str, seed: int) -> Life:
    """A life by seed: the same for all rules."""
    draw = random.Random(f"{load} {seed}")
    shared, serial, best = draw.uniform(5, 50), draw.uniform(0, 1), 2 ** draw.uniform(1, 6)
    noise, burst, strength = [], 0, 1.0
    for _ in range(TURNS):
        if not burst and draw.random() < 1 / 200:
            burst, strength = draw.randint(2, 6), draw.uniform(1.3, 2)
        factor = exp(draw.gauss(0, 0.05)) * (strength if burst else 1.0)
        burst = max(0, burst - 1)
        noise.append(factor * (draw.uniform(1.5, 4) if draw.random() < 1 / 50 else 1.0))
    usual = curve(shared, best, serial)
    true: list[Times] = [usual] * TURNS
    changes = list[int]()
    at, loads = draw.randint(100, 300), dict[int, list[float]]()
    if load == "slow":
        growth = draw.uniform(2, 6)
        for k in range(at, TURNS):
            c = shared / best**2 * (growth - 1) * min(1.0, (k - at) / 100)
            true[k] = {p: t + c * p for p, t in usual.items()}
    while load in ("disturber", "program") and at < TURNS:
        changes.append(at)
        if load == "program":
            until = at + draw.randint(100, 300)
            work = 2 ** draw.uniform(-2, 2)
            now: Times = curve(shared * work, best * work**0.5, serial)
        else:
            until, beyond = at + draw.randint(60, 130), draw.choice(SIZES[:-1])
            factor = 1 / draw.uniform(0.3, 0.8)
            now = {p: t * (factor if p > beyond else 1.0) for p, t in usual.items()}
            changes += [until] if until < TURNS else []
            loads |= {at: loads_of(beyond, 1 - 1 / factor), until: loads_of(beyond, 0.0)}
        true[at:until] = [now] * (min(until, TURNS) - at)
        at = until + (draw.randint(100, 300) if load == "disturber" else 0)
    slow_start = [draw.uniform(1.1, 1.5) for _ in range(TURNS)]
    return Life(true, noise, slow_start, draw.uniform(0.02, 0.2), changes, loads)


def loads_of(beyond: int, load: float) -> list[float]:
    """Of each node, if its processors beyond this number have such a load."""
    firsts = range(0, SIZES[-1], ON_NODE)
    return [load * min(ON_NODE, max(0, first + ON_NODE - beyond)) for first in firsts]


def spot_of(times: Times) -> int:
    """The sweet spot: where a walk up ends if growth must gain more than the threshold."""
    at = SIZES[0]
    for larger in SIZES[1:]:
        if 1 - times[larger] / times[at] <= THRESHOLD:
            break
        at = larger
    return at


@dataclass(slots=True)
class Turn:
    """One turn of a job: its size, its time without noise but with what a resize took, a trial?"""

    size: int
    took_s: float
    home: int | None  # in a trial: the size that it is compared with


def lived(life: Life, config: SchedulerConfig, *, told: bool) -> list[Turn]:
    """Drive the scheduler with one job alone; `told`: it hears of background loads."""
    scheduler = Scheduler(config)
    now = 0.0
    for k in range(SIZES[-1] // ON_NODE):
        scheduler.handle(ev.NodeJoined(f"n{k}", ON_NODE), now)
    spec = JobSpec("job", JobKind.MALLEABLE, nearest_square(SIZES[0]), configurations(SIZES))
    actions = scheduler.handle(ev.JobSubmitted(spec), now)
    start = next(a for a in actions if isinstance(a, StartJob))
    scheduler.handle(ev.JobStarted(start.job, start.instance), now)
    job, done, fresh, extra_s = scheduler.state.job(start.job), 0, True, 0.0
    turns = list[Turn]()
    for k in range(TURNS):
        for node, load in enumerate(life.loads.get(k - HEARD_AFTER, ()) if told else ()):
            if abs(load - load_of(scheduler.state, f"n{node}")) >= LEAST:
                scheduler.handle(ev.BackgroundLoad((f"n{node}",), load), now)
        track = job.performance.searched
        home = track.home.size if track.trial == job.configuration and track.home else None
        true_s = life.true[k][job.size] * (life.slow_start[k] if fresh else 1.0)
        turns.append(Turn(job.size, true_s + extra_s, home))
        time_s = true_s * life.noise[k]
        now += time_s
        point = ev.RemapPoint(job.id, job.instance, k + 1, job.size, done, time_s)
        answer = next(a.answer for a in scheduler.handle(point, now) if isinstance(a, AnswerRemap))
        fresh, extra_s = answer.what != "continue", 0.0
        if fresh:
            done, extra_s = answer.resize_id, life.redistribution * life.true[k][job.size]
            scheduler.handle(ev.ResizeCommitted(job.id, job.instance, done, extra_s), now)
            now += extra_s
    return turns


def measured(load: str, seed: int, rule: str, turns: Sequence[Turn], life: Life) -> Ran:
    """The figures of one job."""
    ran = Ran(load, rule, seed)
    took = [turn.took_s for turn in turns]
    best = [min(times.values()) for times in life.true]
    spot = [times[spot_of(times)] for times in life.true]
    ran.regret_pct = 100 * (sum(took) / sum(best) - 1)
    ran.spot_pct = 100 * (sum(took) / sum(spot) - 1)
    ran.later_pct = 100 * (sum(took[SEARCH_TURNS:]) / sum(spot[SEARCH_TURNS:]) - 1)
    total_s = sum(took[SEARCH_TURNS:])
    for k in range(SEARCH_TURNS, len(turns)):
        home, back = turns[k].home, turns[k - 1].home
        if home is not None:
            ran.lost_pct += 100 * max(0.0, took[k] - life.true[k][home]) / total_s
            ran.tried_pct += 100 * took[k] / total_s
        elif back is not None:  # the way home, and the slow first turn there
            ran.lost_pct += 100 * max(0.0, took[k] - life.true[k][turns[k].size]) / total_s
    changes = life.changes or _drifted(turns, life)
    for change, then in zip(changes, [*changes[1:], TURNS], strict=False):
        size, before = turns[change].size, life.true[change - 1]
        moved = _fits(size, before) and not _fits(size, life.true[change])
        if not moved or turns[change].home is not None:
            continue
        found = _found(turns, life, change, min(then, change + 400))
        if found is None and then - change < FOUND_WITHIN:
            continue
        shown = abs(life.true[change][size] / before[size] - 1) > THRESHOLD
        (ran.seen if shown or load == "slow" else ran.unseen).append(found)
    return ran


def _fits(size: int, times: Times) -> bool:
    """Whether the sweet spot is no better than this size by more than the threshold."""
    return 1 - times[spot_of(times)] / times[size] <= THRESHOLD


def _drifted(turns: Sequence[Turn], life: Life) -> list[int]:
    """Where the size that the job is on stops to fit because times have drifted."""
    return [
        k
        for k in range(1, len(turns))
        if turns[k].size == turns[k - 1].size
        and _fits(turns[k].size, life.true[k - 1])
        and not _fits(turns[k].size, life.true[k])
    ]


def _found(turns: Sequence[Turn], life: Life, change: int, until: int) -> int | None:
    """Turns from the change until the job is on a size that fits, and stays; None: it is not."""
    fits = [_fits(turns[k].size, life.true[k]) for k in range(change, until)]
    at = 0
    for good, run in groupby(fits):
        length = len(list(run))
        if good and (length >= STAYS_FOR or at + length == len(fits)):
            return at
        at += length
    return None


def one(load: str, seed: int) -> list[Ran]:
    """All rules on one life."""
    life = drawn(load, seed)
    usual = configured(keep_decisions=0, confirm_vacated=False)
    return [
        measured(
            load,
            seed,
            rule,
            lived(life, configured(usual, **how), told="told" in rule),
            life,
        )
        for rule, how in RULES.items()
    ]


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which this share lies, by rank."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def _found_words(found: Sequence[int | None]) -> str:
    """Share found in time; median and 95th percentile of the turns; how many changes."""
    if not found:
        return "-"
    in_time = sum(turns is not None and turns <= FOUND_WITHIN for turns in found) / len(found)
    took = [TURNS if turns is None else turns for turns in found]
    words = [str(v) if v < TURNS else "never" for v in (median(took), percentile(took, 0.95))]
    return f"{100 * in_time:.0f} ({words[0]}, {words[1]}) of {len(found)}"


def rows_of(results: Sequence[Ran]) -> list[tuple[str, ...]]:
    """The table: one row for each load and rule."""
    rows = list[tuple[str, ...]]()
    for load in LOADS:
        for rule in RULES:
            own = [r for r in results if (r.load, r.rule) == (load, rule)]
            steady = load == "steady"
            rows.append((
                load, rule,
                f"{fmean(r.regret_pct for r in own):.1f}",
                f"{fmean(r.spot_pct for r in own):.1f}",
                f"{fmean(r.later_pct for r in own):.1f}",
                f"{percentile([r.later_pct for r in own], 0.95):.1f}",
                f"{fmean(r.lost_pct for r in own):.2f}" if steady else "-",
                f"{fmean(r.tried_pct for r in own):.2f}" if steady else "-",
                _found_words([turns for r in own for turns in r.seen]),
                _found_words([turns for r in own for turns in r.unseen]),
            ))  # fmt: skip
    return rows


HEAD = ("load", "rule", "regret", "spot", "later", "later p95", "lost", "tried",
        "seen: found (median, p95)", "unseen: found (median, p95)")  # fmt: skip


def draw(path: str, results: Sequence[Ran]) -> None:
    """The distribution of the regret after the search, by load: one line for each rule."""
    plt = pyplot()
    figure, panels = plt.subplots(1, len(LOADS), figsize=(15, 4), sharey=True)
    for load, axes in zip(LOADS, panels, strict=True):
        for rule in RULES:
            own = sorted(r.later_pct for r in results if (r.load, r.rule) == (load, rule))
            style = "-" if "search" in rule else "--"
            axes.plot(own, [(k + 1) / len(own) for k in range(len(own))], style, label=rule)
        axes.axvline(5, color="grey", linewidth=0.8)
        axes.set_xscale("symlog", linthresh=10)
        axes.set_xticks([0, 5, 10, 50, 100], ["0", "5", "10", "50", "100"])
        axes.set_xlim(-5, 200)
        axes.set_title(load)
        axes.set_xlabel("regret over the sweet spot, after the search (%)")
    panels[0].set_ylabel("share of the jobs")
    panels[0].legend(loc="lower right")
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main(argv: Sequence[str] | None = None) -> int:
    """Run, print, write."""
    parser = Parser(prog="experiments.changing_spots", description=__doc__)
    add_options(parser, quick="20 curves of each kind")
    parser.add_argument("--curves", type=whole_number(1), default=300, help="of each kind")
    options = parser.parse_args(argv)
    check_options(parser, options)
    curves = 20 if options.quick else options.curves
    results = list[Ran]()
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for load in LOADS:
            for found in pool.map(partial(one, load), range(curves), chunksize=5):
                results += found
            note(f"{load}: {curves} curves")
    rows = rows_of(results)
    if options.csv:
        write_csv(options.csv, HEAD, rows)
    if options.plot:
        draw(str(options.plot), results)
    if options.json:
        print(json.dumps({"schema": 1, "turns": TURNS, "runs": [asdict(r) for r in results]}))
    else:
        print(table(HEAD, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
