"""Nodes: `dq nodes`, `dq node drain`, `dq node resume`, `dq node remove`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from dq_client.base import messages as m
from dq_client.base.connection import ask
from dq_client.base.errors import DQError
from dq_client.base.hardware import shown_bytes
from dq_client.base.values import parse_time
from dq_client.cli.requests import cluster_now, json_option, records, server
from dq_client.show.output import clock, note, print_json, say, table
from dq_client.show.report.text import seconds


@click.command()
@click.option("--all", "everything", is_flag=True, help="Also nodes that have left.")
@json_option
def nodes(everything: bool, as_json: bool) -> None:
    """List nodes: up, draining, empty (drained), lost or left."""
    with records() as connection:
        found, now = ask(connection, m.NodesQuery()), cluster_now(connection)
    if as_json:
        print_json(nodes=found)
        return
    shown = [n for n in found if everything or n["state"] != "left"]
    say(nodes_table(shown, now))
    left = len(found) - len(shown)
    if left:
        note(f"{left} more {'has' if left == 1 else 'have'} left: dq nodes --all")


def nodes_table(found: list[dict[str, Any]], now: float) -> str:
    """The table of `dq nodes`; with columns for what nodes have and what drains where any does."""
    head: tuple[str, ...] = ("NODE", "STATE", "PROCS", "IDLE", "MEMORY", "JOBS")
    rows: list[tuple[object, ...]] = [
        (
            n["name"],
            n["state"],
            _processors(n),
            n["idle"],
            shown_bytes(n["memory"]),
            " ".join(map(str, n["jobs"])) or "-",
        )
        for n in found
    ]
    if any(n["gpus"] or n["features"] for n in found):
        head = (*head, "GPUS", "FEATURES")
        rows = [
            (*row, n["gpus"], ",".join(n["features"]) or "-")
            for row, n in zip(rows, found, strict=True)
        ]
    if any(n.get("queue") for n in found):
        head = (*head, "QUEUE")
        rows = [(*row, n.get("queue") or "-") for row, n in zip(rows, found, strict=True)]
    if any(n["drain"] for n in found):
        head = (*head, "DRAINED")
        rows = [(*row, drain_words(n["drain"], now)) for row, n in zip(rows, found, strict=True)]
    return table(head, rows)


def _processors(node: dict[str, Any]) -> str:
    had = node["processors"] + node["processors_gone"]
    return f"{node['processors']} (had {had})" if node["processors_gone"] else str(had)


def drain_words(drain: dict[str, Any] | None, now: float) -> str:
    """Why, by whom and until when a node drains, in words."""
    if not drain:
        return "-"
    words = f"{clock(drain['asked_s'])} by {drain['by'] or 'the user'}"
    if drain["deadline_s"] is not None:
        left_s = drain["deadline_s"] - now
        words += f", {seconds(left_s)} left" if left_s > 0 else ", its deadline has passed"
    if drain["leaves"]:
        words += ", then leaves"
    return words + (f": {drain['reason']}" if drain["reason"] else "")


@click.group()
def node() -> None:
    """Empty nodes, and take them into use again."""


def _each(names: tuple[str, ...], as_json: bool, body: Callable[[str], m.RequestBody]) -> None:
    """Ask for it of each node; the first refusal is raised after the others were asked for."""
    rows, refused = [], None
    with server() as connection:
        for name in dict.fromkeys(names):
            try:
                rows.append(ask(connection, body(name)))
            except DQError as error:
                refused = refused or error
    if as_json:
        print_json(nodes=rows)
    for row in rows:
        jobs = ", ".join(map(str, row["jobs"]))
        plural = "s" if len(row["jobs"]) > 1 else ""
        there = f"; job{plural} {jobs} on it" if jobs and row["drain"] else ""
        is_now = "has left" if row["state"] == "left" else f"is {row['state']}"
        note(f"node {row['name']} {is_now}{there}")
    if refused is not None:
        raise refused


def _drain(
    names: tuple[str, ...], deadline: str | None, reason: str, as_json: bool, *, remove: bool
) -> None:
    within_s = None if deadline is None else parse_time("--deadline", deadline)

    def body(name: str) -> m.RequestBody:
        return m.DrainNode(node=name, within_s=within_s, reason=reason, remove=remove)

    _each(names, as_json, body)


def _draining(command: Any) -> Any:
    for option in (
        click.argument("names", nargs=-1, required=True, metavar="NODE..."),
        click.option("--deadline", help="When the remaining jobs are killed: 90s, 10m, 2h."),
        click.option("--reason", default="", help="Why, for those who look."),
        json_option,
    ):
        command = option(command)
    return command


@node.command("drain")
@_draining
def drain(names: tuple[str, ...], deadline: str | None, reason: str, as_json: bool) -> None:
    """Empty nodes: no new job starts there, and jobs that can be resized leave.

    Others run to their end, or are killed at the deadline; protected ones start again
    elsewhere. dq node resume takes the nodes into use again.
    """
    _drain(names, deadline, reason, as_json, remove=False)


@node.command("remove")
@_draining
def remove(names: tuple[str, ...], deadline: str | None, reason: str, as_json: bool) -> None:
    """Drain nodes, and take them out of the cluster once they are empty.

    An agent without nodes ends. A node is there again when an agent offers it: dq agent start.
    """
    _drain(names, deadline, reason, as_json, remove=True)


@node.command("resume")
@click.argument("names", nargs=-1, required=True, metavar="NODE...")
@json_option
def resume(names: tuple[str, ...], as_json: bool) -> None:
    """Let jobs run again on nodes that drain, or were drained."""
    _each(names, as_json, m.ResumeNode)
