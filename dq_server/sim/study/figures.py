"""Figures of a study for a paper, as SVG and PDF: one set for each log and variant.

Only this module and plots.py import matplotlib, and only when a figure is wanted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

from dq_server.sim.files import whole_file
from dq_server.sim.intervals import mean_and_interval
from dq_server.sim.plots import time_axis
from dq_server.sim.study.results import Group, Results, StudyCase, means_by_class
from dq_server.sim.study.runs import DISTRIBUTED, EDGES

FORMATS = ("svg", "pdf")
# Okabe & Ito 2008: told apart by people who are colour-blind; beyond that, line styles.
COLOURS = ("#000000", "#E69F00", "#56B4E9", "#009E73", "#D55E00", "#0072B2", "#CC79A7", "#999999")
MARKERS, STYLES = "osD^vP*X", ("-", "--", "-.", ":")
TITLES = {
    "mean_turnaround_s": "mean turnaround",
    "mean_wait_s": "mean wait",
    "mean_bounded_slowdown": "mean bounded slowdown",
    "makespan_s": "makespan",
    "utilisation": "utilisation (%)",
    "turnaround_s": "turnaround",
    "wait_s": "wait",
    "bounded_slowdown": "bounded slowdown",
}
UNITS = ((1.0, "s"), (60.0, "min"), (3600.0, "h"), (86_400.0, "days"))
WIDTH = 7.2  # inches: two columns of a paper
STYLE = {
    "font.size": 8, "axes.titlesize": 8, "legend.fontsize": 7, "axes.spines.top": False,
    "axes.spines.right": False, "axes.grid": True, "grid.alpha": 0.3, "lines.linewidth": 1.1,
    "lines.markersize": 3.5, "svg.hashsalt": "dq", "svg.fonttype": "none", "pdf.fonttype": 42,
}  # fmt: skip
Curves = dict[str, dict[float, Group]]  # policy -> share -> group


def draw_all(results: Results, folder: Path) -> Iterator[Path]:
    """Draw all figures; yields the path of each file."""
    for source in results.study.sources:
        for variant in results.study.variants:
            curves: Curves = {
                policy: {
                    share: results.groups[StudyCase(source.title, variant.name, share, policy)]
                    for share in results.study.shares
                }
                for policy in results.study.policies
            }
            stem = "-".join(filter(None, (source.title, variant.name))).replace("/", "_")
            stem = f"_{stem}" if stem.startswith(".") else stem  # no hidden file, of "../a.swf"
            heading = " · ".join(filter(None, (source.title, variant.name)))
            for name, draw in DRAWN.items():
                with mpl.rc_context(STYLE):  # type: ignore[arg-type]
                    figure = draw(curves)
                    if figure is None:
                        continue
                    figure.suptitle(heading, fontsize=9)
                    yield from _saved(figure, folder, f"{stem}-{name}".replace(" ", "_"))


def _saved(figure: Figure, folder: Path, stem: str) -> Iterator[Path]:
    for suffix in FORMATS:
        path = folder / f"{stem}.{suffix}"
        stamp: dict[str, Any] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}[suffix]
        with whole_file(path) as part:
            figure.savefig(part, format=suffix, metadata=stamp)
        yield path


def _means(curves: Curves) -> Figure:
    """Each figure of merit by share: means over the seeds with 95 % intervals."""
    names = ("mean_turnaround_s", "mean_wait_s", "mean_bounded_slowdown", "makespan_s",
             "utilisation")  # fmt: skip
    figure, panels = _panels(2, 3, 4.6)
    for panel, name in zip(panels, names, strict=False):
        groups = [group for by_share in curves.values() for group in by_share.values()]
        most = max(max(group.figures[name]) for group in groups)
        unit, suffix = _unit(most) if name.endswith("_s") else (1.0, "")
        unit = 0.01 if name == "utilisation" else unit
        _by_share(panel, curves, lambda _share, group, n=name, u=unit: [  # type: ignore[misc]
            value / u for value in group.figures[n]
        ])  # fmt: skip
        panel.set_title(f"{TITLES[name]}{f' ({suffix})' if suffix else ''}")
    _legend_in(panels[5], panels[0])
    return figure


def _changes(curves: Curves) -> Figure | None:
    """Change against the first policy, paired by seed, with 95 % intervals."""
    first, *others = curves
    if not others:
        return None
    figure, panels = _panels(1, 3, 2.6)
    compared = {policy: curves[policy] for policy in others}
    for panel, name in zip(panels, ("mean_turnaround_s", "mean_wait_s", "makespan_s"), strict=True):
        _by_share(panel, compared, lambda share, group, n=name: group.changes_pct(  # type: ignore[misc]
            curves[first][share], n
        ), offset=1)  # fmt: skip
        panel.axhline(0, color="black", linewidth=0.8)
        panel.set_title(TITLES[name])
    panels[0].set_ylabel(f"change against {first} (%)")
    _legend_below(figure, panels[0])
    return figure


def _ecdf(curves: Curves) -> Figure:
    """Share of the jobs with at most a wait, turnaround or slowdown; all seeds together."""
    shares = list(next(iter(curves.values())))
    figure, panels = _panels(len(DISTRIBUTED), len(shares), 1.7 * len(DISTRIBUTED) + 0.5)
    for row, name in enumerate(DISTRIBUTED):
        reached = [
            group.reached[name] for by_share in curves.values() for group in by_share.values()
        ]
        low, high = _span(reached)
        for column, share in enumerate(shares):
            panel = panels[row * len(shares) + column]
            for k, (policy, by_share) in enumerate(curves.items()):
                counts = by_share[share].reached[name]
                values = counts / max(1.0, counts[-1])
                panel.step(EDGES[low : high + 1], values[low : high + 1], where="post",
                           label=policy, **_line(k))  # fmt: skip
            panel.set(xscale="log", ylim=(0, 1.02), xlim=(EDGES[low], EDGES[high]))
            if name != "bounded_slowdown":
                time_axis(panel.xaxis)
            if row == 0:
                panel.set_title(_share_label(share))
            if column == 0:
                panel.set_ylabel(f"{TITLES[name]}\nshare of jobs")
    _legend_below(figure, panels[0])
    return figure


def _by_size(curves: Curves) -> Figure:
    """Mean wait and turnaround by the size in the log, with 95 % intervals over the seeds."""
    shares = list(next(iter(curves.values())))
    height = 1.7 * len(DISTRIBUTED) + 0.5
    figure, panels = _panels(len(DISTRIBUTED), len(shares), height, sharey="row")
    for row, name in enumerate(DISTRIBUTED):
        for column, share in enumerate(shares):
            panel = panels[row * len(shares) + column]
            sizes: set[int] = set()
            for k, (policy, by_share) in enumerate(curves.items()):
                found = means_by_class(by_share[share], row)
                sizes |= {size for size, _, _ in found}
                shift = 1.12 ** (k - (len(curves) - 1) / 2)
                panel.errorbar(
                    [size * shift for size, _, _ in found],
                    [mean for _, mean, _ in found],
                    [0 if math.isnan(half) else half for _, _, half in found],
                    capsize=1.5, marker=MARKERS[k % len(MARKERS)], label=policy, **_line(k),
                )  # fmt: skip
            panel.set(xscale="log", yscale="log")
            if name == "bounded_slowdown":
                panel.yaxis.set_major_locator(LogLocator(subs=(1.0, 3.0), numticks=12))
                panel.yaxis.set_minor_locator(NullLocator())
                panel.yaxis.set_major_formatter(FuncFormatter(lambda y, _at: f"{y:g}"))
            else:
                time_axis(panel.yaxis, tall=True)
            panel.xaxis.set_major_locator(FixedLocator(sorted(sizes)))
            panel.xaxis.set_minor_locator(NullLocator())
            panel.xaxis.set_major_formatter(FuncFormatter(lambda size, _at: _class_label(size)))
            panel.tick_params(axis="x", labelsize=6)
            if row == 0:
                panel.set_title(_share_label(share))
            if column == 0:
                panel.set_ylabel(f"mean {TITLES[name]}")
            if row == len(DISTRIBUTED) - 1:
                panel.set_xlabel("processors in the log")
    _legend_below(figure, panels[0])
    return figure


def _by_user(curves: Curves) -> Figure | None:
    """Share of the users whose mean turnaround is at most so many times that under the first."""
    first, *others = curves
    shares = list(curves[first])
    if not others or len(next(iter(curves[first].values())).users) < 2:
        return None
    figure, panels = _panels(1, len(shares), 2.6, sharex=True)
    for panel, share in zip(panels, shares, strict=True):
        base = _user_means(curves[first][share])
        for k, policy in enumerate(others, 1):
            means = _user_means(curves[policy][share])
            ratios = sorted(means[user] / base[user] for user in means if base.get(user))
            y = np.arange(1, len(ratios) + 1) / max(1, len(ratios))
            panel.step(ratios, y, where="post", label=policy, **_line(k))
        panel.axvline(1, color="black", linewidth=0.8)
        panel.set(xscale="log", ylim=(0, 1.02), title=_share_label(share))
        panel.xaxis.set_major_locator(LogLocator(numticks=8))
        panel.xaxis.set_minor_locator(NullLocator())
        panel.xaxis.set_major_formatter(FuncFormatter(lambda x, _at: f"{x:g}"))
        panel.set_xlabel(f"user's mean turnaround / under {first}")
    panels[0].set_ylabel("share of users")
    _legend_below(figure, panels[0])
    return figure


DRAWN: dict[str, Callable[[Curves], Figure | None]] = {
    "means": _means,
    "changes": _changes,
    "ecdf": _ecdf,
    "by-size": _by_size,
    "by-user": _by_user,
}


def _panels(
    rows: int,
    columns: int,
    height: float,
    *,
    sharex: bool = False,
    sharey: Literal["none", "row"] = "none",
) -> tuple[Figure, list[Axes]]:
    width = max(WIDTH, 2.2 * columns)
    figure = Figure(figsize=(width, height), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False, sharex=sharex, sharey=sharey)
    return figure, list(panels.flat)


def _by_share(
    panel: Axes,
    curves: Curves,
    values: Callable[[float, Group], Sequence[float]],
    offset: int = 0,
) -> None:
    """A line per policy over the shares, with 95 % intervals."""
    shares = list(next(iter(curves.values())))
    step = min((abs(a - b) for a in shares for b in shares if a != b), default=1.0)
    for k, (policy, by_share) in enumerate(curves.items(), offset):
        points = []
        shift = (k - offset - (len(curves) - 1) / 2) * min(0.05, 0.2 / len(curves)) * step
        for share in sorted(by_share):
            found = values(share, by_share[share])
            if found:
                mean, half = mean_and_interval(found)
                points.append((100 * (share + shift), mean, 0 if math.isnan(half) else half))
        if points:
            x, y, error = zip(*points, strict=True)
            panel.errorbar(x, y, error, capsize=2, marker=MARKERS[k % len(MARKERS)], label=policy,
                           **_line(k))  # fmt: skip
    panel.set_xticks([100 * share for share in shares], [f"{100 * share:g}" for share in shares])
    panel.set_xlabel("malleable jobs (%)")
    panel.yaxis.set_major_locator(MaxNLocator(6))


def _line(k: int) -> dict[str, Any]:
    return {
        "color": COLOURS[k % len(COLOURS)],
        "linestyle": STYLES[k // len(COLOURS) % len(STYLES)],
    }


def _share_label(share: float) -> str:
    return f"{100 * share:g} % malleable"


def _class_label(size: float) -> str:
    """The class by its largest size: 1, 2-4, 5-16 ..."""
    return "1" if size <= 1 else f"{round(size) // 4 + 1}–{round(size)}"


def _unit(most_s: float) -> tuple[float, str]:
    """The largest unit of time in which the value is 2 or more."""
    return next((unit for unit in reversed(UNITS) if most_s >= 2 * unit[0]), UNITS[0])


def _span(reached: Sequence[Any]) -> tuple[int, int]:
    """Edges from 1 to where all distributions have reached their end, at least to 10."""
    low, least = np.searchsorted(EDGES, (1.0, 10.0)).tolist()
    high = max(int(np.searchsorted(counts, counts[-1])) for counts in reached)
    return low, min(len(EDGES) - 1, max(high, least))


def _user_means(group: Group) -> dict[int, float]:
    """Mean turnaround by user."""
    column = 1 + DISTRIBUTED.index("turnaround_s")
    return {user: float(row[column] / row[0]) for user, row in group.users.items()}


def _legend_in(empty: Axes, of: Axes) -> None:
    empty.set_axis_off()
    empty.legend(*of.get_legend_handles_labels(), loc="center", frameon=False)


def _legend_below(figure: Figure, of: Axes) -> None:
    handles, labels = of.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(6, len(labels)),
                  frameon=False)  # fmt: skip
