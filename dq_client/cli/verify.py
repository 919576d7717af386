"""`dq verify`: does a program compute the same when it is resized?"""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import click

from dq_client.base.errors import UsageError
from dq_client.base.values import parse_sizes, script_of
from dq_client.cli.program import runnable
from dq_client.cli.requests import json_option
from dq_client.show.output import note, print_json, say
from dq_client.verify.outcome import Outcome, failure, outcome
from dq_client.verify.runs import Run, Runs

SIZES_MAX, RANKS_MAX = 8, 64
NO_SESSION = (
    "{program}: the program opens no session, so it is never resized: open one with"
    " resize_lib.session(), and run the loop over rs.iterations (docs/porting.md)"
)
NO_LOOP = (
    "{program}: the program ends no iteration, so there is no moment to resize it at: run its loop"
    " over rs.iterations (docs/porting.md)"
)


@click.command(context_settings={"allow_interspersed_args": False})
@click.option(
    "--sizes", default="1,2,3", show_default=True, help="Numbers of ranks to run it on, as 1,2,3."
)
@click.option(
    "--resizes", type=click.IntRange(1, 1000), default=10, show_default=True,
    help="How often it is resized.",
)  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, help="Draws the resizes.")
@click.option("--start", type=int, help="The size to start on.  [default: the first of --sizes]")
@click.option(
    "--tolerance", type=float, default=1e-9, show_default=True,
    help="Relative difference of numbers that counts as rounding.",
)  # fmt: skip
@json_option
@click.argument("program", nargs=-1, required=True, type=click.UNPROCESSED)
def verify(
    sizes: str,
    resizes: int,
    seed: int,
    start: int | None,
    tolerance: float,
    as_json: bool,
    program: tuple[str, ...],
) -> int:
    """Run PROGRAM (after --) without resizes and with drawn ones, and compare (docs/verify.md).

    Names the first iteration and variable that differ. Exit code 0: equal; 1: different, or the
    program fails. Uses a cluster of its own and leaves yours alone; the program runs once on each
    size and once more, in the current folder.
    """
    legal = _legal(sizes, start)
    if not 0 <= tolerance < 1:
        raise UsageError(f"--tolerance {tolerance:g}: a relative difference from 0 to below 1")
    argv = _argv(program)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: nothing is left behind
    runs = Runs(argv, note)
    try:
        found = _verified(runs, legal, seed, resizes, tolerance)
    finally:
        runs.clear()
    if as_json:
        print_json(**found.as_json())
    else:
        for line in found.text():
            say(line)
    return 0 if found.equal else 1


def _verified(runs: Runs, sizes: list[int], seed: int, resizes: int, tolerance: float) -> Outcome:
    program = script_of(list(runs.argv))
    plain: list[Run] = []
    for size in sizes:
        run = runs.plain(size)
        plain.append(run)
        if not run.done:
            plain.insert(0, plain.pop())
            return Outcome(plain, failed=failure(run, f"on {size} without resizes it fails"))
        if not run.record.opened:
            raise UsageError(NO_SESSION.format(program=program))
        if not run.record.iterations:
            raise UsageError(NO_LOOP.format(program=program))
    resized = runs.resized(sizes, seed, resizes, plain[0])
    file = Path(program)
    return outcome(plain, resized, tolerance, str(file.absolute()) if file.is_file() else "")


def _legal(text: str, start: int | None) -> list[int]:
    """The sizes, that to start on first."""
    found = [size for size in parse_sizes(text) if isinstance(size, int)]
    if len(found) != len(text.split(",")):
        raise UsageError(f"--sizes {text}: give numbers of ranks, as 1,2,3; grids are not drawn")
    if len(set(found)) < 2:
        raise UsageError(f"--sizes {text}: give two sizes at least, between which it is resized")
    if len(set(found)) > SIZES_MAX or max(found) > RANKS_MAX:
        raise UsageError(
            f"--sizes {text}: at most {SIZES_MAX} sizes of up to {RANKS_MAX} ranks each"
        )
    if start is not None and start not in found:
        raise UsageError(f"--start {start}: it is none of --sizes {text}")
    first = found[0] if start is None else start
    return list(dict.fromkeys([first, *found]))


def _argv(program: tuple[str, ...]) -> list[str]:
    """The command line; UsageError if there is nothing to run."""
    argv = runnable(program, Path.cwd())
    if shutil.which(argv[0]) is None:
        raise UsageError(f"{argv[0]}: no such program; give it as python PROGRAM.py")
    file = script_of(argv)
    if file.endswith(".py") and not Path(file).is_file():
        raise UsageError(f"{file}: no such file")
    return argv
