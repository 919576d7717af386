"""Parts in a GPU's memory (cupy): they go through host memory when they move.

The ranks of a node share its GPUs as the program says (`cupy.cuda.Device(n).use()`); the part is on
whichever is current when it is made.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from resize_lib.descriptors import DescriptorError

DeviceName: TypeAlias = Literal["cpu", "cupy"]


class Device:
    """Where the parts of one array are.

    Raises:
        DescriptorError: no such device, or none here.
    """

    def __init__(self, name: str, where: str) -> None:
        if where not in ("cpu", "cupy"):
            raise DescriptorError(f"{name!r}: device is {where!r}; known: 'cpu', 'cupy'")
        self._cupy = _cupy(name) if where == "cupy" else None

    def from_host(self, array: NDArray[Any]) -> Any:
        """The array there; itself on the host."""
        return array if self._cupy is None else self._cupy.asarray(array)

    def to_host(self, array: Any) -> NDArray[Any]:
        """The array in host memory; itself if it is there."""
        found: NDArray[Any] = array if self._cupy is None else self._cupy.asnumpy(array)
        return found

    @property
    def array_type(self) -> type[Any]:
        """The class of the arrays there."""
        found: type[Any] = np.ndarray if self._cupy is None else self._cupy.ndarray
        return found


def _cupy(name: str) -> Any:
    try:
        import cupy

        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as e:  # without a driver cupy raises errors of its own
        why = f"{type(e).__name__}: {e}".splitlines()[0]
        raise DescriptorError(
            f"{name!r}: device 'cupy' needs cupy and a GPU on every node: {why}"
        ) from e
    if count < 1:
        raise DescriptorError(
            f"{name!r}: device 'cupy' needs a GPU on every node, but there is none"
        )
    return cupy
