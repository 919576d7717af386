"""What each rank of a job with a recipe runs: python -m resize_lib.recipes -- PROGRAM ARGS.

Rank 0 is the steward. The others are the program, or hold their processors while its own launcher
uses them.
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

from dq_client.base.errors import DQError
from dq_client.base.recipes import recipe as recipes
from dq_client.base.recipes.command import start_of
from dq_client.base.recipes.recipe import Recipe
from resize_lib.recipes.checkpoints import Checkpoints
from resize_lib.recipes.running import environment
from resize_lib.recipes.steward import Steward, facts
from resize_lib.server_link import say


def main(argv: list[str]) -> int:
    """See the module's docstring."""
    recipe, cwd = recipes.of_text(os.environ["DQ_RECIPE"]), Path.cwd()
    job, identity = int(os.environ["DQ_JOB_ID"]), os.environ["DQ_RECIPE_ID"]
    source = os.environ.get("DQ_RECIPE_FROM")
    checkpoints = Checkpoints(cwd, job, identity, Path(source) if source else None)
    if os.environ.get("PMI_RANK", "0") == "0":
        code = Steward(recipe, argv, cwd, checkpoints).run()
        if not code and not recipe.by_ranks:
            wait_for_others()
        return code
    if not recipe.by_ranks:
        wait_for_others()
        return 0
    return become(recipe, argv, cwd, checkpoints)


def become(recipe: Recipe, argv: list[str], cwd: Path, checkpoints: Checkpoints) -> int:
    """Be a rank of the program; the steward writes its files before it starts rank 0."""
    try:
        start = start_of(recipe, argv, cwd, facts(), goes_on=bool(checkpoints.proven.place))
        os.execvpe(start.words[0], start.words, environment(recipe, os.environ))  # noqa: S606 - no shell is wanted
    except (DQError, OSError) as e:
        say(str(e))
    return 1


def wait_for_others() -> None:
    """Until all ranks of the job have come here: a barrier of PMI, which the program does not use.

    Without it a rank that only holds its processor would not know when to end.
    """
    with socket.socket(fileno=int(os.environ["PMI_FD"])) as line, line.makefile("rb") as answers:
        for words in ("cmd=init pmi_version=1 pmi_subversion=1", "cmd=barrier_in", "cmd=finalize"):
            line.sendall(words.encode() + b"\n")
            if not answers.readline():
                return  # the keeper is gone, and so is the job


if __name__ == "__main__":
    sys.exit(main(sys.argv[2:]))
