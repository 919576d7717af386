"""How long the server's loop is held by those who follow what changes.

    python -m benchmarks.following [--json] [--jobs 10000] [--nodes 1000]

A feed over a scheduler with so many queued jobs and nodes, without socket and journal. CPU time of
each answer while a client that knows nothing learns all, after an event that may have changed any
job, after one about a node, and after the state was made anew. Limit: 5 ms for the longest answer.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from dq_client.base import messages as m
from dq_server.core.model import events as ev
from dq_server.core.model.sizes import configurations
from dq_server.core.model.spec import JobKind, JobSpec
from dq_server.core.scheduler import Scheduler
from dq_server.core.settings import configured
from dq_server.live.translate import ProcessorNames
from dq_server.live.views.feed import Feed, FeedSources

PER_NODE = 4
LIMIT_MS = 5.0


@dataclass(frozen=True, slots=True)
class Figure:
    """CPU time of the answers to one who asks until all is known."""

    what: str
    answers: int
    first_ms: float
    longest_ms: float
    kept: bool


class Cluster:
    """A feed, the scheduler that it tells of, and one who follows."""

    def __init__(self, jobs: int, nodes: int) -> None:
        self._scheduler = Scheduler(configured())
        self._feed = Feed(
            FeedSources(
                entries=lambda _: [],
                monotonic=time.monotonic,
                epoch=1,
                now=lambda: float(self.seq),
                whole=lambda job, _: {"id": job.id},
            )
        )
        self._places = ProcessorNames(self._scheduler.state.processors)
        self.seq = 0
        for k in range(nodes):
            self.happen(ev.NodeJoined(f"n{k}", PER_NODE))
        size = configurations([2])
        for _ in range(jobs):
            self.happen(ev.JobSubmitted(JobSpec("job", JobKind.RIGID, size[0], size)))

    def happen(self, event: ev.Event) -> None:
        """The scheduler handles it, and the feed notes it."""
        self.seq += 1
        now = float(self.seq)
        self._feed.note(self.seq, now, event, self._scheduler.handle(event, now))

    def restart(self) -> None:
        """As after a turn that could not be saved."""
        self._feed.restart(self.seq)

    def learn(self, what: str, asked: m.Since) -> tuple[Figure, m.Since]:
        """Ask until all is known; the figure, and what to ask with next."""
        spent_ms = list[float]()
        gc.collect()  # of the run before
        while True:
            began = time.thread_time()
            reply = self._feed.ask(b"", "", asked, self._scheduler.state, self._places)
            spent_ms.append(1e3 * (time.thread_time() - began))
            assert isinstance(reply, m.Data)
            told = reply.data
            asked = m.Since(told["epoch"], told["seq"], told["event"])
            if not told["more"]:
                break
        longest_ms = max(spent_ms)
        kept = longest_ms <= LIMIT_MS
        return Figure(what, len(spent_ms), spent_ms[0], longest_ms, kept), asked


def measured(jobs: int, nodes: int) -> list[Figure]:
    """See the module's docstring."""
    cluster = Cluster(jobs, nodes)
    first, known = cluster.learn("knows nothing", m.Since())
    cluster.happen(ev.HoldRequested(jobs))
    hold, known = cluster.learn("any job may differ", known)
    cluster.happen(ev.NodeJoined("late", PER_NODE))
    node, known = cluster.learn("any node may differ", known)
    cluster.restart()
    anew, _ = cluster.learn("state made anew", known)
    return [first, hold, node, anew]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; exit code 1 if the limit is not kept."""
    parser = argparse.ArgumentParser(prog="benchmarks.following", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--json", action="store_true", help='one object, "schema": 1')
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--nodes", type=int, default=1000)
    options = parser.parse_args(argv)
    if min(options.jobs, options.nodes) < 1:
        parser.error("--jobs and --nodes are at least 1")
    found = measured(options.jobs, options.nodes)
    if options.json:
        figures = [asdict(figure) for figure in found]
        print(json.dumps({"schema": 1, "benchmark": "following", "figures": figures}))
    else:
        print(f"{'':22}{'answers':>8}{'first ms':>10}{'longest ms':>12}")
        for f in found:
            missed = "" if f.kept else f"  MISSED {LIMIT_MS:g}"
            print(f"{f.what:22}{f.answers:>8}{f.first_ms:>10.2f}{f.longest_ms:>12.2f}{missed}")
    return 0 if all(figure.kept for figure in found) else 1


if __name__ == "__main__":
    sys.exit(main())
