"""Parsers of option values; each raises a UsageError of one line if the text is invalid."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any

from dq_client.base.errors import UsageError
from dq_client.base.hardware import parse_bytes
from dq_client.base.messages import COUNT_MAX, SECONDS_MAX, Part, Protect, Workers

# Texts, not compiled ones: a command compiles only the patterns that it uses.
TIME = r"(\d+(?:\.\d+)?)([smhd]?)"
PROFILE = r"\d+:\d+(,\d+:\d+)*"
GRID = r"[0-9]{1,6}x[0-9]{1,6}"
RANGE = r"([0-9]{1,8}):([0-9]{1,8})"
SIZE = rf"[0-9]{{1,8}}|{GRID}"
JOB_ID = r"0{0,9}[1-9][0-9]{0,14}"  # an id on the wire is below 2**53
RANKS_MAX = 100_000  # of one program
SHELLS = ("sh", "bash", "dash", "zsh", "ksh")
UNIT_S = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def parse_sizes(text: str) -> list[int | str]:
    """`2,4,6` as numbers; a grid such as `2x4` (rows by columns) stays text for the server."""
    sizes: list[int | str] = []
    for word in text.split(","):
        try:
            sizes.append(word.strip() if re.fullmatch(GRID, word.strip()) else int(word))
        except ValueError:
            raise UsageError(
                f"--sizes {text}: give numbers with commas between, as 2,4,6, or grids, as 2x2,1x4"
            ) from None
    if any(int(side) < 1 for size in sizes for side in str(size).split("x")):
        raise UsageError(f"--sizes {text}: a size is at least 1")
    if any(isinstance(size, int) and size > COUNT_MAX for size in sizes):
        raise UsageError(f"--sizes {text}: a size is at most {COUNT_MAX}")
    return sizes


def parse_range(text: str) -> tuple[int, int]:
    """`0:8` as its two ends, of which the second is above 0."""
    found = re.fullmatch(RANGE, text)
    if found is None or not int(found[1]) <= int(found[2]) <= COUNT_MAX or not int(found[2]):
        raise UsageError(f"--sizes {text}: give the smaller first, as 2:8; or 0:8 for workers")
    return int(found[1]), int(found[2])


def parse_workers(kind: str | None, stop_signal: str | None, grace: str | None) -> Workers | None:
    """--stop-signal and --grace as a message; None for a job of another kind."""
    if kind != "workers":
        for option, value in (("--stop-signal", stop_signal), ("--grace", grace)):
            if value is not None:
                raise UsageError(f"{option} is for jobs of workers: --kind workers")
        return None
    number = 15
    if stop_signal is not None:
        name = stop_signal.upper().removeprefix("SIG")
        known = {s.name.removeprefix("SIG"): int(s) for s in signal.Signals}
        known |= {str(int(s)): int(s) for s in signal.Signals}
        if name not in known:
            raise UsageError(f"--stop-signal {stop_signal}: give TERM, INT, USR1 or a number")
        number = known[name]
    if grace in ("0", "0s"):
        return Workers(number, 0.0)
    return Workers(number, 10.0 if grace is None else parse_time("--grace", grace))


def parse_size(text: str) -> tuple[int, int]:
    """(processors, rows) of `8` or `2x4`; rows are 0 where no grid was given.

    A job of workers may have 0.
    """
    sides = [int(side) for side in text.split("x")] if re.fullmatch(SIZE, text) else [0]
    if text != "0" and not _is_count(prod(sides)):
        raise UsageError(f"{text!r}: give a size from 1 to 10000000, as 8, or a grid, as 2x4")
    return prod(sides), sides[0] if len(sides) == 2 else 0


def parse_time(option: str, text: str) -> float:
    """`90`, `90s`, `10m`, `2h`, `1d`, or `H:MM:SS`, in seconds."""
    seconds = 0.0
    if re.fullmatch(r"(\d+:)?\d{1,2}:\d{2}", text):
        for part in text.split(":"):
            seconds = 60 * seconds + float(part)
    elif found := re.fullmatch(TIME, text):
        seconds = float(found[1]) * UNIT_S[found[2]]
    if not 0 < seconds <= SECONDS_MAX:
        raise UsageError(f"{option} {text}: give more than 0, as 90, 90s, 10m, 2h, 1d or H:MM:SS")
    return seconds


def require_above_zero(option: str, value: float, most: float) -> None:
    """UsageError unless 0 < `value` <= `most`. Written so that NaN fails, too."""
    if not 0 < value <= most:
        raise UsageError(f"{option} {value:g}: give a number above 0 and at most {most:g}")


def parse_profile(text: str) -> list[tuple[int, int]]:
    """Steps (seconds, processors) from `60:4,120:8`, or from a JSON file as `dq sim plan` reads.

    The file holds one application, [[60, 4], [120, 8]], or a list with one application in it.
    """
    if re.fullmatch(PROFILE, text):
        steps: Any = [[int(number) for number in step.split(":")] for step in text.split(",")]
    else:
        try:
            steps = json.loads(Path(text).read_bytes())
        except OSError as e:
            raise UsageError(
                f"--profile {text}: {e.strerror}; give a file, or steps as 60:4,120:8"
            ) from e
        except (ValueError, RecursionError) as e:
            raise UsageError(f"--profile {text}: not JSON: {e}") from e
        if isinstance(steps, list) and len(steps) == 1 and _are_steps(steps[0]):
            steps = steps[0]
    if not _are_steps(steps):
        raise UsageError(
            f"--profile {text}: expected [[seconds, processors], ...] in whole numbers from 1 on"
        )
    return [(int(duration_s), int(processors)) for duration_s, processors in steps]


def _are_steps(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) > 0
        and all(isinstance(step, list) and len(step) == 2 for step in value)
        and all(_is_count(number) for step in value for number in step)
    )


def _is_count(value: Any) -> bool:
    """Whether `value` is a whole number within the limits of a message; 60.0 counts as whole."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and 1 <= value <= COUNT_MAX and int(value) == value


