"""What a process has once, and a program may change: random generators, the environment."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from resize_lib.state.objects import Kind

# Of the environment: what belongs to one process.
OWN_NAMES = ("DQ_", "PMI_", "PMIX_", "MPI_", "MPICH_", "UCX_", "OMPI_")


@dataclass(frozen=True, slots=True)
class Setting:
    """How one is read and written."""

    read: Callable[[], Any]
    write: Callable[[Any], object]


KIND = Kind("setting", lambda value: value.read(), lambda value, state: value.write(state))


def of_process() -> dict[str, Setting]:
    """Those that there are: of modules that are imported."""
    found = {
        "random": Setting(random.getstate, random.setstate),
        "numpy.random": Setting(np.random.get_state, np.random.set_state),
        "errors of numpy": Setting(np.geterr, lambda state: np.seterr(**state)),
        "the working folder": Setting(os.getcwd, os.chdir),
    }
    decimal: Any = sys.modules.get("decimal")
    if decimal is not None:
        found["decimal"] = Setting(
            lambda: {name: getattr(decimal.getcontext(), name) for name in DECIMAL},
            lambda state: _set_decimal(decimal.getcontext(), state),
        )
    torch: Any = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "get_rng_state"):
        found["torch"] = Setting(
            lambda: torch.get_rng_state().numpy().copy(),
            lambda state: torch.set_rng_state(torch.from_numpy(state)),
        )
        if torch.cuda.is_available() and torch.cuda.is_initialized():  # else nobody has drawn there
            found["torch.cuda"] = Setting(
                lambda: torch.cuda.get_rng_state().numpy().copy(),
                lambda state: torch.cuda.set_rng_state(torch.from_numpy(state)),
            )
    for name in os.environ:
        if not name.startswith(OWN_NAMES):
            found[f"{ENVIRONMENT}{name}"] = named(f"{ENVIRONMENT}{name}")
    return found


def named(name: str) -> Setting:
    """A variable of the environment, which need not be there yet; KeyError: it is none."""
    if not name.startswith(ENVIRONMENT):
        raise KeyError(name)
    key = name.removeprefix(ENVIRONMENT)
    return Setting(lambda: os.environ.get(key), lambda value: _set_variable(key, value))


ENVIRONMENT = "os.environ: "
DECIMAL = ("prec", "rounding", "Emin", "Emax", "capitals", "clamp")


def _set_decimal(context: Any, state: dict[str, Any]) -> None:
    for name, value in state.items():
        setattr(context, name, value)


def _set_variable(key: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(key, None)
    else:
        os.environ[key] = value
