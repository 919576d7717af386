"""Commands that start and stop a cluster: up, down, server."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from dq_client.base import messages as m
from dq_client.base.connection import ask
from dq_client.base.errors import NoServer, UsageError
from dq_client.base.home import Home, is_alive
from dq_client.base.values import require_above_zero
from dq_client.cli import standby_commands, upkeep_commands
from dq_client.cli.requests import json_option
from dq_client.cli.requests import server as connected
from dq_client.deploy import batch_settings, sidecars
from dq_client.deploy import local as bringup
from dq_client.deploy.cluster import ClusterShape, local_cluster, read_cluster, usable_cores
from dq_client.deploy.mechanism import choose, require_fit
from dq_client.deploy.ssh.filesystem import network_kind
from dq_client.examples import cluster_file
from dq_client.node import supervision
from dq_client.show.output import note, print_json, say
from dq_client.show.report.text import processors

SLURM = "slurm"
CLOCKS_DIFFER_S = 2.0


def cluster_of(file: str | None, local: int | None) -> ClusterShape:
    """The cluster that --cluster or --local names; this machine's cores otherwise."""
    if file is not None and local is not None:
        raise UsageError("give either --cluster or --local")
    if file == SLURM and not Path(file).is_file():
        return ClusterShape(SLURM, SLURM)  # the allocation that this runs in
    if file is not None:
        return read_cluster(cluster_file(file))
    return local_cluster(usable_cores() if local is None else local)


def server_options(o: dict[str, Any]) -> list[str]:
    """Options of a command as those of the server process, but for --address."""
    options: list[str] = []
    if o["config"] is not None:
        options += ["--config", str(Path(o["config"]).absolute())]
    for name in ("heartbeat", "lost_after"):
        if o[name] is not None:
            option = f"--{name.replace('_', '-')}"
            require_above_zero(option, o[name], m.HEARTBEAT_S_MAX)
            options += [option, str(o[name])]
    if None not in (o["heartbeat"], o["lost_after"]) and o["lost_after"] < 2 * o["heartbeat"]:
        raise UsageError("--lost-after: give two --heartbeat or more: one may come late")
    if o["launcher"] is not None:
        options += ["--launcher", o["launcher"]]
    return options + ["--yes-as-root"] * o["yes_as_root"]


def warn_of_network_disk(home: Home) -> None:
    """Say so if the journal would lie where it is not safe."""
    if kind := network_kind(home.root):
        note(
            f"{home.root} lies on a network file system ({kind}), on which SQLite's journal is not"
            " safe: set DQ_HOME to a folder on a local disk"
        )


def _at(address: str | None) -> list[str]:
    return [] if address is None else ["--address", address]


def _common(command: Any) -> Any:
    for option in (
        click.option("--address", help="Where the server listens, as tcp://127.0.0.1:5555."),
        click.option("--config", help="Configuration file of the scheduler (TOML)."),
        click.option("--heartbeat", type=float, help="Seconds between the agents' heartbeats."),
        click.option(
            "--lost-after",
            type=float,
            help="Seconds of silence after which an agent's nodes count as lost (docs/cluster.md).",
        ),
        click.option("--yes-as-root", is_flag=True, help="Let others reach a server run by root."),
        click.option(
            "--launcher",
            type=click.Choice(["dq", "mpiexec"]),
            help="Launcher of the ranks; overrides the configuration file.  [default: dq]",
        ),
    ):
        command = option(command)
    return command


@click.command()
@click.option("--cluster", "file", help="Cluster file, or the name of one of ours (hostfiles/).")
@click.option("--local", type=int, help="This machine as N processors.")
@click.option(
    "--fidelity", type=click.Choice(["paced", "contained", "auto"]), default="paced",
    help="How emulated nodes are slowed (docs/emulation.md).",
)  # fmt: skip
@click.option("--detach", is_flag=True, help="Return once the cluster is up.")
@click.option("--all", "need_all", is_flag=True, help="Hosts: give up if one cannot be used.")
@_common
@json_option
def up(
    file: str | None,
    local: int | None,
    fidelity: str,
    detach: bool,
    need_all: bool,
    as_json: bool,
    address: str | None,
    **others: Any,
) -> None:
    """Start server and agents; without --detach, stop them again at Ctrl-C.

    In a cluster that runs already, start its missing parts; jobs run on, and so does the cluster,
    with or without --detach.

    --cluster slurm, inside of salloc or sbatch, takes the nodes of the allocation.
    """
    home = Home.default()
    cluster = cluster_of(file, local)
    options = server_options(others)
    allocated: dict[str, int] = {}
    if cluster.engine == SLURM and not cluster.batch:
        home, allocated = _allocation(home)
    warn_of_network_disk(home)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: nothing is left behind
    batch_settings.refuse_other(home, cluster.batch)
    was_there = batch_settings.has_server(home)
    if cluster.engine == "hosts":
        _up_hosts(home, cluster, options, address, need_all=need_all, as_json=as_json)
    elif allocated:
        _up_allocation(home, allocated, options, address, as_json=as_json)
    elif cluster.batch:
        _up_pool(home, cluster, options, address, as_json=as_json)
    else:
        options = [*options, *_at(address)]
        any_cluster = file is None and local is None
        if not _mended(home, None if any_cluster else cluster, options, as_json=as_json):
            _up_here(home, cluster, options, fidelity, as_json=as_json)
    if was_there:  # by another command, whose cluster this one must not end
        note("it goes on: dq down stops it")
    elif not detach:
        _until_interrupted(home)


