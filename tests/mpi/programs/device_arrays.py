"""Arrays in a GPU's memory, on a stand-in for cupy that never turns into a numpy array by itself.

What it cannot show is that cupy does the same: that needs a GPU.
"""

from __future__ import annotations

import json
import sys
import types
from typing import Any

import numpy as np
from numpy.typing import NDArray

import resize_lib
from resize_lib import resize
from tests.mpi.programs.session_script import Script, ScriptedLink, scripted

# In a module: each rank counts for itself, and no line of the loop does.
COPIES: Any = types.ModuleType("copies")
COPIES.to = COPIES.back = 0


class Remote:
    """As cupy.ndarray: numpy functions refuse it, its own do not take numpy's arrays."""

    __array__ = None

    def __init__(self, held: NDArray[Any]) -> None:
        self.held = held

    shape = property(lambda self: self.held.shape)
    dtype = property(lambda self: self.held.dtype)
    size = property(lambda self: self.held.size)

    def __getitem__(self, where: Any) -> Remote:
        return Remote(self.held[where])

    def __setitem__(self, where: Any, value: Any) -> None:
        if isinstance(value, np.ndarray):
            raise TypeError("a host array is no device array")
        self.held[where] = value.held if isinstance(value, Remote) else value

    def view(self) -> Remote:
        return Remote(self.held)

    def __add__(self, number: float) -> Remote:
        return Remote(self.held + number)


def asarray(array: NDArray[Any]) -> Remote:
    COPIES.to += 1
    return Remote(array.copy())


def asnumpy(array: Remote) -> NDArray[Any]:
    assert isinstance(array, Remote)
    COPIES.back += 1
    return array.held.copy()


def install(devices: int) -> None:
    """`import cupy` gives the stand-in from now on."""
    runtime = types.SimpleNamespace(getDeviceCount=lambda: devices)
    cupy: Any = types.ModuleType("cupy")
    cupy.ndarray, cupy.asarray, cupy.asnumpy = Remote, asarray, asnumpy
    cupy.cuda = types.SimpleNamespace(runtime=runtime)
    sys.modules["cupy"] = cupy


def main() -> None:
    install(1)
    script = Script(2, sys.argv[1:])
    script.expand(script.free[:2], 2, 2)
    script.shrink([0, 2], 1, 2)
    script.regrid(2, 1)
    resize.PATIENT_FROM_S = 0.0
    with resize_lib.session(connect=lambda: ScriptedLink(script), report_interval_s=0) as rs:
        a = rs.array("a", 37, init=lambda i: 2.0 * i, device="cupy")
        u = rs.cartesian(
            "u", (9, 7), halo=2, periodic=True, init=lambda i, j: 10 * i + j, device="cupy"
        )
        sizes = []
        for turn in rs.iterations():
            sizes.append(rs.size)
            assert isinstance(a.local, Remote), a
            assert isinstance(u.local, Remote), u
            assert np.array_equal(asnumpy(a.local), 2.0 * a.indices + turn)
            u.exchange()
            stored = [
                np.arange(r.start - 2, r.stop + 2) % n
                for r, n in zip(u.ranges, u.shape, strict=True)
            ]
            expected = 10 * stored[0][:, None] + stored[1] + turn
            assert np.array_equal(asnumpy(u.local), expected)
            if rs.comm.bcast(rs.rank == 0 and scripted(rs).finished(rs._session.job.resize_id)):
                break
            a.local = a.local + 1
            u.interior[...] = u.interior + 1
        whole = u.gather()
        if rs.rank == 0:
            assert whole is not None
            told = {"turns": turn, "sum": float(whole.sum()), "to": COPIES.to, "from": COPIES.back}
            print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