def parse_memory(option: str, text: str) -> int:
    """`4G` in bytes; units count by 1024."""
    found = parse_bytes(text)
    if found is None:
        raise UsageError(f"{option} {text}: give 4G, 512M, 1.5G or a number of bytes")
    return found


def parse_jobs(option: str, text: str | None) -> list[int]:
    """`12,13` as numbers; `last` is 0."""
    words = text.split(",") if text is not None else []
    for word in words:
        if word != "last" and not re.fullmatch(JOB_ID, word):
            raise UsageError(f"{option} {text}: give job ids with commas between, as 12,13")
    return [0 if word == "last" else int(word) for word in words]


def parse_env(pairs: tuple[str, ...]) -> dict[str, str]:
    """`NAME=value`, or `NAME` alone for the value that it has here."""
    env = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not name or not name.isprintable() or " " in name:
            raise UsageError(f"--env {pair}: give NAME=value, or NAME; a name has no spaces")
        if not equals and name not in os.environ:
            raise UsageError(f"--env {name}: it is not set here; give --env {name}=value")
        env[name] = value if equals else os.environ[name]
    return env


def parse_recipe(o: dict[str, Any], argv: list[str], folder: Path) -> tuple[str, Protect | None]:
    """The recipe as it travels, empty without one; and how the job is protected.

    UsageError if the command or its input files are not what the recipe needs.
    """
    name, every = o["recipe"], o["checkpoint_every"]
    if name is None:
        if every is not None:
            raise UsageError("--checkpoint-every needs --recipe; copies of data: --protect-every")
        return "", parse_protection(o)
    from dq_client.base.recipes import command, recipe  # few jobs have one

    for option in ("protect", "protect_every", "protect_budget", "protect_dir"):
        if o[option] is not None:
            raise UsageError(
                f"--{option.replace('_', '-')}: a job with a recipe is protected by its own"
                " checkpoints (--checkpoint-every)"
            )
    found = recipe.read(name)
    steps, seconds = _every("--checkpoint-every", every)
    if every is not None and found.by_ranks and not found.checkpoint.every:
        raise UsageError(
            f"--checkpoint-every {every}: recipe {found.name} has no checkpoint.every, and DQ stops"
            " only programs with a launcher of their own for a checkpoint"
        )
    if steps is not None and not found.checkpoint.every:
        raise UsageError(f"--checkpoint-every {every}: give a time, as 10m, for {found.name}")
    facts = command.StartFacts(1, 1, 1, every_s=seconds, every_steps=steps)
    for goes_on in (False, True):
        command.start_of(found, argv, folder, facts, goes_on=goes_on)
    restarts = _restarts(o)
    protect = Protect(recipe.BY_RECIPE, every_points=steps, every_s=seconds, restarts=restarts)
    return recipe.text_of(found), protect


