"""Reads the TOML and JSON files of a user and of DQ_HOME: whatever is wrong is one line.

toml_of      a user's file: UsageError names the file and what to mend
struct_of    a note of DQ_HOME that must be right: UsageError, with the advice of the caller
object_of    a note of DQ_HOME that may be lost: ValueError, for the caller to go on without
tables_as    a user's tables as a type: UsageError names the table, the key and what is needed
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from dq_client.base import opened
from dq_client.base.errors import UsageError, known_words

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


# The words of msgspec, which checks the values, and ours.
_PLACE = re.compile(r"^(?P<what>.*?)(?: - at `(?:key in )?\$(?P<place>[^`]*)`)?$", re.DOTALL)
_KINDS = {
    "int": "a whole number", "float": "a number", "str": "a text",
    "bool": "true or false", "array": "a list", "object": "a table", "null": "",
}  # fmt: skip


def tables_as(tables: dict[str, Any], kind: type[T], where: str) -> T:
    """The tables of a user's file as this type of struct; UsageError begins with `where`."""
    import msgspec  # what only reads other files needs none

    try:
        return msgspec.convert(tables, kind)
    except msgspec.ValidationError as e:
        raise UsageError(f"{where}: {explained(str(e), kind)}") from e


def explained(text: str, kind: Any = None) -> str:
    """An error of msgspec about values of `kind`, in plain words."""
    found = _PLACE.match(text)
    assert found is not None  # everything matches
    what, place = found["what"], (found["place"] or "").removeprefix(".body")  # of a message
    steps = re.findall(r"[^.\[\]]+", place)
    named = [f"entry {int(s) + 1}" if s.isdigit() else "entry" if s == "..." else s for s in steps]
    at = f"{' '.join(named)}: " if named else ""
    if wrong := re.fullmatch(r"Object contains unknown field `(.*)`", what):
        return f"{at}unknown key {wrong[1]!r}; {known_words(wrong[1], _keys(kind, steps))}"
    if missing := re.fullmatch(r"Object missing required field `(.*)`", what):
        return f"{at}the key {missing[1]!r} is missing"
    if wrong := re.fullmatch(r"Expected `([^`]*)`, got `([^`]*)`", what):
        needed = " or ".join(filter(None, (_KINDS.get(w, w) for w in wrong[1].split(" | "))))
        if wrong.groups() == ("array", "object") and named:
            needed += f" (write [[{named[-1]}]])"
        return f"{at}{needed} is needed, not {_KINDS.get(wrong[2]) or wrong[2]}"
    if (wrong := re.fullmatch(r"Invalid value '(.*)'", what)) and place == ".t":
        return f"unknown request {wrong[1]!r}: another version of dq has sent it"
    if wrong := re.fullmatch(r"Invalid enum value (.*)", what):
        words = get_args(_kind_at(kind, steps))
        return f"{at}{wrong[1]} is unknown; {known_words(wrong[1], map(str, words))}"
    if wrong := re.fullmatch(r"Expected `(\w+)` ((?:of length )?[<>]=? ?\S+)", what):
        return f"{at}{_KINDS.get(wrong[1], wrong[1])} {wrong[2]} is needed"
    if wrong := re.fullmatch(r"Expected `str` matching regex '(.*)'", what):
        pattern = wrong[1].replace("\\\\", "\\").removeprefix("\\A").removesuffix("\\Z")
        return f"{at}the text must match {pattern}"
    return f"{at}{what}"


def _keys(kind: Any, steps: list[str]) -> list[str]:
    """The keys that a table may have at this place of a struct."""
    fields: tuple[str, ...] = getattr(_kind_at(kind, steps), "__struct_fields__", ())
    return list(fields)


def _kind_at(kind: Any, steps: list[str]) -> Any:
    """The type of what stands at this place of a struct; None if it cannot be told."""
    import msgspec

    for step in steps:
        kind = _plain(_chosen(kind, step))
        if hasattr(kind, "__struct_fields__"):
            kind = {f.encode_name: f.type for f in msgspec.structs.fields(kind)}.get(step)
        else:  # of a list or a table, what its entries are
            entries = [k for k in get_args(kind) if k is not ...]
            kind = entries[-1] if entries else None
    return _plain(_chosen(kind))


def _chosen(kind: Any, step: str = "") -> Any:
    """Of types in a union the one that what is at this step can belong to."""
    if get_origin(kind) not in (Union, UnionType):
        return kind
    types = [k for k in get_args(kind) if k is not type(None)]
    lists = [k for k in types if get_origin(k) is list]
    if lists and step.isdigit():
        return lists[0]
    others = [k for k in types if k not in lists]
    return others[0] if len(others) == 1 else kind


def _plain(kind: Any) -> Any:
    """Without the bounds of its values."""
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind
