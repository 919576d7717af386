"""What a command line runs; and running it in a process that was forked from a starter.

`plan` says whether `python ...` can be run without exec: an interpreter, flags and a program that
behave the same in a fork of a process with this interpreter, in which some packages are loaded.
Whatever it is not sure of is executed.
"""

from __future__ import annotations

import builtins
import os
import shutil
import sys
import types
from dataclasses import dataclass
from typing import Optional, TextIO

FLAGS = {"-u", "-P", "-B"}  # those that can be had in a running interpreter


@dataclass
class PythonProgram:
    """A Python program: `kind` is file, module or code."""

    kind: str
    target: str
    argv: list[str]  # the whole command line
    arguments: list[str]
    flags: frozenset[str]
    folder: str  # what Python puts first into sys.path; empty: nothing


def plan(
    argv: list[str], env: dict[str, str], cwd: str, tops: dict[str, str]
) -> Optional[PythonProgram]:
    """The program if it can be run in a fork of this process, else None.

    tops: the packages that are loaded, with their folders.
    """
    found = shutil.which(argv[0], path=env.get("PATH", os.defpath))
    if "/" in argv[0]:
        found = os.path.join(cwd, argv[0])
    if found is None or os.path.abspath(found) != os.path.abspath(sys.executable):
        return None
    program = _parse(argv, cwd)
    if program is None or _shadows(program.folder, tops):
        return None
    # A relative entry means another folder in each job.
    path = [entry for entry in env.get("PYTHONPATH", "").split(os.pathsep) if entry]
    return program if all(map(os.path.isabs, path)) else None


def _parse(argv: list[str], cwd: str) -> Optional[PythonProgram]:
    flags: set[str] = set()
    for i, word in enumerate(argv[1:], 1):
        if word in FLAGS:
            flags.add(word)
            continue
        safe = "-P" in flags or getattr(sys.flags, "safe_path", False)
        kind, target, rest = "file", word, i
        if word in ("-m", "-c"):
            if i + 1 >= len(argv):
                return None
            kind, target, rest = ("module" if word == "-m" else "code"), argv[i + 1], i + 1
        elif word.startswith("-") or not os.path.isfile(os.path.join(cwd, word)):
            return None
        folder = cwd
        if kind == "file":
            folder = os.path.dirname(os.path.realpath(os.path.join(cwd, word)))
        arguments = argv[rest + 1 :]
        return PythonProgram(
            kind, target, argv, arguments, frozenset(flags), "" if safe else folder
        )
    return None


def _shadows(folder: str, tops: dict[str, str]) -> bool:
    """Whether the program's folder has packages of its own in place of those that are loaded."""
    for name, where in tops.items():
        mine = os.path.join(folder, name)
        there = folder and (os.path.exists(mine + ".py") or os.path.isdir(mine))
        if there and (not where or os.path.realpath(mine) != os.path.realpath(where)):
            return True
    return False


def run(program: PythonProgram) -> None:
    """Be the program: what follows after `python` on its command line, its end included."""
    try:
        _run(program)
    except SystemExit:
        raise
    except BaseException as error:
        # As the interpreter does, but without the frames that stand between it and the program.
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        raise SystemExit(130 if isinstance(error, KeyboardInterrupt) else 1) from None


def _run(program: PythonProgram) -> None:
    _streams("-u" in program.flags or bool(os.environ.get("PYTHONUNBUFFERED")))
    if "-B" in program.flags:
        sys.dont_write_bytecode = True
    sys.orig_argv = [*program.argv]
    first = {"file": program.target, "module": "-m", "code": "-c"}[program.kind]
    sys.argv = [first, *program.arguments]
    if program.folder:
        sys.path.insert(0, "" if program.kind == "code" else program.folder)
    if program.kind == "module":
        import runpy

        runpy._run_module_as_main(program.target)  # type: ignore[attr-defined]  # as `python -m`
        return
    main = types.ModuleType("__main__")
    vars(main).update({"__builtins__": builtins, "__annotations__": {}})
    if program.kind == "code":
        code = compile(program.target, "<string>", "exec", dont_inherit=True)
    else:
        path = os.path.abspath(program.target)
        main.__file__ = path
        vars(main)["__cached__"] = None
        with open(path, "rb") as f:
            code = compile(f.read(), path, "exec", dont_inherit=True)
    sys.modules["__main__"] = main
    exec(code, vars(main))  # noqa: S102 - it is the program


def _streams(unbuffered: bool) -> None:
    """sys.stdin, stdout and stderr as Python makes them at its start, for the new descriptors."""
    encoding, errors = sys.stdout.encoding, sys.stdout.errors or "strict"
    streams: dict[str, TextIO] = {
        "stdin": open(0, encoding=encoding, errors=errors, closefd=False),  # noqa: SIM115
    }
    for name, fd, how in (("stdout", 1, errors), ("stderr", 2, "backslashreplace")):
        stream = open(fd, "w", encoding=encoding, errors=how, closefd=False)  # noqa: SIM115
        at_once = unbuffered or fd == 2
        stream.reconfigure(line_buffering=fd == 2 or stream.isatty(), write_through=at_once)
        streams[name] = stream
    for name, made in streams.items():
        setattr(sys, name, made)
        setattr(sys, f"__{name}__", made)