def _mended(home: Home, asked: ClusterShape | None, options: list[str], *, as_json: bool) -> bool:
    """Whether there was a cluster already; what was missing of it is there now."""
    from dq_client.deploy import resume

    done = resume.mend(home, asked, options)
    if done is None:
        return False
    nodes = [node for nodes in done.fleet.agents.values() for node in nodes]
    if as_json:
        print_json(
            server={"pid": done.info["pid"], "address": done.info["address"]},
            nodes=len(nodes),
            processors=sum(node.processors for node in nodes),
            mechanism=done.fleet.mechanism,
            started={"server": done.server, "agents": done.agents},
        )
    note(f"the cluster {done.fleet.name} is there already; {done.words}")
    return True


def _up_here(
    home: Home, cluster: ClusterShape, options: list[str], fidelity: str, *, as_json: bool
) -> None:
    require_fit(cluster)
    mechanism = choose(cluster, fidelity)
    count = len(cluster.nodes)
    size = f"{processors(cluster.processors)} on {count} node{'s' * (count != 1)}"
    note(f"starting {cluster.name}: {size}")
    if mechanism.words:
        note(mechanism.words)
    info = bringup.bring_up(home, cluster, options, mechanism.name, keep_alive=True)
    found = {"nodes": len(cluster.nodes), "processors": cluster.processors}
    _say_up(info, "", found | {"mechanism": mechanism.name}, as_json=as_json)


def _say_up(info: Mapping[str, object], what: str, found: dict[str, Any], *, as_json: bool) -> None:
    """Print that the cluster is up, and what it has: `found` with --json, `what` in words."""
    server = {"pid": info["pid"], "address": info["address"]}
    if as_json:
        print_json(server=server, **found)
    note(f"the cluster is up{what} (server {info['pid']} at {info['address']})")


def _up_hosts(
    home: Home,
    cluster: ClusterShape,
    options: list[str],
    address: str | None,
    *,
    need_all: bool,
    as_json: bool,
) -> None:
    from dq_client.deploy.resume import mend_hosts, started_words
    from dq_client.deploy.ssh import bringup as hosts

    count = len(cluster.hosts)
    done = mend_hosts(home, cluster, options, note, address=address, need_all=need_all)
    if done is None:
        note(f"starting {cluster.name}: {count} hosts, by ssh")
        done = hosts.bring_up(home, cluster, options, note, address=address, need_all=need_all)
    found = {
        "nodes": len(done.up),
        "processors": done.processors,
        "hosts": done.up,
        "problems": done.problems,
    }
    some = f"{len(done.up)} of {count} hosts" if done.problems else f"{count} hosts"
    what = f": {some}, {done.processors} processors"
    if done.started is not None:
        found["started"] = {"server": False, "agents": done.started}
        nothing = bool(done.problems) and not done.started
        words = started_words(done.started, server=False)
        what += f"; {'nothing could be started' if nothing else words}"
    _say_up(done.info, what, found, as_json=as_json)


def _allocation(base: Home) -> tuple[Home, dict[str, int]]:
    """The home of a cluster in this allocation, and its nodes; UsageError outside of one."""
    from dq_client.deploy.slurm import allocation

    nodes = allocation.nodes_here()
    return allocation.home_here(base), nodes


def _up_allocation(
    home: Home, nodes: dict[str, int], options: list[str], address: str | None, *, as_json: bool
) -> None:
    from dq_client.deploy.slurm import allocation

    words = f"{len(nodes)} nodes of this allocation"
    note(f"starting on {words}")
    info = allocation.bring_up(home, nodes, options, address)
    found = {"nodes": len(nodes), "processors": sum(nodes.values()), "pool": None}
    _say_up(info, f": {words}", found, as_json=as_json)


