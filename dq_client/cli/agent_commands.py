"""Commands for node agents: in the background (start, stop, status), in the foreground (run)."""

from __future__ import annotations

import os
import signal
import time
from contextlib import closing
from typing import Any

import click

from dq_client.base import credentials, network
from dq_client.base import messages as m
from dq_client.base.connection import Connection, ask
from dq_client.base.errors import NotFound, Refused, UsageError
from dq_client.base.hardware import gpu_count, memory_bytes
from dq_client.base.home import Home, is_alive
from dq_client.base.values import parse_memory, parse_time, require_above_zero
from dq_client.cli.requests import json_option
from dq_client.deploy import local
from dq_client.deploy.cluster import require_feature, require_name, usable_cores
from dq_client.node import local_agents
from dq_client.show.output import note, print_json, say, table

KNOWN_WITHIN_S = 30.0  # by the server, a new agent


@click.group()
def agent() -> None:
    """Node agents of this machine: each offers it as a node and runs the ranks of jobs there."""


def _described(command: Any) -> Any:
    for option in (
        click.option("--node", help="Name of the node.  [default: this machine's host name]"),
        click.option(
            "--processors", type=click.IntRange(1, m.NODE_PROCESSORS_MAX),
            help="Processors it offers (default: usable cores).",
        ),
        click.option(
            "--memory", metavar="SIZE",
            help="Memory that jobs there may ask for: 64G, 512M.  [default: all]",
        ),
        click.option(
            "--gpus", type=click.IntRange(0, m.GPUS_MAX),
            help="GPUs that jobs there may ask for.  [default: all]",
        ),
        click.option(
            "--features", metavar="NAME,NAME", default="",
            help="Features that jobs may ask for there (dq submit --constraint).",
        ),
        click.option("--speed", type=float, default=1.0, help="Speed relative to the other nodes."),
        click.option(
            "--interface",
            help="Network shared with the other nodes: a name, an address or a network"
            " (10.77.0.0/24).  [default: the one that leads to the server]",
        ),
        click.option(
            "--leave-within",
            help="How long it waits for jobs to leave when it is stopped: 90s, 10m."
            "  [default: the server's, 30s]",
        ),
    ):  # fmt: skip
        command = option(command)
    return command


def _node(o: dict[str, Any]) -> m.NodeInfo:
    """The node that the options describe; UsageError if it cannot be."""
    name = require_name(o["node"] or os.uname().nodename)
    require_above_zero("--speed", o["speed"], m.NODE_SPEED_MAX)
    if o["interface"]:
        network.find(o["interface"])  # UsageError
    words = [word.strip() for word in o["features"].split(",")] if o["features"] else []
    return m.NodeInfo(
        name,
        usable_cores() if o["processors"] is None else o["processors"],
        name,
        o["speed"],
        memory=memory_bytes() if o["memory"] is None else parse_memory("--memory", o["memory"]),
        gpus=gpu_count() if o["gpus"] is None else o["gpus"],
        features=[require_feature("--features", word) for word in words],
        until_s=time.time() + parse_time("--lasts", o["lasts"]) if o.get("lasts") else None,
        ticket=o.get("holder", 0),  # these two are options of `run` only
    )


def _leave_within_s(text: str | None) -> float | None:
    return None if text is None else parse_time("--leave-within", text)


@agent.command("start")
@_described
def agent_start(**o: Any) -> None:
    """Start an agent that offers this machine as a node."""
    home = Home.default()
    info = _node(o)
    credentials.of_agent(home, info.name)  # NoServer
    if info.name in local_agents.running_agents(home):
        raise Refused(f"agent {info.name} is running already")
    within_s = _leave_within_s(o["leave_within"])
    pid = local.start_agent(home, info.name, [info], o["interface"] or "", within_s)
    with closing(Connection.to(home)) as connection:
        local.wait_until(
            lambda: _has_reported(connection, info.name, pid) or not is_alive(pid),
            KNOWN_WITHIN_S,
            f"agent {info.name} (pid {pid}) runs, but the server does not have it yet: see"
            f" {home.log / f'agent-{info.name}.log'}",
        )
    if not is_alive(pid):
        raise local.last_words(home, f"agent-{info.name}", 1)
    note(f"agent {info.name} runs (pid {pid})")


def _has_reported(connection: Connection, name: str, pid: int) -> bool:
    """Whether the server has the agent of this process, and its node."""
    agent = ask(connection, m.StatusQuery())["agents"].get(name)
    return agent is not None and agent["pid"] == pid


@agent.command("run")
@_described
@click.option(
    "--credentials", "source", metavar="FILE",
    help="Output of dq agent credentials, where the server's DQ_HOME is not shared; - reads it"
    " from standard input.",
)  # fmt: skip
@click.option("--lasts", help="Lifetime of the node: 90m, 12h. Jobs leave before its end.")
# From a batch script of ours: the pool's ticket under which this node was requested.
@click.option("--holder", type=int, hidden=True, default=0)
# There, too: what the signals of the batch system mean, of which it sends one before each end.
@click.option("--notice", "notices", multiple=True, hidden=True, metavar="SIGNAL=TIME")
def agent_run(source: str | None, notices: tuple[str, ...], **o: Any) -> None:
    """Run an agent in the foreground, for systemd, batch jobs and containers.

    SIGTERM ends it once the jobs have left, a second one at once.
    """
    from dq_client.node.agent.__main__ import serve

    home = Home.default()
    if o["holder"]:
        from dq_client.deploy.batch import holder

        home = holder.own_home(home)
        o["node"] = holder.free_name(home, o["node"] or os.uname().nodename)
    info = _node(o)
    given = None if source is None else credentials.read(source)
    within_s = _leave_within_s(o["leave_within"])
    of_signals = dict(map(read_notice, notices))
    serve(home, info.name, [info], o["interface"] or "", None, None, given, within_s, of_signals)


def read_notice(text: str) -> tuple[int, float]:
    """A signal and seconds from TERM=30s."""
    name, _, time_left = text.partition("=")
    try:
        number = signal.Signals[f"SIG{name}"]
    except KeyError:
        raise UsageError(f"--notice {text}: need a signal and a time, as in TERM=30s") from None
    return number, parse_time("--notice", time_left)


@agent.command("credentials")
def agent_credentials() -> None:
    """Print what an agent on a machine without this DQ_HOME needs. It is a secret."""
    say(credentials.encode(credentials.of_home(Home.default())))


@agent.command("stop")
@click.argument("names", nargs=-1)
@click.option("--now", "at_once", is_flag=True, help="With the processes of their jobs.")
def agent_stop(names: tuple[str, ...], at_once: bool) -> None:
    """Stop agents of this machine (all, or those named), once their jobs have left.

    Jobs that have not left in time (dq agent start --leave-within) end with the agent.
    """
    home = Home.default()
    if missing := set(names) - local_agents.running_agents(home).keys():
        raise NotFound(f"no agent {min(missing)} runs here: dq agent status lists those that do")
    if not at_once:
        note("jobs may leave first; dq agent stop --now does not wait for that")
    stopped = local.stop_agents(home, list(names) or None, at_once=at_once)
    note(f"stopped: {' '.join(stopped) or 'none was running'}")


@agent.command("status")
@json_option
def agent_status(as_json: bool) -> None:
    """Show agents of this machine."""
    found = local_agents.running_agents(Home.default())
    if as_json:
        print_json(agents={name: {"pid": info["pid"]} for name, info in found.items()})
        return
    say(table(("AGENT", "PID"), [(name, int(info["pid"])) for name, info in found.items()]))
