"""What the simulated and the live form of the job mixes share: records, printed figures, files.

Terms. Held: the thesis's "total time", from start to end. Turnaround: submission to end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.output import pyplot, write_csv

PROCESSORS = 33  # the text names 32, but the jobs of mix 1 hold 9 + 12 + 12
FIGURE = {1: 9, 2: 10}  # of the thesis, by mix
# Start and end in seconds, as printed in Tables 3 and 4; by the size of the long jobs.
DYNAMIC = ((0, 2853), (0, 2826), (0, 2913), (1498, 1906))
STATIC = {6: ((0, 3616), (0, 3652), (0, 3622), (0, 408)),
          9: ((0, 2746), (0, 2887), (0, 2965), (2965, 3373))}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Ran:
    """One job's times in seconds since the first submission; `steps`: (since, processors)."""

    name: str
    submit_s: float
    start_s: float
    end_s: float
    steps: tuple[tuple[float, int], ...]

    @property
    def held_s(self) -> float:
        """See the module."""
        return self.end_s - self.start_s

    @property
    def turnaround_s(self) -> float:
        """See the module."""
        return self.end_s - self.submit_s


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run of a mix; `details`: of a live run, `dq job ID --json` of each job."""

    title: str
    jobs: tuple[Ran, ...]
    details: tuple[Any, ...] = ()

    @property
    def static(self) -> int | None:
        """The fixed size of the long jobs ("static 9"); None: they were resized."""
        kind, _, size = self.title.partition(" ")
        return int(size.split()[-1]) if kind == "static" else None

    @property
    def makespan_s(self) -> float:
        """The last end; the first job is submitted at 0."""
        return max(job.end_s for job in self.jobs)

    @property
    def held_s(self) -> float:
        """Sum of the thesis's total times."""
        return sum(job.held_s for job in self.jobs)

    @property
    def mean_turnaround_s(self) -> float:
        """Average over the jobs."""
        return sum(job.turnaround_s for job in self.jobs) / len(self.jobs)

    @property
    def printed(self) -> tuple[tuple[int, int], ...]:
        """Start and end of each job of mix 1 in the thesis."""
        return DYNAMIC if self.static is None else STATIC[self.static]

    def as_plain(self) -> dict[str, Any]:
        """For JSON."""
        names = ("name", "submit_s", "start_s", "end_s", "held_s", "turnaround_s", "steps")
        return {
            "title": self.title,
            "makespan_s": self.makespan_s,
            "mean_turnaround_s": self.mean_turnaround_s,
            "thesis_total_time_s": self.held_s,
            "jobs": [{name: getattr(job, name) for name in names} for job in self.jobs],
        }


def save(path: Path, outcomes: Sequence[Outcome]) -> None:
    """One line per stay of a job on a size."""
    rows = [
        [outcome.title, job.name, job.submit_s, job.start_s, job.end_s, since_s, size]
        for outcome in outcomes
        for job in outcome.jobs
        for since_s, size in job.steps
    ]
    head = ["run", "job", "submit_s", "start_s", "end_s", "since_s", "processors"]
    write_csv(path, head, rows)


def draw(
    path: Path, mix: int, outcomes: Sequence[Outcome], how: str, twin: Outcome | None = None
) -> None:
    """Processors of every job over time, one panel per run, one time axis, as Figures 9 and 10.

    `how` they ran: simulated, live. `twin`: the first run simulated, dashed in its panel.
    """
    plt = pyplot()
    top = max(size for outcome in outcomes for job in outcome.jobs for _, size in job.steps)
    figure, axes = plt.subplots(len(outcomes), 1, figsize=(10, 3.2 * len(outcomes) + 0.6),
                                sharex=True, squeeze=False, layout="constrained")  # fmt: skip
    for panel, outcome in zip(axes[:, 0], outcomes, strict=True):
        _draw_jobs(panel, outcome, linewidth=1.8)
        if twin is not None and outcome is outcomes[0]:
            _draw_jobs(panel, twin, linewidth=1.0, linestyle="--")
        panel.set(ylabel="processors", ylim=(0, top * 1.35), title=outcome.title)
        panel.grid(alpha=0.3)
        panel.legend(fontsize=8, ncols=4, loc="upper right")
    axes[-1, 0].set_xlabel("seconds")
    figure.suptitle(f"Job mix {mix}, {how} (thesis, Figure {FIGURE[mix]})")
    figure.savefig(path, dpi=110)


def _draw_jobs(panel: Any, outcome: Outcome, *, linewidth: float, linestyle: str = "-") -> None:
    for number, job in enumerate(outcome.jobs):
        times = [since_s for since_s, _ in job.steps] + [job.end_s]
        shift = 0.12 * (number - len(outcome.jobs) / 2)  # equal sizes stay apart
        levels = [size + shift for _, size in (*job.steps, job.steps[-1])]
        dashed = linestyle != "-"
        label = ("simulated" if number == 0 else None) if dashed else job.name
        panel.step(times, levels, linestyle, where="post", color=f"C{number}", label=label,
                   linewidth=linewidth)  # fmt: skip
        if not dashed:
            panel.plot(job.end_s, levels[-1], "|", color="black", markersize=9)
