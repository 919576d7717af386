"""Objects that change in place: what is read of them, and how another one is given the same.

Each kind has `contents`, which can be packed, and `fill`, which gives an object of the same kind
these contents. A rank that joins has made the same objects in its set-up; filling keeps them, and
with them everything that refers to them.
"""

from __future__ import annotations

import array
import ctypes
import enum
import functools
import io
import random
import types
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from resize_lib.state import digests, iterators
from resize_lib.state.program import is_program_class, is_program_file, is_program_function


@dataclass(frozen=True, slots=True)
class Kind:
    """How objects of one kind are read and filled.

    contents: returns what `fill` takes. digest: of the contents; default: digests.of.
    """

    name: str
    contents: Callable[[Any], Any]
    fill: Callable[[Any, Any], None]
    fits: Callable[[Any, Any], bool] = lambda mine, contents: True  # noqa: ARG005


def _fill_list(mine: Any, contents: list[Any]) -> None:
    mine.clear()
    mine.extend(contents)


def _fill_dict(mine: Any, contents: list[tuple[Any, Any]]) -> None:
    mine.clear()
    mine.update(dict(contents))  # not the pairs: a Counter would count them


def _fill_set(mine: Any, contents: list[Any]) -> None:
    mine.clear()
    mine.update(contents)


def _fill_array(mine: Any, contents: Any) -> None:
    mine[...] = contents


def _array_fits(mine: Any, contents: Any) -> bool:
    alike = mine.shape == contents.shape and mine.dtype == contents.dtype
    return alike and bool(mine.flags.writeable)


def _fill_plain_array(mine: Any, contents: bytes) -> None:
    if len(mine) * mine.itemsize == len(contents):  # something may hold its memory
        _fill_memory(mine, contents)
        return
    del mine[:]
    mine.frombytes(contents)


def _fill_memory(mine: Any, contents: bytes) -> None:
    memoryview(mine).cast("B")[:] = contents


def _fill_buffer(mine: Any, contents: tuple[Any, int]) -> None:
    mine.seek(0)
    mine.truncate()
    mine.write(contents[0])
    mine.seek(contents[1])


def _fill_generator(mine: Any, contents: Any) -> None:
    mine.bit_generator.state, spawned = contents
    if missing := spawned - _spawned(mine):
        mine.bit_generator.seed_seq.spawn(missing)


def _state_of_bits(value: Any) -> Any:
    return value.bit_generator.state, _spawned(value)


def _spawned(generator: Any) -> int:
    """How many generators it has made for others; the next ones depend on that."""
    return int(getattr(generator.bit_generator.seed_seq, "n_children_spawned", 0))


def _fill_tensor(mine: Any, contents: Any) -> None:
    mine.data.copy_(type(mine.data).new_tensor(mine.data, contents))


def _tensor(value: Any) -> Any:
    return value.detach().cpu().numpy().copy()


def _fill_on_device(mine: Any, contents: Any) -> None:
    mine.set(contents)


