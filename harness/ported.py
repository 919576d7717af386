"""The pairs of docs/examples/porting: how they are run, and when two of their results are equal."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.commands import ROOT

PAIRS = ROOT / "docs" / "examples" / "porting"


@dataclass(frozen=True)
class Ported:
    """A program that there is twice.

    words      its arguments, less the file of its result
    turns      it makes at least so many
    suffix     of that file
    tolerance  relative to the largest number. Not 0 where the program adds up floating-point
               numbers over all ranks: other ranks, another order of the sum, another rounding
    """

    name: str
    words: tuple[int, ...]
    turns: int
    suffix: str = ".npy"
    tolerance: float = 0.0

    @property
    def before(self) -> Path:
        """The plain MPI program."""
        return PAIRS / "before" / f"{self.name}.py"

    @property
    def after(self) -> Path:
        """The resizable one."""
        return PAIRS / "after" / f"{self.name}.py"

    def arguments(self, result: Path) -> list[str]:
        """Its words, the last of them where its result is to be."""
        return [*map(str, self.words), str(result.with_suffix(self.suffix))]

    def assert_equal(self, result: Path, reference: Path) -> None:
        """AssertionError unless two runs have found the same: bit for bit, or to the tolerance."""
        found, expected = self.arrays(result), self.arrays(reference)
        assert list(found) == list(expected)
        for name, wanted in expected.items():
            got = found[name]
            assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype), name
            assert np.isfinite(wanted).all(), name
            if self.tolerance:
                off = np.abs(got - wanted).max() / np.abs(wanted).max()
                assert off <= self.tolerance, f"{self.name}, {name}: {off}"
            else:
                assert got.tobytes() == wanted.tobytes(), f"{self.name}, {name}"

    def arrays(self, result: Path) -> dict[str, np.ndarray]:
        """What a run has written."""
        loaded = np.load(result.with_suffix(self.suffix))
        return {"": loaded} if isinstance(loaded, np.ndarray) else dict(loaded)


# The tolerance of cg is that of its solution: it stops at a residual of 1e-10, and the condition of
# its matrix is about 250.
PROGRAMS = {
    ported.name: ported
    for ported in (
        Ported("heat", (50, 100), 100),
        Ported("cg", (24,), 60, tolerance=1e-7),
        Ported("particles", (3000, 60), 60, ".npz"),
        Ported("spectral", (64, 60), 60),
        Ported("train", (3,), 60, ".npz", tolerance=1e-9),
    )
}
