"""Reads the TOML and JSON files of a user and of DQ_HOME: whatever is wrong is one line.

toml_of      a user's file: UsageError names the file and what to mend
struct_of    a note of DQ_HOME that must be right: UsageError, with the advice of the caller
object_of    a note of DQ_HOME that may be lost: ValueError, for the caller to go on without
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, TypeVar

from dq_client.base import opened
from dq_client.base.errors import UsageError

T = TypeVar("T")
USER_FILE_BYTES_MAX = 64 << 20  # a device has no end


def text_of(path: Path) -> str:
    """The text of a file; UsageError if it cannot be read or is none."""
    try:
        with os.fdopen(opened.open_input(path), "rb") as f:
            return f.read(USER_FILE_BYTES_MAX).decode("utf-8")
    except UnicodeDecodeError as e:
        raise UsageError(
            f"{path}: no text in UTF-8: {e.reason} at byte {e.start}; save it as UTF-8"
        ) from e
    except OSError as e:
        raise UsageError(f"{path}: cannot be read ({e.strerror or e})") from e
    except ValueError as e:  # a path with a zero byte
        raise UsageError(f"{str(path)!r}: cannot be read ({e})") from e


def toml_of(path: Path) -> dict[str, Any]:
    """The tables of a TOML file."""
    import tomllib  # most servers have no such file, and start sooner without it

    try:
        return tomllib.loads(text_of(path))
    except (ValueError, RecursionError) as e:  # ValueError: also a number of too many digits
        raise UsageError(f"{path}: not TOML: {e}") from e


def object_of(path: Path) -> dict[str, Any]:
    """The JSON object in a file. OSError; ValueError if it holds anything else."""
    try:
        found = json.loads(opened.read_text(path))
    except RecursionError as e:
        raise ValueError(str(e)) from e
    if not isinstance(found, dict):
        raise ValueError(f"a {type(found).__name__} where an object {{...}} should be")  # noqa: TRY004 - as any other damage
    return found


def struct_of(path: Path, kind: type[T], advice: str) -> T:
    """A JSON file as this type. FileNotFoundError; UsageError if it is damaged."""
    import msgspec  # what only looks for objects needs none

    try:
        return msgspec.json.decode(opened.read(path), type=kind)
    except FileNotFoundError:
        raise
    except (OSError, ValueError, RecursionError, msgspec.MsgspecError) as e:
        raise UsageError(f"{path}: cannot be read ({e}): {advice}") from e
