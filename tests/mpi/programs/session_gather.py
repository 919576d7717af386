"""Arrays of every layout as a whole, on one rank and on all; prints how many were compared."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import resize_lib

RECORD = np.dtype([("key", np.int32), ("weight", np.float64)])
LAYOUTS: tuple[dict[str, Any], ...] = (
    {"layout": "block"},
    {"layout": "cyclic", "block": 2},
    {"layout": "weighted", "weights": (3, 0, 1)},
)

rs = resize_lib.session()
compared = 0
for layout in LAYOUTS:
    for n in (0, 2, 17):
        for trailing in ((), (3,), (2, 0)):
            for dtype in (np.float32, RECORD):

                def item(
                    i: NDArray[np.int64],
                    trailing: tuple[int, ...] = trailing,
                    dtype: Any = dtype,
                ) -> NDArray[Any]:
                    numbers = i.reshape(-1, *[1] * len(trailing)) * 10 + np.ones(trailing, int)
                    found = np.zeros(numbers.shape, dtype)
                    found["key" if dtype is RECORD else ...] = numbers
                    return found

                x = rs.array(f"array {compared}", n, trailing, init=item, dtype=dtype, **layout)
                whole = item(np.arange(n))
                everywhere, on_one = x.allgather(), x.gather(root=1)
                assert (on_one is None) == (rs.rank != 1)
                for found in (everywhere, on_one):
                    if found is not None:
                        assert (found.shape, found.dtype) == (whole.shape, whole.dtype)
                        assert found.tobytes() == whole.tobytes()
                everywhere[...] = np.zeros((), dtype)  # it is a copy
                assert x.local.tobytes() == item(x.indices).tobytes()
                compared += 1
if rs.rank == 0:
    print(compared, flush=True)
