"""What a process has once: each setting is read, changed by drawing, and written back."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from resize_lib.state import settings


class FakeGenerator:
    """The functions of torch, or torch.cuda, that hold a global generator."""

    def __init__(self, **more: Any) -> None:
        self.state = np.arange(4, dtype=np.uint8)
        self.__dict__.update(more)

    def get_rng_state(self) -> Any:
        return SimpleNamespace(numpy=lambda: self.state)

    def set_rng_state(self, state: np.ndarray) -> None:
        self.state = state


@pytest.mark.parametrize("initialized", [True, False])
def test_the_generators_of_torch_travel(monkeypatch: pytest.MonkeyPatch, initialized: bool) -> None:
    cuda = FakeGenerator(is_available=lambda: True, is_initialized=lambda: initialized)
    torch = FakeGenerator(cuda=cuda, from_numpy=np.array)
    monkeypatch.setitem(sys.modules, "torch", torch)
    found = settings.of_process()
    assert ("torch" in found, "torch.cuda" in found) == (True, initialized)
    for name, generator in (("torch", torch), ("torch.cuda", cuda)):
        if name not in found:
            continue
        before = found[name].read()
        generator.state += 1  # a draw
        assert not np.array_equal(found[name].read(), before)
        found[name].write(before)
        assert np.array_equal(generator.state, np.arange(4))


def test_numpys_generator_goes_back() -> None:
    setting = settings.of_process()["numpy.random"]
    before = setting.read()
    drawn = np.random.random(3)
    setting.write(before)
    assert np.array_equal(np.random.random(3), drawn)
