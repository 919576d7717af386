"""Whether a recipe fits a program: a run on one processor beside one that goes 1 -> 2 -> 1.

Both run in copies of the current folder, as jobs of a private cluster under a temporary DQ_HOME.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dq_client.base import messages as m
from dq_client.base.connection import Connection, ask
from dq_client.base.errors import DQError, Refused, UsageError
from dq_client.base.home import Home
from dq_client.base.recipes.command import StartFacts, start_of
from dq_client.base.recipes.recipe import ERRORS, OUTPUT, Recipe, RecipeComparison
from dq_client.base.states import ENDED
from dq_client.deploy import local, shutdown
from dq_client.deploy.cluster import local_cluster
from dq_client.show.job_output import last_errors, output_of

WAY = (2, 1)  # from 1
LOOK_S = 0.1
FOLDER_BYTES_MAX = 2 << 30
CONFIG = '[scheduler]\nresize = "none"\n'

Submission = Callable[[Path, int, str], m.Submit]  # folder, processors, legal sizes


@dataclass(frozen=True, slots=True)
class Compared:
    """One figure of both runs; None: no line fits."""

    what: str
    plain: str | None
    resized: str | None
    equal: bool


@dataclass(slots=True)
class Trial:
    """See the module's docstring; `say` gets the progress, a line each."""

    recipe: Recipe
    say: Callable[[str], None]
    root: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="dq-recipe-")))

    def run(self, argv: list[str], submission: Submission) -> tuple[list[Compared], dict[str, Any]]:
        """What the recipe compares, and the resized job.

        Raises:
            UsageError: a run fails, ends too soon, or is not resized.
        """
        home = Home(self.root / "home")
        config = self.root / "config.toml"
        config.write_text(CONFIG)
        local.bring_up(home, local_cluster(max(WAY)), ["--config", str(config)])
        try:
            with closing(Connection.to(home)) as connection:
                folders = {name: self._folder(name) for name in ("plain", "resized")}
                self.say("on 1 processor, without resizes")
                plain = self._follow(connection, submission(folders["plain"], 1, "1"), ())
                self.say(f"with resizes, 1 -> {' -> '.join(map(str, WAY))}")
                resized = self._follow(connection, submission(folders["resized"], 1, "1,2"), WAY)
                found = [
                    self._compared(each, connection, argv, folders, (plain, resized))
                    for each in self.recipe.compare
                ]
                return found, resized
        finally:
            shutdown.bring_down(home, force=True)

    def clear(self) -> None:
        """Remove what the runs have written."""
        shutil.rmtree(self.root, ignore_errors=True)

    def _folder(self, name: str) -> Path:
        here = Path.cwd()
        size = sum(path.lstat().st_size for path in here.rglob("*") if path.is_file())
        if size > FOLDER_BYTES_MAX:
            raise UsageError(
                f"{here} has {size >> 20} MiB, and is copied for each run: run the check in a"
                f" folder with the input alone, at most {FOLDER_BYTES_MAX >> 20} MiB"
            )
        return Path(shutil.copytree(here, self.root / name, symlinks=True))

    def _follow(
        self, connection: Connection, body: m.Submit, sizes: tuple[int, ...]
    ) -> dict[str, Any]:
        """Run a job to its end, through these sizes."""
        reply = connection.call(body)
        assert isinstance(reply, m.Submitted)
        number, left, ordered = reply.job, list(sizes), 0
        while True:
            job: dict[str, Any] = ask(connection, m.JobQuery(number))
            if job["state"] in ENDED:
                break
            is_there = not ordered or job["processors"] == ordered
            if left and is_there and job["state"] == "running" and job["sizes"][-1]["iterations"]:
                ordered = left.pop(0)
                try:
                    connection.call(m.Resize(job=number, size=ordered))
                except Refused as e:
                    raise UsageError(f"the job cannot be resized: {e}") from e
            time.sleep(LOOK_S)
        went = [stay["processors"] for stay in job["sizes"]]
        if job["state"] != "done":
            errors = "\n".join(last_errors(connection, number))
            raise UsageError(f"the run on {went} has {job['state']}: {job['reason']}\n{errors}")
        if sizes and went != [1, *sizes]:
            raise UsageError(
                f"the program went through {went} processors and ended, not through"
                f" {[1, *sizes]}: give it more to do; or it was not resized, and dq why gives:"
                f" {'; '.join(_refusals(connection, number)) or 'it has ended before'}"
            )
        return job

    def _compared(
        self,
        each: RecipeComparison,
        connection: Connection,
        argv: list[str],
        folders: dict[str, Path],
        jobs: tuple[dict[str, Any], dict[str, Any]],
    ) -> Compared:
        texts = []
        for folder, job in zip(folders.values(), jobs, strict=True):
            if each.where in (OUTPUT, ERRORS):
                stream = "out" if each.where == OUTPUT else "err"
                data = b"".join(output_of(connection, job["id"], stream))
            else:
                start = start_of(
                    self.recipe, argv, folder, StartFacts(job["id"], 1, 1), goes_on=False
                )
                data = start.places[each.where].read_bytes()
            texts.append(data.decode(errors="replace"))
        plain, resized = (figure(each, text) for text in texts)
        return Compared(each.what, plain, resized, are_equal(plain, resized, each.tolerance))


def figure(each: RecipeComparison, text: str) -> str | None:
    """What is compared, in one run's text; None: no line fits."""
    found = [match for line in text.splitlines() if (match := re.search(each.pattern, line))]
    if each.counts:
        return str(len(found))
    return found[-1][1] if found else None


def are_equal(plain: str | None, resized: str | None, tolerance: float) -> bool:
    """Whether both are there and the same, as numbers with a relative tolerance."""
    if plain is None or resized is None:
        return False
    try:
        a, b = float(plain), float(resized)
    except ValueError:
        return plain == resized
    return abs(a - b) <= tolerance * max(abs(a), abs(b))


def _refusals(connection: Connection, number: int) -> list[str]:
    try:
        story = ask(connection, m.WhyQuery(number))["story"]
    except DQError:
        return []
    return [entry["text"] for entry in story if entry["code"] in ("resize_aborted", "cannot_grow")]
