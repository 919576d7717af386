"""The command line and input files for one start of a program by its recipe. Pure but for reading
the input files that the recipe names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from dq_client.base import text_files
from dq_client.base.errors import UsageError
from dq_client.base.recipes.recipe import ERRORS, OUTPUT, CommandChange, Recipe, RecipeValue

NAME = re.compile(r"(?<!\$)\{([a-z_]+)\}")  # not ${name} of shells and input scripts
COMMAND = "{command}"
# What every recipe may refer to beside its own values.
FACTS = (
    *("job", "start", "ranks", "hosts", "every_s", "every_min", "every_steps"),
    *("slice_s", "slice_min", "slice_h"),
)


@dataclass(frozen=True, slots=True)
class StartFacts:
    """What is known of one start of the job.

    hosts    the machines with their numbers of processors, as n01:2,n02:1
    every_s, every_steps  what was given as --checkpoint-every, seconds or steps of the program
    """

    job: int
    start: int
    ranks: int
    hosts: str = "localhost:1"
    every_s: float | None = None
    every_steps: int | None = None

    def words(self, recipe: Recipe) -> dict[str, str]:
        """As they are filled in."""
        slice_s = recipe.stop.slice_s
        found = {"job": str(self.job), "start": str(self.start), "ranks": str(self.ranks)}
        found |= {"hosts": self.hosts, "slice_s": f"{slice_s:g}"}
        found |= {"slice_min": f"{slice_s / 60:g}", "slice_h": f"{slice_s / 3600:.6g}"}
        if self.every_s is not None:
            found |= {"every_s": f"{self.every_s:g}", "every_min": f"{self.every_s / 60:g}"}
        if self.every_steps is not None:
            found["every_steps"] = str(self.every_steps)
        return found


@dataclass(frozen=True, slots=True)
class ProgramStart:
    """What one start of the program needs.

    words       the command; of a launcher of its own with that
    files       edited copies of input files, to be written before
    checkpoint  the path of the file or folder that proves a checkpoint; stop_file: see Stop
    """

    words: list[str]
    files: dict[Path, str] = field(default_factory=dict)
    checkpoint: Path = Path()
    stop_file: Path | None = None
    places: dict[str, Path] = field(default_factory=dict)  # files that the recipe reads from


def start_of(
    recipe: Recipe, argv: Sequence[str], cwd: Path, facts: StartFacts, *, goes_on: bool
) -> ProgramStart:
    """How the program is started, from its beginning or from its checkpoint (`goes_on`).

    Raises:
        UsageError: the command or an input file is not what the recipe needs.
    """
    known = facts.words(recipe) | {"recipe": recipe.name}
    given: dict[str, str] = {}  # the word of the command that each value was taken from
    for name, value in recipe.values.items():
        known[name] = _found(recipe, name, value, argv, cwd, known, given)
    stop_file = cwd / _fill(recipe, recipe.stop.file, known) if recipe.stop.file else None
    if stop_file is not None:
        known["stop_file"] = str(stop_file.relative_to(cwd))
    checkpoint = cwd / _fill(recipe, recipe.checkpoint.file, known)
    known["checkpoint"] = str(checkpoint.relative_to(cwd))
    way = recipe.go_on if goes_on else recipe.start
    words, files = list(argv), dict[Path, str]()
    for edited, path, text in _edited(recipe, way, cwd, known, given):
        files[path] = text
        mine = str(path.relative_to(cwd))
        words = [mine if word == given[edited] else word for word in words]
    every = recipe.checkpoint.every if facts.every_s or facts.every_steps else []
    words += [_fill(recipe, word, known) for word in (*way.words, *every, *recipe.stop.words)]
    places = {
        where: cwd / _fill(recipe, where, known)
        for where in (recipe.progress.where, *(each.where for each in recipe.compare))
        if where not in (OUTPUT, ERRORS)
    }
    if recipe.launch.command:
        launcher = []
        for word in recipe.launch.command:
            launcher += words if word == COMMAND else [_fill(recipe, word, known)]
        words = launcher
    return ProgramStart(words, files, checkpoint, stop_file, places)


def _found(
    recipe: Recipe,
    name: str,
    value: RecipeValue,
    argv: Sequence[str],
    cwd: Path,
    known: Mapping[str, str],
    given: dict[str, str],
) -> str:
    for option, text in value.options.items():
        for before, word in pairwise(argv):
            if before == option:
                given[name] = word
                return text.replace("{word}", word)
    if value.file:
        path = cwd / _fill(recipe, value.file, known)
        match = re.search(value.pattern, text_files.text_of(path), re.MULTILINE)
        if match is not None:
            return match[1]
    if value.default is None:
        where = f" or a line {value.pattern!r} in {value.file}" if value.file else ""
        raise UsageError(
            f"recipe {recipe.name}: the command needs {' or '.join(value.options)}{where}, for"
            f" {name}: {' '.join(argv)}"
        )
    return _fill(recipe, value.default, known)


def _edited(
    recipe: Recipe,
    way: CommandChange,
    cwd: Path,
    known: Mapping[str, str],
    given: Mapping[str, str],
) -> list[tuple[str, Path, str]]:
    """Value, path and text of each input file that is changed."""
    texts: dict[str, str] = {}
    for edit in way.edit:
        if edit.file not in given:
            options = " or ".join(recipe.values[edit.file].options)
            raise UsageError(
                f"recipe {recipe.name}: the command names no input file with {options}"
            )
        path = cwd / given[edit.file]
        text = texts.get(edit.file)
        if text is None:
            text = text_files.text_of(path)
        put = _fill(recipe, edit.put, {k: v.replace("\\", r"\\") for k, v in known.items()})
        pattern = re.compile(edit.find, re.MULTILINE)
        lines = [text.count("\n", 0, m.start()) + 1 for m in pattern.finditer(text)]
        if edit.times and len(lines) != edit.times:
            found = f"lines {', '.join(map(str, lines))}" if lines else "none"
            raise UsageError(
                f"{path}: recipe {recipe.name} needs {edit.times} line(s) that fit {edit.find!r},"
                f" found {found}: {edit.why or 'change the file, or write a recipe of your own'}"
            )
        texts[edit.file] = pattern.sub(put, text)
    edited = []
    for name, text in texts.items():
        path = cwd / given[name]
        edited.append((name, path.with_name(f".dq-{known['job']}-{path.name}"), text))
    return edited


def _fill(recipe: Recipe, template: str, known: Mapping[str, str]) -> str:
    def word(match: re.Match[str]) -> str:
        name = match[1]
        if name in known:
            return known[name]
        if name in ("every_s", "every_min", "every_steps"):
            unit = "a number of steps, as 1000" if name == "every_steps" else "a time, as 10m"
            raise UsageError(
                f"the program of recipe {recipe.name} takes {unit}, for --checkpoint-every"
            )
        mine = ", ".join((*recipe.values, *FACTS, "stop_file", "checkpoint"))
        raise UsageError(f"recipe {recipe.name}: {template!r} has {{{name}}}; known: {mine}")

    return NAME.sub(word, template)
