"""What cannot be, said to each kind of array: the words, on every rank, and that nothing moved.

Prints one JSON object: the reasons of resizes that were given up, and the sizes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import resize_lib
from resize_lib import resize
from tests.mpi.programs.session_script import Script, ScriptedLink, scripted


def refused(kind: type[Exception], words: str, act: Callable[[], Any]) -> None:
    try:
        act()
    except kind as e:
        assert words in str(e), (words, str(e))
    else:
        raise AssertionError(f"not refused: {words}")


def with_column_9(rows: int) -> tuple[Any, ...]:
    """Rows of a sparse matrix whose columns end before 9."""
    return np.ones(1), np.array([9]), np.array([0, *[1] * rows])


def main() -> None:
    script = Script(2, sys.argv[1:])
    script.expand(script.free[:1], 1, 3, works=False)  # the owner of items raises
    script.expand(script.free[:1], 3, 1, works=False)  # a sparse matrix was spoilt
    script.expand(script.free[:2], 2, 2)
    script.shrink([0], 1, 3)
    resize.PATIENT_FROM_S = 0.0
    broken = {"owner": False}

    def owner(items: Any, size: int) -> Any:
        if broken["owner"]:
            raise KeyError("no such cell")
        return items % size

    with resize_lib.session(connect=lambda: ScriptedLink(script), report_interval_s=0) as rs:
        u = rs.cartesian("u", (6, 4), halo=1, init=lambda i, j: i + j)
        a = rs.csr("a", (5, 4), init=np.eye(5, 4))
        p = rs.items("p", "i8", owner=owner, init=np.arange(9))
        s = rs.local_state("s", rs.rank, leave="gather")
        wrong = resize_lib.DescriptorError
        if rs._session.loops.arrived:
            refused(wrong, "holds Python objects", lambda: rs.cartesian("o", 3, dtype=object))
            refused(wrong, "declared twice", lambda: rs.csr("u", (2, 2)))
            refused(wrong, "two dimensions, not (2,)", lambda: rs.csr("c", (2,)))  # type: ignore[arg-type]
            refused(wrong, "4 x 4 is needed", lambda: rs.csr("c", (4, 4), init=np.eye(3)))
            refused(wrong, "holds numbers, not", lambda: rs.csr("c", (2, 2), dtype="S3"))
            refused(wrong, "has no field 'id'", lambda: rs.items("q", "i8", owner=owner, key="id"))
            refused(wrong, "known: 'drop'", lambda: rs.local_state("t", 0, leave="keep"))  # type: ignore[arg-type]
            refused(wrong, "not C or F", lambda: rs.cartesian("w", 3, order="X"))  # type: ignore[arg-type]
            refused(wrong, "is -1 (low) or 1 (high)", lambda: u.margin(0, 0))
            refused(wrong, "ghosts included", lambda: setattr(u, "local", np.zeros((6, 4))))
            refused(wrong, "outside", lambda: u.owners((6, 0)))
            refused(
                wrong,
                "columns 9 to 9 are outside",
                lambda: setattr(a, "local", with_column_9(len(a.rows))),
            )
            refused(
                wrong,
                "would lose something",
                lambda: setattr(a, "local", np.ones((len(a.rows), 4), "c16")),
            )
            refused(wrong, "1-D array of int64", lambda: setattr(p, "local", np.zeros(2)))
            refused(AttributeError, "no attribute 'nothing'", lambda: resize_lib.nothing)
        sizes = []
        for turn in rs.iterations():
            sizes.append(rs.size)
            u.exchange()
            if turn == 0:
                broken["owner"] = rs.rank == 1
                before = p.local.tolist()
                refused(resize_lib.CustomDataError, "no such cell", p.migrate)
                assert p.local.tolist() == before
            broken["owner"] = turn == 0
            if turn == 1:
                a.indices[...] = 77
            elif turn == 2:
                a.indices[...] = np.asarray(a.rows)[: len(a.indices)]
                a.local.data = a.local.data.astype("f4")  # moves as what is declared
            assert turn < 3 or a.data.dtype == np.float64
            assert (a.data == 1).all()
            kept = p.local
            if turn > 2:
                p.migrate()
                refused(ValueError, "read-only", partial(kept.fill, 0))
            assert np.array_equal(u.interior, u.indices[0] + u.indices[1])
            told = list(map(repr, (rs, u, a, p, s, rs.grid)))
            assert all(text.startswith("<") for text in told), told
            assert f"rank {rs.rank} of {rs.size}" in told[0]
            assert "6 x 4 float64 over axes (0, 1)" in told[1]
            assert rs.cart.size == rs.size
            everything = np.concatenate(rs.comm.allgather(p.local))
            assert np.array_equal(np.sort(everything), np.arange(9))
            if rs.comm.bcast(rs.rank == 0 and scripted(rs).finished(rs._session.job.resize_id)):
                break
        if rs.rank == 0:
            assert s.gathered == [0], s.gathered
            print(json.dumps({"turns": turn}), flush=True)


if __name__ == "__main__":
    main()
