"""The program of a submission: how it is started, and whether it can be.

Looked at before the job exists: a job that waits for an hour and ends with ModuleNotFoundError, or
with `no such program`, is the worst way to learn of either. Nodes on other machines may have what
is not here: for those a note says what is a refusal otherwise.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from dq_client.base import messages as m
from dq_client.base.address import is_remote
from dq_client.base.errors import DQError, Refused, UsageError
from dq_client.base.home import Home
from dq_client.base.values import SHELLS, script_of

NEEDED = {"mpi4py": "mpi4py", "resize_lib": "dq-mpi", "dq_client": "dq-mpi"}  # and what has them
ANSWER_WITHIN_S = 10.0  # of an interpreter that is asked for its packages
SCRIPT_BYTES_MAX = 1 << 20
# For any Python 3: the folder of the program, then names of packages.
PROBE = """import sys, importlib.util as u
sys.path.insert(0, sys.argv[1])
print(" ".join(n for n in sys.argv[2:] if u.find_spec(n) is None))"""


def runnable(program: tuple[str, ...], folder: Path, *, with_dq: bool = False) -> list[str]:
    """The program as it can be started: `script.py` alone is run by python, `script.sh` by sh.

    with_dq  by the Python that runs this command, whichever the program names
    """
    words = _runnable(program, folder)
    if not with_dq:
        return words
    if not _is_python(words[0]):
        raise UsageError(f"--with-dq: {words[0]} is no Python: give python PROGRAM, or PROGRAM.py")
    return [sys.executable, *words[1:]]


def _runnable(program: tuple[str, ...], folder: Path) -> list[str]:
    first = program[0]
    script = folder / first
    if "/" in first or not script.is_file() or _found(first, folder, os.environ) is not None:
        return list(program)
    if os.access(script, os.X_OK):
        return [f"./{first}", *program[1:]]
    interpreter = {".py": "python", ".sh": "sh"}.get(script.suffix)
    return list(program) if interpreter is None else [interpreter, *program]


def check(body: m.Submit, home: Home) -> str:
    """A note about a program that may not be able to run; empty: there is nothing to say.

    Raises:
        Refused: it cannot: it is not there, or its Python lacks a package that it imports.
    """
    try:
        remote = is_remote(str(home.server()["address"]))
    except DQError:
        return ""  # the submission will say so
    later = body.hold or body.after or body.after_any or body.after_not  # it may be made until then
    env = {**body.inherited, **body.env}
    for argv in [part.argv for part in body.parts] or [body.argv]:
        why = _missing(argv, Path(body.cwd), env) or _lacking(argv, Path(body.cwd), env)
        if why and not (remote or later):
            raise Refused(why)
        if why:
            return f"{why} (submitted all the same: it may be there where and when the job runs)"
    return ""


def _missing(argv: list[str], folder: Path, env: Mapping[str, str]) -> str:
    """Why the program, or the script that it interprets, cannot be found; empty: it can."""
    program = argv[0]
    if _found(program, folder, env) is None:
        if "/" in program:
            path = folder / program
            if path.is_file():
                return f"{path} is not executable: chmod +x makes it so, or name its interpreter"
            return f"{path}: no such program"
        way = "--with-dq runs the Python of dq" if _is_python(program) else "give its path"
        return f"{program}: no such program in PATH of the job; {way}"
    script = script_of(argv)
    by_path = argv[1:2] == [script] and (_is_python(program) or Path(program).name in SHELLS)
    if by_path and not os.access(folder / script, os.F_OK):
        return f"{folder / script}: no such file"
    return ""


def _lacking(argv: list[str], folder: Path, env: Mapping[str, str]) -> str:
    """Which packages of MPI and DQ a Python program imports and its interpreter lacks."""
    python = _found(argv[0], folder, env) if _is_python(argv[0]) else None
    if python is None or python == sys.executable:
        return ""
    script = script_of(argv)
    wanted = _imports(argv, folder / script)
    lacking = _absent(python, str((folder / script).parent), wanted, folder, env)
    if not lacking:
        return ""
    install = " ".join(dict.fromkeys(NEEDED[name] for name in lacking))
    named = argv[0] if argv[0] == python else f"{argv[0]} is {python}, which"
    return (
        f"{named} has no {' and no '.join(lacking)}, imported by {script}; this dq runs on"
        f" {sys.executable}. Install it: {python} -m pip install {install}; or run the program with"
        " DQ's Python: --with-dq"
    )


def _imports(argv: list[str], script: Path) -> list[str]:
    """Those of NEEDED that the program names in an import, or that are its module (-m)."""
    text = ""
    if argv[1:2] == ["-m"]:
        text = "".join(f"import {word.partition('.')[0]}" for word in argv[2:3])
    elif argv[1:2] == ["-c"]:
        text = "".join(argv[2:3])
    elif os.access(script, os.R_OK) and script.is_file():
        with script.open("rb") as f:
            text = f.read(SCRIPT_BYTES_MAX).decode(errors="replace")
    if not any(name in text for name in NEEDED):
        return []
    import ast  # only for a Python that is not this one

    names = set[str]()
    try:
        # Outside functions and `try`: a program may do without what it imports there.
        for node in ast.parse(text).body:
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module.partition(".")[0])
    except (SyntaxError, ValueError, RecursionError):
        return []  # of another Python, or none: it will say so itself
    return [name for name in NEEDED if name in names]


def _absent(
    python: str, beside: str, wanted: list[str], folder: Path, env: Mapping[str, str]
) -> list[str]:
    """Which of these packages the interpreter does not find; none if it does not answer."""
    if not wanted:
        return []
    import subprocess  # only for a Python that is not this one

    command = [python, "-c", PROBE, beside, *wanted]
    try:
        asked = subprocess.run(
            command, cwd=folder, env=dict(env), capture_output=True, text=True,
            timeout=ANSWER_WITHIN_S, stdin=subprocess.DEVNULL, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return []
    return asked.stdout.split()


def _found(program: str, folder: Path, env: Mapping[str, str]) -> str | None:
    """The file that will be executed; None: there is none."""
    places = ["."] if "/" in program else env.get("PATH", os.defpath).split(os.pathsep)
    for place in places:
        path = os.path.normpath(folder / place / program)
        if "\0" not in path and os.access(path, os.X_OK) and Path(path).is_file():
            return path
    return None


def _is_python(program: str) -> bool:
    return Path(program).name.startswith("python")
