"""A configuration of paths, texts and types, and a current output name made of it."""

import pathlib
import types

import resize_lib

settings = types.SimpleNamespace(
    folder=pathlib.Path("out") / "run", pattern="step-{:03d}.npy", dtype=float, every=7
)
current = settings.folder / "none"
written = []

rs = resize_lib.session()
for step in rs.iterations(50):
    if step % settings.every == 0:
        current = settings.folder / settings.pattern.format(step)
        written.append(current)
        settings.last = step
    settings.total = getattr(settings, "total", settings.dtype(0)) + rs.comm.allreduce(
        sum(int(current.stem[5:]) + i for i in range(rs.rank, 6, rs.size))
    )
if rs.rank == 0:
    expected = sum(6 * (step // 7 * 7) + 15 for step in range(50)) + 8 + 49
    print("sum", settings.total + len(set(written)) + settings.last, "expected", expected)
