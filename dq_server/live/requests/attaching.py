"""The request of a program that somebody has started with mpiexec: to be a job from now on."""

from __future__ import annotations

from dq_client.base import messages as m
from dq_server.core.model import events as ev
from dq_server.core.model.actions import JobAccepted
from dq_server.core.model.jobs import JobState
from dq_server.core.model.launching import Launching
from dq_server.live import translate
from dq_server.live.context import Desk
from dq_server.live.orders.dispatch import told
from dq_server.live.requests.call import Call, handles
from dq_server.live.requests.users import with_app_name


@handles(m.Attach)
def attach(desk: Desk, call: Call[m.Attach]) -> m.ReplyBody:
    """It gets the processors where its ranks run, and the agents there are told of them."""
    if desk.draining:
        return m.Error("refused", "the server is going down and takes no more jobs")
    body = call.body
    ranks = len(body.pids)
    if len(body.machine_of) != ranks or max(body.machine_of) >= len(body.machines):
        return m.Error("usage", f"{ranks} ranks need a process and a machine each")
    for k, machine in enumerate(body.machines):
        if not _nodes_on(desk, machine):
            rank = body.machine_of.index(k) if k in body.machine_of else 0
            return m.Error("refused", f"no agent on the machine of rank {rank} takes in its ranks")
    submission = with_app_name(desk, body.submission)
    if submission.array is not None or submission.retry:
        return m.Error("usage", "ranks that run already are one job, and cannot be started again")
    capacity = desk.state.processors.capacity
    event = ev.JobAttached(
        spec=translate.submission(
            submission, desk.user, capacity, Launching.JOIN, apart=desk.agents.apart()
        ),
        places=tuple(_nodes_on(desk, machine) for machine in body.machines),
        place_of=tuple(body.machine_of),
        pids=tuple(body.pids),
    )
    actions = desk.apply(event)
    job = desk.state.job(next(a.job for a in actions if isinstance(a, JobAccepted)))
    # A repeat may come late, when the first answer got lost.
    if job.state not in (JobState.STARTING, JobState.RUNNING) or job.size != ranks:
        return m.Error("refused", f"job {job.id}, which it was for a moment, is {job.state}")
    nodes = [desk.state.processors.node_of[p] for p in job.allocation]
    by_node = desk.agents.by_node
    return m.Attached(
        job=job.id,
        instance=job.instance,
        env=told(desk, job),
        nodes=nodes,
        agents={node: by_node[node].name for node in nodes if node in by_node},
    )


def _nodes_on(desk: Desk, machine: str) -> tuple[str, ...]:
    """The nodes of this machine whose agents take in ranks."""
    links = [(node, desk.agents.by_node.get(node)) for node in desk.state.processors.nodes]
    return tuple(node for node, link in links if link is not None and link.machine == machine != "")