LIST = Kind("list", list, _fill_list)
DEQUE = Kind("deque", lambda value: list(value), _fill_list)
DICT = Kind("dict", lambda value: list(value.items()), _fill_dict)
SET = Kind("set", lambda value: list(value), _fill_set)
BYTES = Kind("bytearray", bytes, lambda mine, contents: mine.__setitem__(slice(None), contents))
ARRAY = Kind("array", lambda value: value.view(np.ndarray), _fill_array, _array_fits)
CELLS = Kind("memory of C", lambda value: value.__reduce__() and bytes(value), _fill_memory)
PLAIN_ARRAY = Kind("plain array", lambda value: value.tobytes(), _fill_plain_array)
NUMPY_GENERATOR = Kind(
    "generator of numpy",
    _state_of_bits,
    _fill_generator,
    lambda mine, contents: type(mine.bit_generator).__name__ == contents[0]["bit_generator"],
)
NUMPY_BITS = Kind(
    "generator of numpy",
    lambda value: value.state,
    lambda mine, state: setattr(mine, "state", state),
    lambda mine, state: type(mine).__name__ == state["bit_generator"],
)
NUMPY_STATE = Kind(
    "generator of numpy", lambda value: value.get_state(), lambda mine, state: mine.set_state(state)
)
RANDOM = Kind(
    "random generator", lambda value: value.getstate(), lambda mine, state: mine.setstate(state)
)
STATE_DICT = Kind(
    "state_dict",
    lambda value: value.state_dict(),
    lambda mine, state: mine.load_state_dict(state),
)
TENSOR = Kind(
    "tensor", _tensor, _fill_tensor, lambda mine, contents: tuple(mine.shape) == contents.shape
)
DEVICE_ARRAY = Kind(
    "array on a device",
    lambda value: value.get(),
    _fill_on_device,
    lambda mine, contents: mine.shape == contents.shape and mine.dtype == contents.dtype,
)
FILE = Kind("file", iterators.file_position, iterators.set_file_position, iterators.file_fits)
WRITTEN = Kind("file", iterators.written, iterators.rewrite)
READER = Kind("csv reader", lambda value: value.line_num, iterators.advance_reader)
RUNNING = Kind("generator", iterators.refuse_generator, lambda mine, contents: None)  # noqa: ARG005
BUFFER = Kind("file in memory", lambda value: (value.getvalue(), value.tell()), _fill_buffer)

# Read part by part, so that each part can be the job's or a rank's own.
INSTANCE, FUNCTION, CLASS, CACHED, MEMBER = (
    Kind(name, lambda value: None, lambda mine, contents: None)  # noqa: ARG005
    for name in ("object", "function", "class", "cached function", "member of an enum")
)
IN_PARTS = frozenset(kind.name for kind in (INSTANCE, FUNCTION, CLASS, CACHED, MEMBER))
# The same objects in every rank, whatever refers to them, also inside of what only its class reads.
BY_NAME = frozenset(kind.name for kind in (FUNCTION, CLASS, CACHED, MEMBER))

_EXACT: dict[type, Kind] = {
    list: LIST,
    dict: DICT,
    set: SET,
    bytearray: BYTES,
    deque: DEQUE,
    np.ndarray: ARRAY,
    array.array: PLAIN_ARRAY,
    ctypes.c_int.__mro__[-2]: CELLS,  # what all types of ctypes are made of
    np.random.BitGenerator: NUMPY_BITS,
    np.random.Generator: NUMPY_GENERATOR,
    np.random.RandomState: NUMPY_STATE,
    random.Random: RANDOM,
    iterators.CSV_READER: READER,
    types.GeneratorType: RUNNING,
    type(functools.cache(int)): CACHED,
}
STREAMS = (NUMPY_BITS, NUMPY_GENERATOR, NUMPY_STATE, RANDOM)  # random numbers


def kind_of(value: Any) -> Kind | None:
    """The kind of an object that changes in place; None: it is read and copied as a value."""
    cls = type(value)
    found = _EXACT.get(cls)
    if found is not None:
        return found
    if isinstance(value, types.FunctionType):
        return FUNCTION if is_program_function(value) else None
    if isinstance(value, type):
        return CLASS if is_program_class(value) else None
    if isinstance(value, enum.Enum):  # mostly a name alone, which is read as a value
        own = is_program_class(cls) and attributes(value)
        return MEMBER if own else None
    if isinstance(value, io.StringIO | io.BytesIO):
        return None if value.closed else BUFFER
    if isinstance(value, io.IOBase):
        return FILE
    if has_state_dict(value):
        return STATE_DICT
    for base, kind in _EXACT.items():
        if isinstance(value, base):
            # Arrays of other packages are more than their numbers (masked ones, mapped files).
            return kind if base is not np.ndarray or is_program_class(cls) else None
    top = cls.__module__.partition(".")[0]
    if top == "torch" and hasattr(value, "copy_"):
        return TENSOR
    if top == "cupy" and hasattr(value, "get") and hasattr(value, "set"):
        return DEVICE_ARRAY
    return INSTANCE if is_instance(value) else None


def has_state_dict(value: Any) -> bool:
    """Whether an object says what its state is: modules, optimizers and schedules of torch."""
    methods = ("state_dict", "load_state_dict")
    return all(callable(getattr(type(value), name, None)) for name in methods)


