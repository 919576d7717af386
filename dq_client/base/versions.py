"""Which DQ a process is of, and what to do where two versions meet that cannot talk.

The number of the protocol decides: versions of one protocol understand each other. It stands in
each hello, in the server's file and in each agent's, so that whoever comes later can be told before
anything happens (docs/years.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dq_client import __version__
from dq_client.base.errors import UsageError
from dq_client.base.messages.base import PROTOCOL

FORCE = "dq down --force of either version ends all of it"
TODO = (
    "jobs there go on, and only a server of the agent's version can manage them. Start that one,"
    f" let the jobs end, dq down, then upgrade. {FORCE}"
)


def noted() -> dict[str, Any]:
    """What a process writes into its file about itself."""
    return {"version": __version__, "protocol": PROTOCOL}


def named(version: str, protocol: int) -> str:
    """A version for people."""
    return f"DQ {version or '0.1'} (protocol {protocol})"  # 0.1 did not name itself


OURS = named(__version__, PROTOCOL)


def require_server(info: Mapping[str, Any], where: object) -> None:
    """UsageError if the server of this file speaks another protocol."""
    if theirs := _other(info):
        raise UsageError(
            f"the server of {where} is {theirs}, this is {OURS}: use dq of that version; to"
            f" upgrade, let the jobs end, dq down with that version, dq up with this one. {FORCE}"
        )


def require_agents(agents: Mapping[str, Mapping[str, Any]], where: object) -> None:
    """UsageError if one of these agents, which run, speaks another protocol than this server."""
    for name, info in agents.items():
        if theirs := _other(info):
            raise UsageError(
                f"agent {name} (pid {info['pid']}) of {where} is {theirs}, this server {OURS}:"
                f" {TODO}"
            )


def refusal(agent: str, version: str, protocol: int) -> str:
    """What an agent of another protocol is told."""
    return f"agent {agent} is {named(version, protocol)}, this server {OURS}: {TODO}"


def _other(info: Mapping[str, Any]) -> str:
    """Which version wrote this file, for people; empty: one that we can talk with."""
    protocol = info.get("protocol", 1)
    if protocol == PROTOCOL:
        return ""
    return named(str(info.get("version", "")), protocol if isinstance(protocol, int) else 0)
