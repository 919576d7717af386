"""The pool: `dq pool`."""

from __future__ import annotations

from typing import Any

import click

from dq_client.base import messages as m
from dq_client.base.connection import ask
from dq_client.cli.requests import cluster_now, json_option, records
from dq_client.show.output import clock, note, print_json, say, table
from dq_client.show.report.text import seconds

SHOWN = 15  # decisions, without --all


@click.command()
@click.option("--all", "everything", is_flag=True, help="All decisions that the server remembers.")
@json_option
def pool(everything: bool, as_json: bool) -> None:
    """Show the nodes requested from the engine, and the decisions about them with their reasons."""
    with records() as connection:
        found, now = ask(connection, m.PoolQuery()), cluster_now(connection)
    if as_json:
        print_json(pool=found)
        return
    say(_head(found))
    if found["refused"] is not None:
        say(f"the engine refused last: {_refused(found['refused'], now)}")
    if found.get("queues"):
        say()
        say(_queues(found["queues"], now))
    say()
    say(_tickets(found["tickets"], now))
    shown = found["decisions"] if everything else found["decisions"][-SHOWN:]
    if shown:
        say()
        say(_decisions(shown))
    left = len(found["decisions"]) - len(shown)
    if left:
        note(f"{left} earlier decisions: dq pool --all")


def _head(found: dict[str, Any]) -> str:
    per_node = found["shape"]["processors"]
    words = f"{found['min']} to {found['max']} nodes of {per_node} processor{'s'[: per_node > 1]}"
    words += f", given back when idle for {seconds(found['idle_s'])}"
    if found["lasts_s"] is not None:
        words += f"; each lasts {seconds(found['lasts_s'])}"
    return words


def _refused(found: dict[str, Any], now: float) -> str:
    wait_s = found["until_s"] - now
    again = f"; it is asked again in {seconds(wait_s)}" if wait_s > 0 else ""
    return f"{found['why']}{again}"


def _queues(queues: list[dict[str, Any]], now: float) -> str:
    return table(
        ("QUEUE", "NODES", "MAX", "EACH LASTS", "REFUSED LAST"),
        [
            (
                q["name"],
                q["nodes"],
                q["max"],
                None if q["lasts_s"] is None else seconds(q["lasts_s"]),
                "-" if q["refused"] is None else _refused(q["refused"], now),
            )
            for q in queues
        ],
    )


def _tickets(tickets: list[dict[str, Any]], now: float) -> str:
    named = any(t.get("queue") for t in tickets)
    head = ("TICKET", *["QUEUE"][:named], "NODE", "STATE", "PROCS", "ASKED", "ENDS IN", "WHY")
    return table(
        head,
        [
            (
                t["ticket"],
                *[t.get("queue") or "-"][:named],
                t["node"] or "-",
                t["state"],
                t["processors"],
                clock(t["asked_s"]),
                None if t["until_s"] is None else seconds(max(0.0, t["until_s"] - now)),
                t["pending"] or t["reason"]["text"],
            )
            for t in tickets
        ],
    )


def _decisions(decisions: list[dict[str, Any]]) -> str:
    rows = [(clock(d["time_s"]), d["what"], d["ticket"], d["text"]) for d in decisions]
    return table(("TIME", "WHAT", "TICKET", "WHY"), rows)
