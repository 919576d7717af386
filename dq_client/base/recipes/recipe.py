"""What a recipe may say, checked when it is read (docs/recipes.md has each key)."""

from __future__ import annotations

import re
import signal
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from dq_client.base import text_files
from dq_client.base.errors import UsageError, known_words

SHIPPED = Path(__file__).with_name("shipped")
BYTES_MAX = 60_000  # of a recipe as it travels: a variable of the environment may have 128 KiB
BY_RECIPE = "recipe"  # how such a job is protected (core/model/spec.py)
OUTPUT, ERRORS = "output", "errors"  # of `where`; anything else is a file


class RecipeValue(Struct, frozen=True, forbid_unknown_fields=True):
    """A word that other keys refer to as {name}: the first that is found of these.

    options  option of the program -> a text in which {word} is the word behind the option
    file     a file to read, and `pattern` with one group for what to take of it
    default  if nothing is found; null: the command is refused
    """

    options: dict[str, str] = {}
    file: str = ""
    pattern: str = ""
    default: str | None = None


class RecipeProgress(Struct, frozen=True, forbid_unknown_fields=True):
    """How far the program is: a number in what it writes, or how many lines fit (`counts`)."""

    pattern: str
    where: str = OUTPUT
    counts: bool = False


class RecipeStop(Struct, frozen=True, forbid_unknown_fields=True):
    """How the program writes a checkpoint and ends: exactly one of a signal, a file, or words.

    words       options with which the program ends by itself after `slice_s` seconds
    within_s    so long it may take; then it is killed
    exit_codes  with which it may end then, beside 0
    """

    signal: str = ""
    file: str = ""
    words: list[str] = []
    slice_s: float = 600.0
    within_s: float = 60.0
    exit_codes: list[int] = []


class Checkpoint(Struct, frozen=True, forbid_unknown_fields=True):
    """The file or folder whose change proves a checkpoint.

    every         words behind the command with --checkpoint-every: the program writes them itself
    without       names in the folder, with * and ?, that another number of processes cannot read
    only_stopped  what it writes before it was asked to stop is nothing to go on from
    """

    file: str
    every: list[str] = []
    only_stopped: bool = False
    without: list[str] = []


class FileEdit(Struct, frozen=True, forbid_unknown_fields=True):
    """A change in a copy of an input file: `find`, a pattern for lines, becomes `put`.

    file   the name of a value that an option of the command gives
    times  how many places there must be; 0: any number
    why    what the user can do if there are others
    """

    file: str
    find: str
    put: str
    times: int = 0
    why: str = ""


class CommandChange(Struct, frozen=True, forbid_unknown_fields=True):
    """How the command changes: words behind it, and edits of input files.

    says  a pattern for what the program writes when it has read its checkpoint
    """

    words: list[str] = []
    edit: list[FileEdit] = []
    says: str = ""


class RecipeLaunch(Struct, frozen=True, forbid_unknown_fields=True):
    """Who starts the program's processes.

    command      the program's own launcher, in which the word {command} is the program with its
                 arguments; empty: DQ starts one MPI rank on each processor
    one_machine  it cannot run on processors of several machines
    env          set for the program
    """

    command: list[str] = []
    one_machine: bool = False
    env: dict[str, str] = {}


class RecipeComparison(Struct, frozen=True, forbid_unknown_fields=True):
    """What `dq recipe check` compares: the group of the last line that fits, as a number where
    it is one; or how many lines fit (`counts`)."""

    what: str
    pattern: str
    where: str = OUTPUT
    counts: bool = False
    tolerance: float = 0.0


class Recipe(Struct, frozen=True, forbid_unknown_fields=True):
    """See the module's docstring. `done`: a pattern for what a complete run writes at its end."""

    name: str
    progress: RecipeProgress
    stop: RecipeStop
    checkpoint: Checkpoint
    about: str = ""
    done: str = ""
    values: dict[str, RecipeValue] = {}
    start: CommandChange = CommandChange()
    go_on: CommandChange = CommandChange()
    launch: RecipeLaunch = RecipeLaunch()
    compare: list[RecipeComparison] = []

    @property
    def by_ranks(self) -> bool:
        """Whether DQ starts the program's ranks."""
        return not self.launch.command


