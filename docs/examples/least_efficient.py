"""A shrink policy of one's own: when somebody waits, the job with the lowest parallel efficiency
gives way first.

The efficiency of p processors is s T(s) / (p T(p)), with T the measured time of an iteration and s
the smallest size that was measured; a job that ran on one size only counts as perfectly efficient.
Jobs shrink only if what they can give up together lets the waiting job start.

    dq sim run log.swf.gz --malleable 0.6 --policy easy+reshape+least_efficient:LeastEfficient

Live, with this folder on the server's PYTHONPATH: `shrink = "least_efficient:LeastEfficient"` in
[scheduler] of $DQ_HOME/config.toml.
"""

from __future__ import annotations

from collections.abc import Sequence

from dq_server.core.model.jobs import Job
from dq_server.core.model.reasons import because, declare
from dq_server.core.model.sizes import largest_at_most
from dq_server.core.policies.base import GiveWay, Offer, ShrinkPolicy

declare(
    least_efficient="job {head} lacks {missing} processors: from {size} to {next_size}, where the"
    " processors are used least well ({efficiency_pct:.0f} %)"
)


def efficiency(job: Job) -> float:
    """Of the processors that the job has, as measured; 1.0 if it is not known."""
    times = {shape.size: time_s for shape, time_s in job.performance.known.items()}
    if len(times) < 2 or job.size not in times:
        return 1.0
    smallest = min(times)
    return smallest * times[smallest] / (job.size * times[job.size])


class LeastEfficient(ShrinkPolicy):
    """See the module's docstring."""

    def choose(self, offer: Offer) -> Sequence[GiveWay]:
        """Who gives way, the least efficient first; nobody if all together do not suffice."""
        assert offer.waiting is not None, "asked while somebody waits"
        missing, head, ways = offer.missing, offer.waiting.job.id, list[GiveWay]()
        for job in sorted(offer.resizable, key=lambda job: (efficiency(job), job.id)):
            target = largest_at_most(job.chain, job.size - missing) or job.chain[0]
            if missing <= 0 or target.size >= job.size:
                continue
            figures = {"head": head, "missing": missing, "size": job.size}
            pct = 100 * efficiency(job)
            reason = because(
                "least_efficient", next_size=target.size, efficiency_pct=pct, **figures
            )
            ways.append(GiveWay(job, target, reason))
            missing -= job.size - target.size
        return ways if missing <= 0 else []