def is_instance(value: Any) -> bool:
    """Whether an object is its attributes: of a class of the program, or one as simple."""
    cls = type(value)
    if is_program_class(cls):
        return not issubclass(cls, tuple | int | float | str | bytes)
    return cls.__name__ in SIMPLE and hasattr(value, "__dict__")


OF_MEMBERS = frozenset(("_value_", "_name_", "__objclass__", "_sort_order_"))
SIMPLE = frozenset(
    ("SimpleNamespace", "Namespace", "DictReader", "_local", "Queue", "LifoQueue", "PriorityQueue")
)


def has_attributes(value: Any) -> bool:
    """Whether an object with contents has attributes, too: a list of a class of the program."""
    return is_program_class(type(value)) and not isinstance(value, type)


def attributes(value: Any) -> dict[str, Any]:
    """The attributes of an object, of slots, too; of a class its data; a function's own."""
    if isinstance(value, enum.EnumMeta):  # its tables are its own
        data = {name: part for name, part in _data(value).items() if not name.startswith("_")}
        return {**data, **value.__members__}
    if isinstance(value, type):
        return _data(value)
    found = dict(getattr(value, "__dict__", {}))
    if isinstance(value, enum.Enum):
        return {name: part for name, part in found.items() if name not in OF_MEMBERS}
    if isinstance(value, types.FunctionType):
        found.pop("__wrapped__", None)
        return found
    for base in type(value).__mro__:
        names = vars(base).get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            if name in ("__dict__", "__weakref__"):
                continue
            full = f"_{base.__name__.lstrip('_')}{name}" if name.startswith("__") else name
            if hasattr(value, full):
                found[full] = getattr(value, full)
    return found


def _data(cls: type) -> dict[str, Any]:
    """Its own attributes and methods: not how Python finds them, and nothing made by packages."""
    return {name: part for name, part in vars(cls).items() if _is_own(name, part)}


def _is_own(name: str, part: Any) -> bool:
    functions = digests.wrapped(part)
    if name.startswith("__"):  # `__call__`, but nothing that was made for a dataclass
        codes = [f.__code__ for f in functions or [part] if isinstance(f, types.FunctionType)]
        return any(is_program_file(code.co_filename) for code in codes)
    if isinstance(part, types.FunctionType):
        return is_program_function(part)
    described = hasattr(type(part), "__get__") and not is_program_class(type(part))
    return bool(functions) or not described


def attribute(value: Any, name: str) -> Any:
    """One of them."""
    own = getattr(value, "__dict__", {})
    return own[name] if name in own else attributes(value)[name]


def set_attribute(owner: Any, name: str, value: Any) -> None:
    """Set one, past what the class does about it (frozen dataclasses, properties)."""
    if isinstance(owner, type):
        type.__setattr__(owner, name, value)
    elif name in getattr(owner, "__dict__", ()) or not hasattr(type(owner), name):
        vars(owner)[name] = value
    else:
        object.__setattr__(owner, name, value)


def remove_attribute(owner: Any, name: str) -> None:
    """Remove one that is there."""
    if isinstance(owner, type):
        type.__delattr__(owner, name)
    elif name in getattr(owner, "__dict__", ()):
        del vars(owner)[name]
    else:
        object.__delattr__(owner, name)


def digest(kind: Kind, value: Any, token: digests.Token) -> bytes:
    """Of the contents of an object of this kind.

    token: what stands for an object that is read by itself

    Raises:
        CannotDigestError: they cannot be read.
    """
    if kind is ARRAY:
        return digests.array(value)
    if kind is RUNNING:
        return digests.of(iterators.generator_position(value))
    if kind in (LIST, DEQUE):
        types_inside = set(map(type, value))
        if types_inside <= digests.ATOMS or types_inside == {tuple}:
            plain = digests.plain(tuple(value))
            if plain is not None:
                return plain
    if kind is SET:
        return digests.of(tuple(sorted(digests.of(part, token) for part in value)))
    if kind not in (LIST, DEQUE, DICT):
        return digests.of(kind.contents(value))
    # A tuple, because it is no object of its own: what is in it may be.
    return digests.of(tuple(kind.contents(value)), token)
