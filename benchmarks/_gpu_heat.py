"""Heat in three dimensions on a GPU, in slabs; gpu.py resizes it.

Arguments: DEVICE CELLS ITERATIONS. DEVICE is cupy, or cpu: the same program with numpy.
"""

from __future__ import annotations

import hashlib
import sys
from typing import Any

import numpy as np

import resize_lib
from resize_lib.declared.device import DeviceName


def step(u: Any) -> Any:
    """The temperature of a block with ghosts, one step later."""
    inner = u[1:-1, 1:-1, 1:-1]
    around = u[:-2, 1:-1, 1:-1] + u[2:, 1:-1, 1:-1]
    around += u[1:-1, :-2, 1:-1] + u[1:-1, 2:, 1:-1]
    around += u[1:-1, 1:-1, :-2] + u[1:-1, 1:-1, 2:]
    return inner + 0.1 * (around - 6 * inner)


def main() -> None:
    """Prints a digest of the temperatures, and of their sums over all iterations."""
    device: DeviceName = "cupy" if sys.argv[1] == "cupy" else "cpu"
    n, iterations = int(sys.argv[2]), int(sys.argv[3])
    rs = resize_lib.session()
    if device == "cupy":
        import cupy

        cupy.cuda.Device(rs.rank % cupy.cuda.runtime.getDeviceCount()).use()
    u = rs.cartesian(
        "u", (n, n, n), halo=1, periodic=(False, True, True), dims=(0, 1, 1),
        init=lambda i, j, k: (i * 7 + j * 11 + k * 13) % 17 / 17, device=device,
    )  # fmt: skip
    u.margin(0, -1)[...] = 1.0
    total = rs.array("total", n, (n, n), device=device)
    for _ in rs.iterations(iterations):
        u.interior[...] = step(u.exchange())
        total.local += u.interior
    for name, whole in (("temperatures", u.gather()), ("sums", total.gather())):
        if rs.rank == 0:
            assert whole is not None
            assert np.isfinite(whole).all()
            print(name, hashlib.sha256(whole.tobytes()).hexdigest()[:24], flush=True)


if __name__ == "__main__":
    main()