def read(name: str) -> Recipe:
    """The recipe of this name, or in this file.

    Raises:
        UsageError: there is none, or it makes no sense; with the file and what to mend.
    """
    path = Path(name)
    if "/" not in name and path.suffix != ".toml":
        path = SHIPPED / f"{name}.toml"
        if not path.is_file():
            known = known_words(name, shipped())
            raise UsageError(
                f"--recipe {name}: no such recipe comes with DQ; {known} (of your own file give the"
                " path, as ./my.toml)"
            )
    return made(text_files.toml_of(path), str(path))


def shipped() -> list[str]:
    """Names of the recipes that come with DQ."""
    return sorted(path.stem for path in SHIPPED.glob("*.toml"))


def made(tables: dict[str, Any], where: str) -> Recipe:
    """A recipe of these tables; UsageError with `where` they stand."""
    recipe = text_files.tables_as(tables, Recipe, where)
    why = _fault(recipe)
    if why:
        raise UsageError(f"{where}: {why}")
    return recipe


def text_of(recipe: Recipe) -> str:
    """The recipe as it travels with the job."""
    text = msgspec.json.encode(recipe).decode()
    if len(text) > BYTES_MAX:
        raise UsageError(f"recipe {recipe.name}: {len(text)} characters, at most {BYTES_MAX}")
    return text


def of_text(text: str) -> Recipe:
    """What `text_of` has made."""
    return msgspec.json.decode(text, type=Recipe)


def _fault(recipe: Recipe) -> str:
    """What makes no sense; empty: nothing."""
    stop, progress = recipe.stop, recipe.progress
    if sum(map(bool, (stop.signal, stop.file, stop.words))) != 1:
        return "[stop] has exactly one of signal, file and words"
    if stop.signal and f"SIG{stop.signal.removeprefix('SIG')}" not in signal.Signals.__members__:
        return f"stop.signal {stop.signal}: no such signal; as TERM or USR1"
    if not 0 < stop.within_s < float("inf"):
        return f"stop.within_s is {stop.within_s:g}: more than 0 seconds"
    if stop.words and recipe.by_ranks:
        return (
            "stop.words: a program that ends by itself is started again by its own launcher: give"
            " launch.command"
        )
    if stop.exit_codes and recipe.by_ranks:
        return "stop.exit_codes: DQ's ranks have to end with 0; else give launch.command"
    if stop.words and not recipe.done:
        return "stop.words needs done, which tells the end of a slice from the end of the work"
    groups = {"progress.pattern": (progress.pattern, 0 if progress.counts else 1)}
    groups |= {"done": (recipe.done, 0), "start.says": (recipe.start.says, 0)}
    groups["go_on.says"] = recipe.go_on.says, 0
    for name, value in recipe.values.items():
        groups[f"values.{name}.pattern"] = value.pattern, 1 if value.file else 0
    for k, each in enumerate(recipe.compare):
        groups[f"compare[{k}].pattern"] = each.pattern, 0 if each.counts else 1
    for way in (recipe.start, recipe.go_on):
        for edit in way.edit:
            groups[f"edit {edit.find!r}"] = edit.find, 0
            if edit.file not in recipe.values or not recipe.values[edit.file].options:
                return f"edit.file {edit.file!r}: give the name of a value that has options"
    for key, (pattern, least) in groups.items():
        try:
            found = re.compile(pattern).groups
        except re.error as e:
            return f"{key}: no regular expression: {e}"
        if found < least:
            return f"{key}: put (...) around the number or word that is meant"
    if progress.counts and not recipe.go_on.says:
        return (
            "progress.counts begins anew at each start, so nothing would show that the program has"
            " read its checkpoint: give go_on.says"
        )
    return ""
