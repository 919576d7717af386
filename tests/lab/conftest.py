"""Labs for tests; skipped, loudly, where machines with networks of their own cannot be made."""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
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
def make_lab(possible: None) -> Iterator[LabMaker]:
    """Make labs that end with the test."""
    with ExitStack() as labs:

        def make(*names: str, shared_home: bool = False) -> Lab:
            return labs.enter_context(made(names, shared_home=shared_home))

        yield make


@pytest.fixture(scope="module")
def lab(possible: None) -> Iterator[Lab]:
    """Three machines for all tests of a module; nothing of DQ may run on them after a test."""
    with made(("alpha", "beta", "gamma")) as lab:
        yield lab


@contextmanager
def made(names: Sequence[str], *, shared_home: bool = False) -> Iterator[Lab]:
    """A lab for the length of the block.

    Its user has to enter its folder. Those of pytest are not for others: whenever another run of
    pytest starts it closes them, also in the middle of a test.
    """
    with tempfile.TemporaryDirectory(prefix="dq-lab-") as folder:
        Path(folder).chmod(0o711)
        lab = Lab(Path(folder), names, shared_home=shared_home)
        try:
            yield lab
        finally:
            lab.down()


def left(lab: Lab, names: Sequence[str] | None = None) -> dict[str, list[str]]:
    """Processes of the lab's user on its machines; an agent that says it ends has a moment to."""
    until_s = time.monotonic() + 60
    while True:
        found = {name: lab.processes(name) for name in names or lab.names}
        found = {name: lines for name, lines in found.items() if lines}
        if not found or time.monotonic() > until_s:
            return found
        time.sleep(0.1)
