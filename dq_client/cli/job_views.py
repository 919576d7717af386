"""Commands that show jobs."""

from __future__ import annotations

import time
from typing import Any

import click

from dq_client import messages as m
from dq_client.cli.output import clock, duration, print_json, table
from dq_client.cli.requests import JobId, ask, json_option, server
from dq_client.report.growth import NOT_STARTED


@click.command()
@click.option("--active", is_flag=True, help="Leave out jobs that have ended.")
@json_option
def jobs(active: bool, as_json: bool) -> None:
    """List jobs, oldest first."""
    with server() as connection:
        found = ask(connection, m.JobsQuery(active))
    if as_json:
        print_json(jobs=found)
        return
    now = time.time()
    rows = []
    for j in found:
        end = j["end_s"] or now
        took = duration(end - j["start_s"]) if j["start_s"] else "-"
        size = j["processors"] if j["state"] not in NOT_STARTED else None
        spot = j["sweet_spot"]
        rows.append((j["id"], j["name"], j["kind"], j["state"], size, spot, took))
    print(table(("ID", "NAME", "KIND", "STATE", "PROCS", "SWEET SPOT", "RAN"), rows))


@click.command()
@click.argument("job_id", type=JobId(), metavar="ID")
@json_option
def job(job_id: int, as_json: bool) -> None:
    """Show one job and the sizes it has run on."""
    with server() as connection:
        view = ask(connection, m.JobQuery(job_id))
    if as_json:
        # Twice, at the top level and under `job`: scripts read both, so both stay until schema 2.
        print_json(**view, job=view)
        return
    for key in ("id", "name", "kind", "state", "processors", "nodes", "legal_sizes", "reason"):
        value = "-" if view[key] is None else view[key]
        print(f"{key + ':':14}{' '.join(map(str, value)) if isinstance(value, list) else value}")
    if len(view.get("legal_grids", ())) > len(view["legal_sizes"]):  # a size has several
        print(f"{'legal_grids:':14}{' '.join(map(grid_word, view['legal_grids']))}")
    for key in ("submit_s", "start_s", "end_s"):
        print(f"{key[:-2] + ':':14}{clock(view[key])}")
    if view.get("attached"):
        print(f"{'attached:':14}its first ranks were started by mpiexec, and write to its terminal")
    if view["protection"]:
        print(f"{'protection:':14}{protection_line(view)}")
    if view["scheduled"]:
        print()
        print(scheduled_table(view["scheduled"]))
    if view["sizes"]:
        print()
        print(sizes_table(view["sizes"]))


def protection_line(view: dict[str, Any]) -> str:
    """The line of `dq job` about protection: kind, restarts, copies and their cost."""
    p = view["protection"]
    line = f"{p['how']}, {view['restarts']} of {p['restarts_max']} restarts, {p['copies']} copies"
    if p["copies"]:
        mib = p["bytes"] / (1 << 20)
        line += f" ({p['copies_total_s']:.3g} s), the last of turn {p['step']}: {mib:.4g} MiB"
    return line + (f"; failing: {p['error']}" if p["error"] else "")


def scheduled_table(scheduled: dict[str, Any]) -> str:
    """The scheduled steps of an evolution profile; > marks the current one."""
    rows, at_s = [], scheduled["start_s"]
    for step, (duration_s, processors) in enumerate(scheduled["steps"]):
        mark = ">" if step == scheduled["step"] else ""
        rows.append((mark, step + 1, clock(at_s), duration(duration_s), processors))
        at_s += duration_s
    return table(("", "STEP", "SCHEDULED", "FOR", "PROCS"), rows)


def grid_word(grid: list[int]) -> str:
    """A grid as users type it: `2x4`."""
    return f"{grid[0]}x{grid[1]}"


def sizes_table(sizes: list[dict[str, Any]]) -> str:
    """The stays of a job, with the measurements and the decision of each."""
    head = ("SIZE", "GRID", "ITERATIONS", "ITERATION s", "REDISTRIBUTION s", "DECISION", "REASON")
    rows = [
        (
            s["processors"],
            grid_word(s["grid"]),
            s["iterations"],
            s["iteration_time_s"],
            s["redistribution_time_s"],
            s["decision"],
            s["reason"],
        )
        for s in sizes
    ]
    return table(head, rows)


@click.command()
@click.argument("job_id", type=JobId(), metavar="ID")
@json_option
def why(job_id: int, as_json: bool) -> None:
    """Explain why a job is where it is, and how it got there."""
    with server() as connection:
        view = ask(connection, m.WhyQuery(job_id))
    if as_json:
        print_json(**view)
        return
    print(f"job {view['job']} is {view['state']}")
    for reason in view["now"]:
        print(f"  {reason['text']}")
    if view["story"]:
        print("so far:")
    for line in view["story"]:
        print(f"  {clock(line['time_s'])}  {line['what']:10} {line['text']}")
