"""Labs for tests; skipped, loudly, where machines with networks of their own cannot be made."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.lab.machines import Lab, missing

LabMaker = Callable[..., Lab]


@pytest.fixture(scope="session")
def possible() -> None:
    """Skip if there can be no lab here; in the summary as a warning, not only as an `s`."""
    why = missing()
    if why:
        warnings.warn(f"tests/lab is skipped: {why}", stacklevel=1)
        pytest.skip(why)


@pytest.fixture
def make_lab(possible: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabMaker]:
    """Make labs that end with the test."""
    labs: list[Lab] = []

    def make(*names: str, shared_home: bool = False) -> Lab:
        labs.append(Lab(reachable(tmp_path_factory), names, shared_home=shared_home))
        return labs[-1]

    yield make
    for lab in labs:
        lab.down()


@pytest.fixture(scope="module")
def lab(possible: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Three machines for all tests of a module; nothing of DQ may run on them after a test."""
    made = Lab(reachable(tmp_path_factory), ("alpha", "beta", "gamma"))
    yield made
    made.down()


def reachable(factory: pytest.TempPathFactory) -> Path:
    """A new folder that the lab's user can enter, which pytest's own are not for."""
    folder = factory.mktemp("lab")
    for parent in [folder, *folder.parents]:
        if parent.stat().st_mode & 0o001:
            continue
        parent.chmod(parent.stat().st_mode | 0o011)
    return folder


def left(lab: Lab, names: Sequence[str] | None = None) -> dict[str, list[str]]:
    """Processes of the lab's user on its machines; an agent that says it ends has a moment to."""
    until_s = time.monotonic() + 3
    while True:
        found = {name: lab.processes(name) for name in names or lab.names}
        found = {name: lines for name, lines in found.items() if lines}
        if not found or time.monotonic() > until_s:
            return found
        time.sleep(0.1)
