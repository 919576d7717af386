"""The command line that started this program, so that spawned ranks run the same one.

`sys.orig_argv` keeps what `sys.argv` loses: interpreter flags and the `-m module` or `-c code`
form. The folder is remembered when the program imports the library, because a program may change
it later while its script was named relative to the first one.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from resize_lib.processes.interface import SpawnError
from resize_lib.processes.sources import check_sources

_start_folder = str(Path.cwd())
_command: list[str] = []  # of a program that is not a Python program


def start_folder() -> str:
    """Where this program started."""
    return _start_folder


def remember_start_folder() -> None:
    """The program imports the library now, in a process where that was loaded before."""
    global _start_folder
    _start_folder = str(Path.cwd())


def remember_command(command: list[str]) -> None:
    """This process is a program that has Python inside; `command` is what started it."""
    global _command
    _command = command
    remember_start_folder()


def program_command() -> list[str]:
    """This program's own argv: interpreter, its flags, script or module, arguments."""
    if _command:
        return _command
    if not sys.executable:
        raise SpawnError("cannot find out which Python runs this program (sys.executable is empty)")
    return [sys.executable, *sys.orig_argv[1:]]


def checked_command() -> tuple[list[str], str]:
    """What a new rank runs, and the folder to start it in. SpawnError if that cannot be."""
    command, folder = program_command(), start_folder()
    check_command(command, folder)
    return list(command), folder


def check_command(command: list[str], folder: str) -> None:
    """Refuse a command that cannot start: spawning a missing program hangs an MPI job.

    So does this program in another version (see `check_sources`). Only what this node can see is
    checked; another node's file system is its agent's business.
    """
    if not command:
        raise SpawnError("the command to spawn is empty")
    if not Path(folder).is_dir():
        raise SpawnError(f"the folder to start in does not exist: {folder}")
    program = Path(folder, command[0])
    if not program.is_file() or not os.access(program, os.X_OK):
        raise SpawnError(f"the program to spawn is missing or not executable: {program}")
    script = _script_of(command)
    if script is not None and not Path(folder, script).exists():
        raise SpawnError(f"the script to spawn is missing: {Path(folder, script)}")
    if command == program_command():
        check_sources()


def _script_of(command: list[str]) -> str | None:
    """The script in a Python command line; None for `-m` and `-c` forms or another program."""
    if Path(command[0]) != Path(sys.executable):
        return None
    words = iter(command[1:])
    for word in words:
        if word in ("-W", "-X"):
            next(words, None)
        elif word[:2] in ("-c", "-m") or word == "-":
            return None
        elif not word.startswith("-"):
            return word
    return None
