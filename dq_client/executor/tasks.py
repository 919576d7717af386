"""Tasks of an executor as bytes, and the process of a worker that does them."""

from __future__ import annotations

import io
import pickle
import signal
import sys
import traceback
from importlib import import_module
from multiprocessing.connection import Connection
from types import FunctionType
from typing import Any

from dq_client.base.errors import UsageError

loads = pickle.loads  # only of a peer that was authenticated by its key


class RemoteTraceback(Exception):
    """Where an exception was raised in a worker; it is the cause of what a future raises."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f"\n{self.text}"


class _ByName(pickle.Pickler):
    """The standard pickler, which takes functions and classes by name: no worker finds __main__."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, FunctionType | type) and obj.__module__ == "__main__":
            raise UsageError(
                f"{obj.__qualname__} is defined in the program itself or in a notebook, where no"
                " worker finds it: pip install cloudpickle, or move it to a module"
            )
        return NotImplemented


def dumps(value: Any) -> bytes:
    """`value` as bytes, by cloudpickle if it is installed.

    Raises:
        UsageError: workers could not read it.
    """
    try:
        pickler = import_module("cloudpickle").Pickler
    except ImportError:
        pickler = _ByName
    out = io.BytesIO()
    try:
        pickler(out, pickle.HIGHEST_PROTOCOL).dump(value)
    except (pickle.PicklingError, AttributeError, TypeError) as e:
        more = "" if pickler is not _ByName else "; cloudpickle may do it"
        raise UsageError(f"it cannot be sent to a worker: {e}{more}") from e
    return out.getvalue()


def answer(packed: bytes) -> bytes:
    """Do a task, in a worker; returns its result or its exception, as `result_of` reads them."""
    try:
        function, arguments, named = loads(packed)
        return dumps((True, function(*arguments, **named)))
    except BaseException as e:
        text = "".join(traceback.format_exception(e))
        try:
            packed_error = dumps((False, (e, text)))
            loads(packed_error)  # some are written and cannot be read
        except Exception:
            return dumps((False, (RuntimeError(f"{type(e).__name__}: {e}"), text)))
        return packed_error


def result_of(packed: bytes) -> tuple[Any, BaseException | None]:
    """A task's result, or its exception with the worker's traceback as its cause."""
    try:
        fine, value = loads(packed)
    except Exception as e:
        return None, e
    if fine:
        return value, None
    error, text = value
    error.__cause__ = RemoteTraceback(text)
    return None, error


def do_tasks(pipe: Connection) -> None:
    """Do the setup, then task after task, until the worker is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        sys.path[:], setup = loads(pipe.recv_bytes())
        initializer, arguments = loads(setup)
        if initializer is not None:
            initializer(*arguments)
        pipe.send_bytes(b"")
        while True:
            pipe.send_bytes(answer(pipe.recv_bytes()))
    except EOFError:
        return


if __name__ == "__main__":
    do_tasks(Connection(int(sys.argv[1])))
