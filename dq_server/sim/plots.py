"""Simulations as pictures: processors in use over time, distributions, and who ran where.

Only this module imports matplotlib, and it is imported only when a picture is wanted.
"""

from __future__ import annotations

import itertools
from bisect import insort
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from numpy.typing import NDArray

from dq_server.sim.output import Run
from dq_server.sim.records import Floats, SimulatedJobs

GANTT_JOBS, GANTT_NODES = 2000, 2048  # more than that is a grey wall
STEPS = 400
HOUR_S, DAY_S = 3600.0, 86_400.0


def plot_runs(path: Path, runs: list[Run]) -> None:
    """One panel with the processors in use under each policy; below, if it fits, a Gantt each.

    If nodes came from a pool, beside each: how many were paid for, up and busy; and the costs. At
    the bottom the distributions of wait, turnaround and bounded slowdown of the jobs.
    """
    records = runs[0].records
    most = max(run.records.nodes for run in runs)
    gantt = all(len(run.records.ran) <= GANTT_JOBS for run in runs) and most <= GANTT_NODES
    pooled = [run for run in runs if run.records.pool is not None]
    above = 1 + (len(pooled) + 1 if pooled else 0)
    rows = above + (len(runs) if gantt else 0)
    figure = Figure(figsize=(10, 2.6 * (rows + 1) + 0.6), layout="constrained")
    halves = figure.subfigures(2, 1, squeeze=False, height_ratios=[rows, 1])[:, 0]
    panels = halves[0].subplots(rows, 1, sharex=True, squeeze=False)[:, 0]
    origin_s = float(records.submit.min()) if len(records.ran) else 0.0
    longest_s = max(run.records.makespan_s for run in runs)
    unit_s, unit = (DAY_S, "days") if longest_s > 5 * DAY_S else (
        (HOUR_S, "hours") if longest_s > 2 * HOUR_S else (1.0, "s")
    )  # fmt: skip
    for run in runs:
        at, held = run.records.held_over_time()
        label = f"{run.policy}: {100 * run.metrics['utilization']:.1f} % used"
        at, level = _averaged(at, held) if len(at) > STEPS else (at, held)
        panels[0].step((at - origin_s) / unit_s, level, where="post", label=label, linewidth=1)
    panels[0].set(ylabel="processors in use", ylim=(0, most * 1.05))
    panels[0].legend(loc="lower center", fontsize="small", ncols=min(3, len(runs)))
    for run, panel in zip(pooled, panels[1:], strict=False):
        _nodes(panel, run, origin_s, unit_s)
    if pooled:
        _costs(panels[above - 1], runs, origin_s, unit_s)
    if gantt:
        for run, panel in zip(runs, panels[above:], strict=True):
            _gantt(panel, run.records, origin_s, unit_s)
            panel.set(ylabel="processor", ylim=(0, run.records.nodes), title=run.policy)
    panels[-1].set_xlabel(f"time ({unit})")
    _distributions(halves[1].subplots(1, 3), runs)
    figure.savefig(path, dpi=120, metadata={"Software": None} if path.suffix == ".png" else None)


def _distributions(panels: NDArray[np.object_], runs: list[Run]) -> None:
    """Share of the jobs with at most a wait, a turnaround, a slowdown."""
    for panel, title, name in zip(
        panels,
        ("wait", "turnaround", "bounded slowdown"),
        ("wait", "turnaround", "bounded_slowdown"),
        strict=True,
    ):
        for run in runs:
            values = np.sort(getattr(run.records, name))
            share = np.arange(1, len(values) + 1) / max(1, len(values))
            panel.step(np.maximum(values, 1.0), share, where="post", label=run.policy, linewidth=1)
        panel.set(xscale="log", xlim=(1, None), ylim=(0, 1.02), xlabel=title)
        if name != "bounded_slowdown":
            time_axis(panel.xaxis)
    panels[0].set_ylabel("share of jobs")
    panels[-1].legend(loc="lower right", fontsize="small")


def time_axis(axis: Axis, *, tall: bool = False) -> None:
    """Mark seconds on a logarithmic axis as people say them; `tall`: with room for more marks."""
    marks = {1.0: "1 s", 60.0: "1 min", 3600.0: "1 h", 86_400.0: "1 d", 864_000.0: "10 d"}
    if tall:
        marks |= {10.0: "10 s", 600.0: "10 min", 14_400.0: "4 h"}
    axis.set_major_locator(FixedLocator(list(marks)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda at_s, _at: marks.get(at_s, "")))


