"""Malleability from settings: the table [malleable] of a study, `--transform` of `dq sim run`.

Keys are the fields of `Malleability`, and `scalability` ("high", "medium", "low") for the paper's
ranges of rho. A range is one number or [low, high].
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from dq_server.sim.applications import MOST_ITERATIONS
from dq_server.sim.errors import WorkloadError, unknown
from dq_server.sim.malleable import SCALABILITY, Malleability
from dq_server.sim.speedup import MODELS

RANGES = {name: limits for model in MODELS.values() for name, limits in model.limits.items()}
FACTORS = ("smallest", "preferred", "largest")
KEYS = ("scalability", *(f.name for f in fields(Malleability) if f.name != "fraction"))


def read_malleability(table: Mapping[str, Any], base: Malleability) -> Malleability:
    """`base` with these settings; WorkloadError, without the place, if they make no sense."""
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in KEYS:
            raise WorkloadError(unknown("key", key, KEYS))
        if key == "scalability":
            if value not in SCALABILITY:
                raise WorkloadError(f"scalability = {value!r}: one of {', '.join(SCALABILITY)}")
            values["rho"] = SCALABILITY[value]
        else:
            values[key] = _checked(key, value)
    if "rho" in table and "scalability" in table:
        raise WorkloadError("rho and scalability are one setting: give one of them")
    how = replace(base, **values)
    _check_together(how, table)
    return how


def _checked(key: str, value: Any) -> Any:
    if key == "model":
        if value not in MODELS:
            raise WorkloadError(unknown("model", str(value), MODELS))
        return value
    if key == "chain":
        if value not in ("any", "powers"):
            raise WorkloadError(f'chain = {value!r}: "any" or "powers"')
        return value
    if key in RANGES:
        return _range(key, value)
    if key == "efficiency":
        if not isinstance(value, list) or len(value) != 3 or not all(map(_number, value)):
            raise WorkloadError(
                f"efficiency = {value!r}: three numbers, for the smallest, preferred and largest"
                " size"
            )
        if not 1 >= value[0] >= value[1] >= value[2] > 0:
            raise WorkloadError(f"efficiency = {value!r}: falling, from 1 to above 0")
        return tuple(map(float, value))
    if key == "iterations":
        if type(value) is not int or not 1 <= value <= MOST_ITERATIONS:
            raise WorkloadError(f"iterations = {value!r}: a whole number, 1 to {MOST_ITERATIONS}")
        return value
    if not _number(value) or (value < 0 and key != "rho_error"):
        raise WorkloadError(f"{key} = {value!r}: a number from 0 on")
    return float(value)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and type(value) is not bool and math.isfinite(value)


def _range(key: str, value: Any) -> tuple[float, float]:
    least, most = RANGES[key]
    ends = value if isinstance(value, list) else [value, value]
    if len(ends) != 2 or not all(map(_number, ends)) or ends[0] > ends[1]:
        raise WorkloadError(f"{key} = {value!r}: a number, or [low, high]")
    if ends[0] < least or ends[1] > most:
        raise WorkloadError(f"{key} = {value!r}: from {least:g} to {most:g}")
    return float(ends[0]), float(ends[1])


def _check_together(how: Malleability, given: Mapping[str, Any]) -> None:
    belong = MODELS[how.model].ranges
    for key in given:
        of = "rho" if key in ("scalability", "rho_error") else key
        if of in RANGES and of not in belong:
            raise WorkloadError(
                f'{key} is no parameter of the model "{how.model}", which has {", ".join(belong)}'
            )
    if how.efficiency is not None and any(name in given for name in FACTORS):
        raise WorkloadError(f"give efficiency or {', '.join(FACTORS)}, not both")
    if not 0 < how.smallest <= how.preferred <= how.largest:
        raise WorkloadError(
            f"smallest = {how.smallest:g}, preferred = {how.preferred:g}, largest ="
            f" {how.largest:g}: in ascending order, above 0"
        )


def described(how: Malleability) -> str:
    """The settings that count, in words, for a paper's methods section."""
    drawn = "; ".join(
        f"{name} from {low:g} to {high:g}" if low < high else f"{name} = {low:g}"
        for name in MODELS[how.model].ranges
        for low, high in [getattr(how, name)]
    )
    if how.efficiency is not None:
        sizes = "the largest with an efficiency of at least {:g}, {:g} and {:g}".format(
            *how.efficiency
        )
    else:
        factors = (how.smallest, how.preferred, how.largest)
        sizes = "{:g}, {:g} and {:g} times that in the log".format(*factors)
    chain = "every size between" if how.chain == "any" else "the powers of two between"
    error = f", true rho {how.rho_error:+g} from the scheduler's" if how.rho_error else ""
    return (
        f'speed-up by the model "{how.model}" ({drawn}{error}; per job, normal within the range);'
        f" smallest, preferred and largest size {sizes}, never more than the machine, and {chain}"
        f" is legal; {how.iterations} iterations per job, with a remap point between two; a resize"
        f" from a to b processors takes {how.overhead_s:g} s x (alpha |b - a| + beta / (a + b) +"
        " gamma |b - a|), with alpha, beta and gamma from 0.005 to 0.05 per job"
    )
