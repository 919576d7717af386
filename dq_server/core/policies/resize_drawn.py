"""Resizes drawn from a seed, to test programs: the sizes gain nothing and the order repeats.

Each stretch of `every` remap points of a malleable job holds one order: at a remap point and to a
size that are drawn, from the job's legal sizes other than its present one. The draw is a checksum
of the seed, the job and the number of the stretch. No other state enters, so two runs whose remap
points are the same iterations (DQ_WAIT_FOR_RANKS=1, docs/programs.md) are resized alike, as long as
the processors suffice: an order that finds too few idle ones is left out. `dq verify` uses it.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.errors import ConfigError
from dq_server.core.model.jobs import Job
from dq_server.core.model.options import Options
from dq_server.core.model.reasons import because, declare
from dq_server.core.model.state import State
from dq_server.core.planning import free
from dq_server.core.policies.base import ResizePolicy, Verdict

declare(
    drawn_resize="drawn at remap point {point} from seed {seed}: from {size} to {next_size}",
    drawn_stay="no resize is drawn at remap point {point} from seed {seed}",
    drawn_enough="{resizes} drawn resizes are done, no more are wanted",
    drawn_no_room="{next_size} was drawn at remap point {point}: {more} more are needed, {idle} are"
    " idle",
)


@dataclass(frozen=True, slots=True)
class DrawnOptions(Options):
    """What is drawn.

    seed   another one draws other resizes
    every  remap points of a job for each order
    most   resizes per job, orders that were not carried out aside; 0: no limit
    sizes  the sizes to draw from, as far as they are legal; empty: all legal ones
    """

    table = "drawn"

    seed: int = 0
    every: int = 3
    most: int = 0
    sizes: tuple[int, ...] = ()

    def validate(self) -> None:
        if self.every < 1:
            raise ConfigError(f"[scheduler.drawn] every = {self.every}: 1 remap point or more")
        if self.most < 0:
            raise ConfigError(f"[scheduler.drawn] most = {self.most}: 0 (no limit) or more")
        if any(size < 1 for size in self.sizes):
            raise ConfigError(f"[scheduler.drawn] sizes = {list(self.sizes)}: 1 or more")


class DrawnResize(ResizePolicy):
    def __init__(self, config: SchedulerConfig) -> None:
        self._options = config.of(DrawnOptions)

    def decide(self, state: State, job: Job, config: SchedulerConfig, now: float) -> Verdict:
        options, point = self._options, job.remap_points
        figures = {"point": point, "seed": options.seed}
        if options.most and job.resizes >= options.most:
            return Verdict(None, because("drawn_enough", resizes=job.resizes))
        stretch, place = divmod(point - 1, options.every)
        targets = [
            c
            for c in job.chain
            if c.size != job.size and (not options.sizes or c.size in options.sizes)
        ]
        if not targets or place != self._draw(job, stretch, "place", options.every):
            return Verdict(None, because("drawn_stay", **figures))
        target = targets[self._draw(job, stretch, "size", len(targets))]
        more, idle = target.size - job.size, free(state, now, job.planned_end_s, job)
        if more > idle:
            reason = because(
                "drawn_no_room", point=point, next_size=target.size, more=more, idle=idle
            )
            return Verdict(None, reason)
        return Verdict(
            target, because("drawn_resize", size=job.size, next_size=target.size, **figures)
        )

    def _draw(self, job: Job, stretch: int, what: str, count: int) -> int:
        """A number below `count`, always the same for the same question."""
        text = f"{self._options.seed} {job.id} {stretch} {what}"
        return int.from_bytes(sha256(text.encode()).digest()[:8], "little") % count
