"""How often does a job start within its forecast interval? `python -m benchmarks.forecast LOG`.

A log is played under a policy. At moments drawn from those at which jobs waited, the starts of the
waiting jobs are forecast from what was known then, and compared with the starts as they came.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import click
import numpy as np

from dq_server.core.settings import named_config
from dq_server.sim.engine import Simulation
from dq_server.sim.forecast import forecast, of_log
from dq_server.sim.swf import read_swf
from dq_server.sim.workload import RigidWorkload


class Calibration(NamedTuple):
    """Of how many forecasts the start came before, within and after the interval.

    error_s  median of how far the start was from the forecast median, seconds
    """

    early: int
    within: int
    late: int
    error_s: float

    @property
    def share(self) -> float:
        """Of the starts within their intervals."""
        return self.within / max(1, self.early + self.within + self.late)


def calibrate(
    jobs: RigidWorkload, nodes: int, policy: str, *, moments: int, draws: int, seed: int
) -> Calibration:
    """Forecast at so many moments of the second half of the jobs; the first half is history."""
    config, random = named_config(policy), np.random.default_rng(seed)
    played = Simulation(jobs, nodes, config).run()
    submit, start = np.asarray(jobs.submit_s), np.asarray(played.start_s)
    waited = np.flatnonzero((start > submit) & (np.arange(len(jobs)) >= len(jobs) // 2))
    early = within = late = 0
    errors: list[float] = []
    for k in random.choice(waited, min(moments, len(waited)), replace=False).tolist():
        at_s = float(random.uniform(submit[k], start[k]))
        found = forecast(of_log(jobs, played, at_s), config, draws=draws, seed=k)
        for number, interval in found.items():
            real_s = float(start[number]) - at_s
            early += real_s < interval.earliest_s
            late += real_s > interval.latest_s
            within += interval.earliest_s <= real_s <= interval.latest_s
            errors.append(abs(real_s - interval.median_s))
    return Calibration(early, within, late, float(np.median(errors)) if errors else 0.0)


@click.command()
@click.argument("log", type=click.Path(path_type=Path))
@click.option("--nodes", type=int, required=True)
@click.option("--policy", default="easy", show_default=True)
@click.option("--moments", default=40, show_default=True)
@click.option("--draws", default=50, show_default=True)
@click.option("--seed", default=0, show_default=True)
def main(log: Path, nodes: int, policy: str, moments: int, draws: int, seed: int) -> None:
    """Print how many starts of a LOG came within their 80 % intervals."""
    jobs = RigidWorkload.from_log(read_swf(log))
    found = calibrate(jobs, nodes, policy, moments=moments, draws=draws, seed=seed)
    click.echo(
        f"{found.share:.1%} within, {found.early} earlier, {found.late} later; median error"
        f" {found.error_s:.0f} s"
    )


if __name__ == "__main__":
    main()
