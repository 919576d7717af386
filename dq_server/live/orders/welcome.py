"""What the ranks of an application are told: where they run, and on which grid they should."""

from __future__ import annotations

import msgspec

from dq_client.base import codec
from dq_client.base import messages as m
from dq_server.core.model.jobs import Job
from dq_server.core.model.sizes import Configuration
from dq_server.core.model.spec import JobKind, JobSpec
from dq_server.live.context import Desk

WELCOME_BYTES_MAX = 60_000  # a variable of the environment may have twice as many


def welcome_to(
    desk: Desk, job: Job, processors: tuple[int, ...], shape: Configuration
) -> m.JobWelcome:
    places = desk.places.of(processors)
    node = desk.places.node(places[0].node)
    welcome = m.JobWelcome(
        job=job.id,
        instance=job.instance,
        epoch=desk.epoch,
        places=places,
        rows=shape.rows,
        cols=shape.cols,
        reports=_reports(job.spec),
    )
    if node is None:
        return welcome
    return msgspec.structs.replace(
        welcome,
        link_mbit=node.link_mbit,
        link_latency_us=node.link_latency_us,
        link_duplex=node.link_duplex,
    )


def _reports(spec: JobSpec) -> bool:
    """Whether its remap points are of use: it may be resized, or goes on from where it was."""
    changes = spec.kind in (JobKind.MALLEABLE, JobKind.EVOLVING) or bool(spec.profile)
    return changes or spec.protection is not None


def welcome_variable(desk: Desk, job: Job) -> dict[str, str]:
    """The welcome for the ranks of the expansion under way, as a variable of their environment.

    A question costs them 20 ms; only where there are too many places to tell do they ask.
    """
    pending = job.resize
    assert pending is not None, "an expansion is under way"
    processors = (*job.allocation, *pending.processors)
    text = codec.welcome_text(welcome_to(desk, job, processors, pending.target))
    return {"DQ_WELCOME": text} if len(text) <= WELCOME_BYTES_MAX else {}
