"""Figures for Prometheus, made of what the page shows at the moment they are asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dq_client.show.feed.model import Model

JOB_STATES = (
    "held", "waiting", "queued", "starting", "running", "killing", "restarting", "done", "failed",
    "killed",
)  # fmt: skip
NODE_STATES = ("up", "draining", "empty", "lost", "left")
WAITING = ("queued", "waiting", "held", "restarting")
ACTIVE = ("starting", "running", "killing")
JOB_FIGURES = (  # of jobs that run; key of `usage`, none: of the job itself
    ("dq_job_processors", "Processors that a job has.", ""),
    ("dq_job_cpu_busy", "Processors that a job keeps busy.", "cpu"),
    ("dq_job_memory_bytes", "Resident memory of a job.", "memory"),
    ("dq_job_memory_max_bytes", "The most resident memory of a job so far.", "memory_max"),
)


class Figures(Collector):
    """See the module's docstring. Counters count since `dq web` began."""

    def __init__(self, model: Model, now: float) -> None:
        self._model, self._now = model, now

    def collect(self) -> Iterator[Metric]:
        """All of them; a state without jobs or nodes is 0, not missing."""
        status, jobs, nodes, told = self._model.figures()
        yield _one("dq_up", "1 if the server answers.", float(status["up"]))
        yield _one("dq_server_epoch", "How often the server has started.", status.get("epoch", 0))
        yield _one("dq_processors", "Processors of nodes that are up.", status.get("processors", 0))
        yield _one("dq_processors_idle", "Processors that nobody has.", status.get("idle", 0))
        busy = sum(job["processors"] for job in jobs if job["state"] in ACTIVE)
        yield _one("dq_processors_allocated", "Processors that jobs run on.", busy)
        yield _by_state("dq_jobs", "Jobs by state.", JOB_STATES, (job["state"] for job in jobs))
        yield _by_state("dq_nodes", "Nodes by state.", NODE_STATES, (n["state"] for n in nodes))
        waits = [self._now - job["submit_s"] for job in jobs if job["state"] in WAITING]
        longest = max(waits, default=0.0)
        yield _one("dq_longest_wait_seconds", "Of the jobs that wait now.", max(0.0, longest))
        ended = [job["end_s"] - job["submit_s"] for job in jobs if job["end_s"] is not None]
        mean = sum(ended) / len(ended) if ended else 0.0
        text = "From submission to end, the mean of the ended jobs that the server remembers."
        yield _one("dq_turnaround_mean_seconds", text, mean)
        decisions = CounterMetricFamily(
            "dq_decisions", "Decisions of the scheduler by kind.", labels=["what"]
        )
        for what, count in sorted(told.items()):
            decisions.add_metric([what], count)
        yield decisions
        for name, text, key in JOB_FIGURES:
            family = GaugeMetricFamily(name, text, labels=["job", "name", "user"])
            for job in jobs:
                value = job["processors"] if not key else (job.get("usage") or {}).get(key)
                if job["state"] in ACTIVE and value is not None:
                    family.add_metric([str(job["id"]), job["name"], job["user"]], value)
            yield family


def _one(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def _by_state(name: str, text: str, states: tuple[str, ...], found: Iterable[str]) -> Metric:
    counts, family = Counter(found), GaugeMetricFamily(name, text, labels=["state"])
    for state in dict.fromkeys((*states, *counts)):
        family.add_metric([state], counts[state])
    return family


def text_of(model: Model, now: float) -> bytes:
    """All figures in Prometheus' text format."""
    registry = CollectorRegistry()
    registry.register(Figures(model, now))
    return generate_latest(registry)
