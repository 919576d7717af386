"""`dq recipe`: recipes that come with DQ, and whether one fits a program."""

from __future__ import annotations

import signal
from pathlib import Path

import click

from dq_client.base import messages as m
from dq_client.base import text_files
from dq_client.base.errors import UsageError
from dq_client.base.recipes import recipe as recipes
from dq_client.cli.program import runnable
from dq_client.cli.requests import json_option
from dq_client.show.output import note, print_json, say


@click.group()
def recipe() -> None:
    """Programs that are resized through their own checkpoints, as they are (docs/recipes.md)."""


@recipe.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List the recipes that come with DQ."""
    found = [recipes.read(name) for name in recipes.shipped()]
    if as_json:
        print_json(recipes=[{"name": each.name, "about": each.about} for each in found])
        return
    width = max(len(each.name) for each in found)
    for each in found:
        say(f"{each.name:{width}}  {each.about}")


@recipe.command()
@click.argument("name")
def show(name: str) -> None:
    """Print a recipe that comes with DQ, to make your own of."""
    recipes.read(name)
    say(text_files.text_of(recipes.SHIPPED / f"{Path(name).stem}.toml").rstrip())


@recipe.command(context_settings={"allow_interspersed_args": False})
@click.argument("name", metavar="NAME|FILE")
@json_option
@click.argument("program", nargs=-1, required=True, type=click.UNPROCESSED)
def check(name: str, as_json: bool, program: tuple[str, ...]) -> int:
    """Run PROGRAM (after --) on 1 processor, and again through 1, 2 and 1; compare the results.

    Both runs are in copies of the current folder, on a cluster of their own. Exit code 0: equal
    where the recipe compares; 1: not equal.
    """
    from dq_client.cli.submit import message_of
    from dq_client.verify.recipe_trial import Trial

    program = program[program[0] == "--" :]  # what stands behind an argument keeps it
    if not program:
        raise UsageError("which program? dq recipe check NAME -- PROGRAM ARGS")
    found = recipes.read(name)
    file = str(Path(name).absolute()) if Path(name).is_file() else name
    argv = runnable(program, Path.cwd())
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: nothing is left behind
    trial = Trial(found, note)

    def submission(folder: Path, processors: int, sizes: str) -> m.Submit:
        own = ["-n", str(processors), "--sizes", sizes, "--recipe", file, "--chdir", str(folder)]
        return message_of([*own, "--", *program])[0]

    try:
        compared, job = trial.run(argv, submission)
    finally:
        trial.clear()
    took_s = [stay["redistribution_time_s"] for stay in job["sizes"][1:]]
    if as_json:
        rows = [{"what": c.what, "plain": c.plain, "resized": c.resized, "equal": c.equal}
                for c in compared]  # fmt: skip
        print_json(recipe=found.name, compared=rows, resizes_s=took_s)
    else:
        for each in compared:
            word = "equal" if each.equal else "NOT EQUAL"
            say(f"{each.what}: {each.plain} without resizes, {each.resized} with: {word}")
        say(f"the resizes took {', '.join(f'{s:.3g} s' for s in took_s)}")
        if not compared:
            note(f"recipe {found.name} has no [[compare]]: nothing was compared")
    return 0 if all(each.equal for each in compared) else 1
