"""One of each class that `resize_lib` exports; rank 1 of 2 prints their reprs, by class."""

from __future__ import annotations

import json

import numpy as np

import resize_lib

rs = resize_lib.session()
objects = [
    rs,
    rs.grid,
    rs.grid.shape,
    rs.matrix("dense", 60, 45, block=8),
    rs.array("rows", 9, (4,), dtype=np.float32),
    rs.array("dealt out", 9, layout="cyclic", block=2),
    rs.array("by speed", 9, layout="weighted"),
    rs.cartesian("plate", (8, 6), halo=1),
    rs.csr("sparse", (5, 7), init=np.eye(5, 7)),
    rs.items("particles", [("x", "f8")], owner=lambda items, size: np.zeros(len(items), int)),
    rs.local_state("hits", 3, leave="gather"),
    rs.value("losses", [0.5] * 1000),
    rs.parcel("bag", {1, 2}, lambda *_: [b"", b""], lambda *_: set()),
]
objects += [item.desc for item in objects if isinstance(item, resize_lib.Array)]
objects += [item.desc for item in objects if isinstance(item, resize_lib.Matrix)]
objects += [item.desc for item in objects if isinstance(item, resize_lib.Cartesian)]
objects += [item.desc for item in objects if isinstance(item, resize_lib.Parcel)]
objects += [resize_lib.Rows(np.ones(1), np.zeros(1, int), np.array([0, 1]))]

if rs.rank == 1:
    found: dict[str, list[str]] = {}
    for item in objects:
        found.setdefault(type(item).__name__, []).append(repr(item))
    print(json.dumps(found), flush=True)
