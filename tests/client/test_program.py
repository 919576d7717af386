"""Programs are looked at before they are submitted: are they there, and has their Python DQ?"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from dq_client.base import messages as m
from dq_client.base.errors import Refused, UsageError
from dq_client.base.home import Home, created_s
from dq_client.cli import program

LOCAL, REMOTE = "tcp://127.0.0.1:9", "tcp://10.77.0.1:9"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return served(tmp_path / "home", LOCAL)


def served(root: Path, address: str) -> Home:
    """The home of a server that this process seems to be."""
    root.mkdir(mode=0o700)
    pid = os.getpid()
    info = {"pid": pid, "create_time": created_s(pid), "address": address}
    (root / "server.json").write_text(json.dumps(info))
    return Home(root)


@pytest.fixture
def bare(tmp_path: Path) -> str:
    """A Python without packages: the one here, told to look into no folder of packages."""
    path = tmp_path / "bin" / "python-bare"
    path.parent.mkdir()
    path.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    path.chmod(0o755)
    return str(path)


def submitted(folder: Path, *argv: str, **more: Any) -> m.Submit:
    env = {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
    return m.Submit(request="r", name="n", argv=list(argv), cwd=str(folder), inherited=env, **more)


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (["no-such-program"], "no-such-program: no such program in PATH of the job; give"),
        (["python9"], "python9: no such program in PATH of the job; --with-dq runs"),
        (["./no-such-program"], "/no-such-program: no such program"),
        (["/nonexistent/program", "-x"], "/nonexistent/program: no such program"),
        (["./data.txt"], "/data.txt is not executable: chmod +x"),
        (["."], "no such program"),
        ([sys.executable, "gone.py"], "/gone.py: no such file"),
        (["sh", "gone.sh", "arg"], "/gone.sh: no such file"),
        (["sh", "/gone/gone.sh"], "/gone/gone.sh: no such file"),
        (["a\0b"], "no such program"),
        (["x" * 5000], "no such program"),
    ],
)
def test_a_program_that_is_not_there_is_refused(
    home: Home, tmp_path: Path, argv: list[str], why: str
) -> None:
    (tmp_path / "data.txt").touch(0o644)
    with pytest.raises(Refused) as refused:
        program.check(submitted(tmp_path, *argv), home)
    assert why in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1
    if argv != ["."]:
        several = [m.Part(1, ["true"]), m.Part(1, argv)]
        with pytest.raises(Refused):
            program.check(submitted(tmp_path, "true", parts=several), home)


@pytest.mark.parametrize(
    "argv",
    [
        ["true"],
        ["sh", "-c", "exit 3"],
        ["sh", "-e", "gone.sh"],  # an option may take any word
        [sys.executable, "-m", "gone"],
        [sys.executable, "-c", "import gone"],
        [sys.executable, "app.py"],
        ["./app.py"],
        ["python-bare", "plain.py"],
        ["python-bare", "perhaps.py"],
        ["python-bare", "broken.py"],
        ["python-bare", "-m", "json.tool"],
    ],
)
@pytest.mark.usefixtures("bare")
def test_a_program_that_may_run_is_not(home: Home, tmp_path: Path, argv: list[str]) -> None:
    (tmp_path / "app.py").write_text("import mpi4py, resize_lib\n")
    (tmp_path / "app.py").chmod(0o755)
    (tmp_path / "plain.py").write_text("import json\nfrom . import mpi4py\n'import mpi4py'\n")
    (tmp_path / "perhaps.py").write_text("try:\n    import mpi4py\nexcept ImportError: pass\n")
    (tmp_path / "broken.py").write_text("import mpi4py\nprint 'as of Python 2'\n")
    assert program.check(submitted(tmp_path, *argv), home) == ""


@pytest.mark.parametrize(
    ("text", "lacking", "install"),
    [
        ("from mpi4py import MPI", "no mpi4py,", "mpi4py"),
        ("import numpy, resize_lib.arrays as r", "no resize_lib,", "dq-mpi"),
        ("import resize_lib\nfrom mpi4py.MPI import *", "no mpi4py and no resize_lib,",
         "mpi4py dq-mpi"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("way", ["file", "-c"])
def test_a_python_without_the_packages_is_named_with_the_remedies(
    home: Home, tmp_path: Path, bare: str, text: str, lacking: str, install: str, way: str
) -> None:
    (tmp_path / "app.py").write_text(text)
    argv = ["python-bare", "app.py"] if way == "file" else ["python-bare", "-c", text]
    with pytest.raises(Refused) as refused:
        program.check(submitted(tmp_path, *argv), home)
    found = str(refused.value)
    assert f"python-bare is {bare}, which has {lacking}" in found
    assert f"this dq runs on {sys.executable}" in found
    assert f"{bare} -m pip install {install};" in found
    assert "--with-dq" in found


@pytest.mark.usefixtures("bare")
def test_a_module_beside_the_program_counts_as_installed(home: Home, tmp_path: Path) -> None:
    folder = tmp_path / "apps"
    (folder / "mpi4py").mkdir(parents=True)
    (folder / "mpi4py" / "__init__.py").touch()
    (folder / "app.py").write_text("import mpi4py")
    assert program.check(submitted(tmp_path, "python-bare", "apps/app.py"), home) == ""


@pytest.mark.parametrize(
    ("address", "more"),
    [(REMOTE, {}), (LOCAL, {"hold": True}), (LOCAL, {"after": [1]}), (LOCAL, {"after_any": [1]})],
)
def test_where_it_may_be_there_all_the_same_a_note_says_so(
    tmp_path: Path, address: str, more: dict[str, Any]
) -> None:
    home = served(tmp_path / "home", address)
    text = program.check(submitted(tmp_path, "no-such-program", **more), home)
    assert "no such program" in text
    assert "submitted all the same" in text


def test_with_dq_is_the_python_of_this_command(tmp_path: Path) -> None:
    (tmp_path / "app.py").touch()
    for words in (("python", "app.py"), ("/usr/bin/python3.9", "app.py"), ("app.py",)):
        found = program.runnable(words, tmp_path, with_dq=True)
        assert found == [sys.executable, "app.py"]
    with pytest.raises(UsageError, match=r"--with-dq: \./a\.out is no Python"):
        program.runnable(("./a.out",), tmp_path, with_dq=True)
