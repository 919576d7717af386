"""Output of jobs: users ask for it, agents have it, and hand it over when they leave."""

from __future__ import annotations

from typing import Any

import msgspec

from dq_client.base import messages as m
from dq_server.core.model.errors import UnknownJob
from dq_server.core.model.places import ran_on
from dq_server.live.context import Desk, LogQuery
from dq_server.live.requests.call import Call, handles


@handles(m.LogsQuery)
def logs_query(desk: Desk, call: Call[m.LogsQuery]) -> m.ReplyBody | None:
    """Ask the agent that started the job, or the named node's; its answer becomes the reply.

    Where there is no agent any more, what it has handed over is read, or the folder that it shared.
    """
    body = call.body
    job_id, nodes, ended = written_on(desk, body.job)
    if not nodes:
        return m.LogPiece(data=b"", offset=body.offset, end=ended)
    node = body.node or nodes[0]
    link = desk.agents.by_node.get(node)
    if link is None:
        kept = desk.kept_output.read(job_id, node, body.stream, body.offset)
        if kept is None:
            return m.Error("refused", f"the agent of node {node}, which has the output, is away")
        others = _each_once(desk, nodes, {node})
        end = kept.end and (ended or bool(body.node))
        return msgspec.structs.replace(kept, elsewhere=others, end=end)
    others = _each_once(desk, nodes, {node.name for node in link.nodes})
    over = ended or bool(body.node)
    query = LogQuery(call.identity, call.request_id, link.name, tuple(others), over)
    ticket = desk.log_queries.add(query)
    order = m.ReadLog(ticket=ticket, job=job_id, stream=body.stream, offset=body.offset)
    desk.order(link, order)
    return None


def written_on(desk: Desk, asked: int) -> tuple[int, list[str], bool]:
    """Which job is asked for, the nodes that may have output of it, and whether it has ended."""
    try:
        job = desk.job(asked)
    except UnknownJob as unknown:
        found = archived(desk, asked, unknown)["job"]
        return asked, list(found.get("ran_on", [])), True
    nodes = ran_on(desk.state, job) if job.first_processor >= 0 else []
    # mpiexec gathers all output where it runs.
    return job.id, nodes if job.launching.by_agents else nodes[:1], job.end_s is not None


def archived(desk: Desk, job_id: int, unknown: UnknownJob) -> dict[str, Any]:
    """An ended job that the scheduler has forgotten, as it was; raises `unknown` otherwise."""
    found = desk.journal.archived(job_id)
    if found is None:
        raise unknown
    view: dict[str, Any] = msgspec.json.decode(found)
    return view


def _each_once(desk: Desk, nodes: list[str], without: set[str]) -> list[str]:
    """The other nodes, one for each agent: nodes of one agent have the same files."""
    agents: dict[str, str] = {}
    for node in nodes:
        if node not in without:
            link = desk.agents.by_node.get(node)
            agents.setdefault(link.name if link is not None else f"away {node}", node)
    return sorted(agents.values())


@handles(m.KeepLog)
def keep_log(desk: Desk, call: Call[m.KeepLog]) -> m.ReplyBody:
    """Output of a node that leaves; its agent is none of ours any more by then."""
    body = call.body
    if body.node not in written_on(desk, body.job)[1]:
        return m.Error("refused", f"job {body.job} has written nothing on node {body.node}")
    refusal = desk.kept_output.keep(body)
    return m.Error("refused", refusal) if refusal else m.Done()


@handles(m.LogAnswer)
def log_answer(desk: Desk, call: Call[m.LogAnswer]) -> m.ReplyBody:
    """A piece of output for the user who asked, from the agent that was asked."""
    body = call.body
    link = desk.agents.of_identity(call.identity)
    query = None if link is None else desk.log_queries.pop(body.ticket, link.name)
    if query is not None:
        piece = m.LogPiece(
            data=body.data,
            offset=body.offset,
            end=body.end and query.over,
            home=body.home,
            elsewhere=list(query.elsewhere),
        )
        desk.reply(query.identity, query.request_id, piece)
    return m.Done()