def parse_go_on(o: dict[str, Any], folder: Path) -> str:
    """Where the last checkpoint of the job is that --go-on names."""
    if o["recipe"] is None:
        raise UsageError("--go-on needs --recipe")
    found = folder / f".dq-recipe-{o['go_on']}"
    if not (found / "proven.json").is_file():
        raise UsageError(
            f"--go-on {o['go_on']}: no {found.name} in {folder}: the job ran elsewhere, is done, or"
            " had no checkpoint"
        )
    return str(found)


def _every(option: str, text: str | None) -> tuple[int | None, float | None]:
    """A number of points, or seconds."""
    if text is None:
        return None, None
    if not text.isdecimal():
        return None, parse_time(option, text)
    if not 0 < int(text) <= COUNT_MAX:
        raise UsageError(f"{option} {text}: give a number from 1, or a time as 30s, 5m")
    return int(text), None


def _restarts(o: dict[str, Any]) -> int:
    if o["restarts"] is not None and not 0 <= o["restarts"] <= COUNT_MAX:
        raise UsageError(f"--restarts {o['restarts']}: give a number from 0 to {COUNT_MAX}")
    return 3 if o["restarts"] is None else int(o["restarts"])


def parse_protection(o: dict[str, Any]) -> Protect | None:
    """The options --protect, --protect-*, --restarts as a message; None without --protect."""
    if o["protect"] is None:
        for option in ("protect_every", "protect_budget", "protect_dir", "restarts"):
            if o[option] is not None:
                raise UsageError(f"--{option.replace('_', '-')} needs --protect")
        return None
    points, seconds = _every("--protect-every", o["protect_every"])
    folder: Path | None = o["protect_dir"]
    if folder is not None and not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"--protect-dir {folder}: no folder that can be written; make it first")
    return Protect(
        how=o["protect"],
        every_points=points,
        every_s=seconds,
        folder=str(folder.absolute()) if folder is not None else "",
        restarts=_restarts(o),
        budget=None if o["protect_budget"] is None else parse_share(o["protect_budget"]),
    )


def parse_share(text: str) -> float:
    """A share of the time: `2%` or `0.02`."""
    number, percent, _ = text.partition("%")
    try:
        share = float(number) / (100 if percent else 1)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise UsageError(f"--protect-budget {text}: give a share of the time, such as 2%")
    return share


def parse_parts(words: tuple[str, ...]) -> list[Part]:
    """`-n 2 prog a : -n 1 other b` as mpirun takes it: several programs with their ranks."""
    parts, text = list[Part](), " ".join(words)
    sections: list[list[str]] = [[]]
    for word in words:
        if word == ":":
            sections.append([])
        else:
            sections[-1].append(word)
    for section in sections:
        given = section[:1] == ["-n"] and len(section) >= 3 and section[1].isascii()
        if not given or not section[1].isdigit() or not 1 <= int(section[1]) <= RANKS_MAX:
            raise UsageError(
                "--mpmd: each program needs its ranks, as in -n 2 prog a : -n 1 other b; not"
                f" {text}"
            )
        parts.append(Part(int(section[1]), section[2:]))
    return parts


def parse_folder(path: Path) -> Path:
    """A folder to run in: its absolute path."""
    if not path.is_dir():
        raise UsageError(f"--chdir {path}: no such folder")
    return path.absolute()


def parse_input(path: Path) -> str:
    """A file for rank 0's standard input, which can be read: its absolute path."""
    found = path.absolute()
    if not found.exists() or found.is_dir():
        why = "it is a folder" if found.is_dir() else "no such file"
        raise UsageError(f"--input {path}: {why}")
    if not os.access(found, os.R_OK):
        raise UsageError(f"--input {path}: it cannot be read")
    return str(found)


def name_of(program: Sequence[str]) -> str:
    """The default name of a job: its script or module, not the interpreter."""
    return Path(script_of(list(program))).stem


def script_of(words: list[str]) -> str:
    """What of a command line is the program: the script or module, not the interpreter."""
    interpreter = Path(words[0]).name
    if interpreter.startswith("python") or interpreter in SHELLS:
        for i, word in enumerate(words[1:], 1):
            if word == "-m" and i + 1 < len(words):
                return words[i + 1].rpartition(".")[2]
            if word == "-c":
                break  # what follows is a program, not a name
            if not word.startswith("-") and words[i - 1] not in ("-X", "-W"):
                return word
    return words[0]
