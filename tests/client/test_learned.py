"""What a keeper loads because its ranks have imported it, and what it does not load."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

# A rank that imports `package`, forked from a process that is then asked the same as a keeper.
SCRIPT = """
import json, os, sys
import mpi4py, numpy.random, package_of_all  # noqa: F401 - there before the fork
from dq_client.base import imports
from dq_client.node.ranks import learned, preload
sys.meta_path.insert(0, preload.Finder({"mpi4py.MPI": sys}, {}))
imports.mark()
ours, its = os.pipe()
if not os.fork():
    sys.meta_path[0].hidden.clear()
    exec(sys.argv[1])
    os.write(its, json.dumps(imports.imported()).encode())
    os._exit(0)
said = json.loads(os.read(ours, 1 << 16))
print(json.dumps([sorted(said.get("packages", {})), learned._why_not(said) if said else ""]))
"""


def asked(folder: Path, text: str, program: str = "import package") -> tuple[list[str], str]:
    """The packages of a rank that runs `program`, and why its keeper does not load them."""
    site = folder / "site-packages"
    (site / "package" / "below").mkdir(parents=True)
    (site / "package_of_all.py").touch()
    (site / "package" / "__init__.py").write_text(text)
    (site / "package" / "below" / "__init__.py").touch()
    env = {**os.environ, "PYTHONPATH": f"{site}:{Path.cwd()}"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, program], env=env, check=True, capture_output=True, text=True
    )
    packages, why_not = json.loads(done.stdout)
    return packages, why_not


def test_packages_that_were_imported_since_the_fork_are_loaded(tmp_path: Path) -> None:
    program = "import package.below, package_of_all, json"
    assert asked(tmp_path, "import csv", program) == (["package"], "")


def test_a_program_without_packages_says_nothing(tmp_path: Path) -> None:
    assert asked(tmp_path, "", "import csv") == ([], "")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()",
         "their import starts threads"),
        ("import os\nos.environ['PACKAGE'] = '1'",
         "the program has changed the environment, or how Python imports"),
        ("try:\n    import mpi4py.MPI\nexcept ImportError:\n    pass", "package uses MPI"),
        ("kept = open('/dev/null')", "their import opens files, or handles signals"),
        ("import signal\nsignal.signal(signal.SIGUSR1, signal.SIG_IGN)",
         "their import opens files, or handles signals"),
        ("import random\nrng = random.Random()",
         "they keep random numbers, which would be the same in all ranks"),
        ("import numpy\nrng = numpy.random.default_rng()",
         "they keep random numbers, which would be the same in all ranks"),
        ("import sys\nsys.meta_path.append(type('Other', (), {'find_spec': lambda *_: None})())",
         "the program has changed the environment, or how Python imports"),
    ],
)  # fmt: skip
def test_what_must_not_be_in_a_process_that_ranks_are_forked_from(
    tmp_path: Path, text: str, why: str
) -> None:
    assert asked(tmp_path, text) == (["package"], why)


def test_an_environment_that_the_program_changes_before_it_imports(tmp_path: Path) -> None:
    program = "import os; os.environ['PACKAGE'] = '1'; import package"
    _, why_not = asked(tmp_path, "", program)
    assert why_not == "the program has changed the environment, or how Python imports"


def test_another_package_of_the_same_name(tmp_path: Path) -> None:
    other = tmp_path / "other" / "site-packages"
    other.mkdir(parents=True)
    (other / "package.py").touch()
    program = f"import sys; sys.path.insert(0, {str(other)!r}); import package"
    _, why_not = asked(tmp_path, "", program)
    assert why_not == "package is not the package that the program has imported"