def _up_pool(
    home: Home, cluster: ClusterShape, options: list[str], address: str | None, *, as_json: bool
) -> None:
    from dq_client.deploy.batch import bringup as holders
    from dq_client.deploy.systems import system_of

    systems = {name: system_of(table) for name, table in cluster.batch.items()}
    info = holders.bring_up(home, cluster, systems, options, address)
    some = f"{cluster.pool.get('min', 0)} to {cluster.pool['max']} nodes"
    asked = next(iter(systems.values())).name
    queues = f" in {', '.join(systems)}" if any(systems) else ""
    found = {"nodes": 0, "processors": 0, "pool": cluster.pool}
    _say_up(info, f": {some}, which {asked} is asked for{queues}", found, as_json=as_json)


def _until_interrupted(home: Home) -> None:
    note("Ctrl-C stops it")
    try:
        while True:
            time.sleep(0.5)
            if not supervision.restores_server(home):
                home.server()
    except KeyboardInterrupt:
        note("stopping")
        _bring_down(home, force=True)
    except NoServer:
        note("the cluster was stopped")


@click.command()
@click.option("--force", is_flag=True, help="Kill running jobs first.")
def down(force: bool) -> None:
    """Stop the cluster; refused while jobs run, unless --force."""
    _bring_down(Home.default(), force=force)
    note("the cluster is down")


def _bring_down(home: Home, *, force: bool) -> None:
    try:
        _bring_cluster_down(home, force=force)
    except NoServer:
        sidecars.stop_all(home, force=force)
        raise
    sidecars.stop_all(home, force=force)  # not before: it stays if the cluster does


def _bring_cluster_down(home: Home, *, force: bool) -> None:
    noted = batch_settings.noted(home)
    if noted is not None:
        from dq_client.deploy.batch import bringup as holders
        from dq_client.deploy.systems import system_of

        system = system_of(noted.table, noted.kill_wait_s)
        holders.bring_down(home, noted, system, force=force, say=note)
        return
    from dq_client.deploy.ssh import bringup as hosts

    hosts.bring_down(home, force=force, say=note)


@click.group()
def server() -> None:
    """The server alone. Agents and jobs go on without it and connect to the next one."""


for part in (upkeep_commands.check, *standby_commands.COMMANDS):
    server.add_command(part)


@server.command("start")
@click.option("--detach", is_flag=True, help="Return once it serves.")
@_common
@json_option
def server_start(
    detach: bool,
    as_json: bool,
    address: str | None,
    **others: Any,
) -> None:
    """Start the server; without --detach, stop it at Ctrl-C."""
    from dq_client.deploy.ssh import bringup as hosts

    home = Home.default()
    warn_of_network_disk(home)
    options = server_options(others)
    # The server of machines that are there already.
    if hosts.noted_hosts(home) or batch_settings.noted(home) is not None:
        options = hosts.with_patience(options)
    info = bringup.start_server(home, [*options, *_at(address)])
    if as_json:
        print_json(server={"pid": info["pid"], "address": info["address"]})
    note(f"the server {info['pid']} listens at {info['address']}")
    if not detach:
        try:
            while is_alive(int(str(info["pid"]))):
                time.sleep(0.2)
        except KeyboardInterrupt:
            bringup.stop_server(home)


@server.command("stop")
def server_stop() -> None:
    """Stop the server; jobs go on."""
    bringup.stop_server(Home.default())
    note("the server is stopped; jobs and agents go on: dq server start brings it back")


@server.command("status")
@json_option
def server_status(as_json: bool) -> None:
    """Show the server."""
    info = Home.default().server()
    with connected() as connection:
        status = ask(connection, m.StatusQuery())
    if as_json:
        print_json(pid=info["pid"], **status)
        return
    say(f"pid:        {info['pid']}")
    for key in ("address", "version", "epoch", "launcher", "growth", "processors", "idle"):
        say(f"{key + ':':12}{status[key]}")
    counts = ", ".join(f"{n} {state}" for state, n in status["jobs"].items() if n)
    say(f"jobs:       {counts or 'none'}")
    off_s = time.time() - status["now_s"]
    if abs(off_s) > CLOCKS_DIFFER_S:
        where = "ahead of" if off_s > 0 else "behind"
        say(f"clock:      the system clock is {abs(off_s):.0f} s {where} the cluster's time,"
            " which times are shown in (docs/faults.md)")  # fmt: skip
    if (standby := status["standby"]) is not None:
        how = f"{standby['behind']} events behind" if standby["follows"] else "does not follow"
        say(f"standby:    {standby['name']} at {standby['address']}, {how}")
    if status["stalled"]:
        say(f"stalled:    {status['stalled']}")
    for name, agent in status["agents"].items():
        for text in agent["troubles"]:
            say(f"{f'agent {name}:':12}{text}")