def _averaged(at: Floats, held: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Long steps instead of countless short ones: the mean of each of STEPS equal spans."""
    edges = np.linspace(at[0], at[-1], STEPS + 1)
    area = np.append(0.0, np.cumsum(np.diff(at) * held[:-1]))
    level = np.diff(np.interp(edges, at, area)) / np.diff(edges)
    return edges, np.append(level, level[-1])


def _nodes(panel: Axes, run: Run, origin_s: float, unit_s: float) -> None:
    """Nodes of the pool that were paid for, those of them that were up, and what was busy."""
    pool = run.records.pool
    assert pool is not None
    for (at, level), label, colour in (
        (pool.paid_over_time(), "asked for (paid)", "tab:red"),
        (pool.up_over_time(), "up", "tab:blue"),
    ):
        x, y = _averaged(at, level) if len(at) > STEPS else (at, level)
        panel.step((x - origin_s) / unit_s, y, where="post", label=label, color=colour, lw=1)
    at, held = run.records.held_over_time()
    x, y = _averaged(at, held) if len(at) > STEPS else (at, held)
    busy = y / pool.processors
    at_unit = (x - origin_s) / unit_s
    panel.fill_between(at_unit, busy, step="post", color="tab:green", alpha=0.35, label="busy")
    nodes = run.records.nodes / pool.processors
    panel.axhline(nodes, color="grey", linestyle="--", linewidth=1, label="most that there may be")
    panel.set(ylabel="nodes", ylim=(0, nodes * 1.3), title=run.policy)  # room for the legend
    panel.legend(loc="upper right", fontsize="small", ncols=4)


def _costs(panel: Axes, runs: list[Run], origin_s: float, unit_s: float) -> None:
    """What was paid until each moment, by a run with a pool and by the one before it without."""
    for on, run in itertools.pairwise(runs):
        pool = run.records.pool
        if pool is None:
            continue
        end_s = origin_s + on.records.makespan_s
        span, paid = (0.0, on.records.makespan_s / unit_s), (0.0, on.metrics["cost"])
        (line,) = panel.plot(span, paid, linestyle="--", label=f"{on.policy}, always on")
        at, level = pool.paid_over_time()
        hours = np.append(0.0, np.cumsum(np.diff(at) * level[:-1])) / HOUR_S
        saved = f"{run.policy}: {run.metrics['saved_pct']:.1f} % saved"
        x = np.append((at - origin_s) / unit_s, (max(end_s, at[-1]) - origin_s) / unit_s)
        y = np.append(hours, hours[-1]) * pool.price
        panel.plot(x, y, color=line.get_color(), label=saved)
    panel.set(ylabel="cost so far", ylim=(0, None))
    panel.legend(loc="upper left", fontsize="small")


def _gantt(panel: Axes, records: SimulatedJobs, origin_s: float, unit_s: float) -> None:
    """A box per job and stay at a size; the lowest free processors are taken first."""
    colours = mpl.colormaps["tab20"].colors  # type: ignore[attr-defined]
    for k, boxes in _boxes(records).items():
        for first, count, since_s, until_s in boxes:
            span = ((since_s - origin_s) / unit_s, (until_s - since_s) / unit_s)
            panel.broken_barh([span], (first, count), facecolor=colours[k % 20], linewidth=0)


def _boxes(records: SimulatedJobs) -> dict[int, list[tuple[int, int, float, float]]]:
    """Per job: (first processor, how many, from, until) of each contiguous piece it held."""
    changes: list[tuple[float, int, int]] = []  # (time, what it is, job); releases come first
    sizes: dict[int, list[int]] = {}
    for k in records.ran.tolist():
        sizes[k] = [records.processors[k]]
        changes.append((records.start_s[k], 1, k))
        for change in records.resizes.get(k, ()):
            if change.time_s < records.end_s[k]:
                sizes[k].append(change.size)
                changes.append((change.time_s, 1 if change.size > change.before else 0, k))
        sizes[k].append(0)
        changes.append((records.end_s[k], 2 if records.start_s[k] == records.end_s[k] else 0, k))
    idle = list(range(records.nodes))
    held: dict[int, list[int]] = {}
    since: dict[int, float] = {}
    boxes: dict[int, list[tuple[int, int, float, float]]] = {}
    for at_s, _, k in sorted(changes):
        mine = held.setdefault(k, [])
        boxes.setdefault(k, []).extend(
            (first, count, since[k], at_s) for first, count in _pieces(mine) if at_s > since[k]
        )
        size, since[k] = sizes[k].pop(0), at_s
        while len(mine) > size:
            insort(idle, mine.pop())
        more = size - len(mine)
        mine += idle[:more]
        del idle[:more]
    return boxes


def _pieces(processors: list[int]) -> list[tuple[int, int]]:
    """Contiguous runs as (first, count)."""
    pieces: list[tuple[int, int]] = []
    for p in sorted(processors):
        if pieces and p == pieces[-1][0] + pieces[-1][1]:
            pieces[-1] = (pieces[-1][0], pieces[-1][1] + 1)
        else:
            pieces.append((p, 1))
    return pieces
