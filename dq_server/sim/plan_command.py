"""`dq sim plan`: when would applications whose needs are known in advance run, and on how much?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click

from dq_server.core.model.profile import FIT_RULES, EvolutionProfile, ProfileError, fit_rule
from dq_server.sim.evolution import ProfilePlan, plan_ahead, plan_offline
from dq_server.sim.one_line import InputError, OneLineCommand


def parse_profiles(data: object, n_nodes: int) -> list[EvolutionProfile]:
    """Profiles from `[[[duration_s, nodes], ...], ...]`, each able to run on n_nodes.

    Whole numbers written as 600.0 are accepted. ProfileError names application and step.
    """
    if not isinstance(data, list):
        raise ProfileError("expected a list of profiles, [[[duration_s, nodes], ...], ...]")
    if not data:
        raise ProfileError("there is no application to plan")
    profiles = []
    for number, steps in enumerate(data, start=1):
        try:
            profile = EvolutionProfile(tuple(_parse_steps(steps)))
            profile.check_fits(n_nodes)
        except ProfileError as error:
            raise ProfileError(f"application {number}: {error}") from None
        profiles.append(profile)
    return profiles


def _parse_steps(steps: object) -> Iterator[tuple[int, int]]:
    if not isinstance(steps, list):
        raise ProfileError("expected a list of steps, [[duration_s, nodes], ...]")
    for number, step in enumerate(steps, start=1):
        if not isinstance(step, list) or len(step) != 2:
            raise ProfileError(f"step {number}: expected [duration_s, nodes]")
        for value in step:
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ProfileError(f"step {number}: {json.dumps(value)} is not a number")
        duration_s, nodes = (
            int(value) if isinstance(value, float) and value.is_integer() else value
            for value in step
        )
        yield duration_s, nodes


def load_profiles(path: Path, n_nodes: int) -> list[EvolutionProfile]:
    """The profiles in a JSON file; InputError names the file and the place in it."""
    try:
        return parse_profiles(json.loads(path.read_bytes()), n_nodes)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    except json.JSONDecodeError as error:
        raise InputError(f"{path}:{error.lineno}:{error.colno}: not JSON: {error.msg}") from error
    except RecursionError as error:
        raise InputError(f"{path}: lists nested too deeply") from error
    except ProfileError as error:
        raise InputError(f"{path}: {error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not JSON: byte {error.start} is not UTF-8") from error
    except ValueError as error:  # json refuses to read an integer of thousands of digits
        raise InputError(f"{path}: a number has too many digits") from error


def as_json(plan: ProfilePlan) -> str:
    scheduled = [{"start_s": one.start_s, "steps": one.steps} for one in plan.scheduled]
    return json.dumps({"schema": 1, "scheduled": scheduled, "makespan_s": plan.makespan_s})


def as_table(profiles: list[EvolutionProfile], plan: ProfilePlan) -> str:
    """One aligned line per application; an expanded step shows by how much."""
    rows = [("application", "start_s", "end_s", "steps (duration_s x nodes)")]
    for number, (requested, one) in enumerate(zip(profiles, plan.scheduled, strict=True), 1):
        asked = requested.steps if len(requested.steps) == len(one.steps) else one.steps
        steps = " ".join(
            f"{given_s}x{nodes}" + (f"(+{given_s - asked_s})" if given_s > asked_s else "")
            for (given_s, nodes), (asked_s, _) in zip(one.steps, asked, strict=True)
        )
        rows.append((str(number), str(one.start_s), str(one.end_s), steps))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [
        "  ".join([*(cell.rjust(w) for cell, w in zip(row[:3], widths, strict=True)), row[3]])
        for row in rows
    ]
    return "\n".join([*lines, f"makespan_s  {plan.makespan_s}"])


@click.command(cls=OneLineCommand)
@click.argument("profiles", type=click.Path(path_type=Path))
@click.option("--nodes", required=True, type=click.IntRange(min=1), help="Nodes of the cluster.")
@click.option(
    "--fit",
    default="noX",
    show_default=True,
    type=click.Choice(list(FIT_RULES)),
    help="How a profile may change to fit: flattened to its peak (rigid), not at all (noX), steps "
    "expanded to twice their duration (2X) or without limit (infX), +c: compacted.",
)
@click.option(
    "--horizon",
    type=click.IntRange(min=0),
    metavar="SECONDS",
    help="How long before it begins a step becomes known; until then the application's largest "
    "step is reserved for it.  [default: all are known]",
)
@click.option("--json", "json_wanted", is_flag=True, help='One JSON object, "schema": 1.')
def plan(profiles: Path, nodes: int, fit: str, horizon: int | None, json_wanted: bool) -> None:
    """Plan applications whose needs are known in advance.

    PROFILES is a JSON file: a list of applications in the order they queue, each a list of steps
    [duration_s, nodes]. (Klein & Pérez, Scheduling evolving applications, 2011.)
    """
    requested = load_profiles(profiles, nodes)
    rule = fit_rule(fit)
    if horizon is None:
        planned = plan_offline(requested, nodes, rule)
    else:
        planned = plan_ahead(requested, nodes, rule, horizon)
    click.echo(as_json(planned) if json_wanted else as_table(requested, planned))
