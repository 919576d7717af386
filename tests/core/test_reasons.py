"""Reasons in words."""

from __future__ import annotations

import pytest

from dq_server.core.model import reasons
from dq_server.core.model.reasons import Reason


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.5, "0.5"), (1240.0, "1240"), (123_456.7, "123000"), (1.5e-6, "0.0000015"), (0.0, "0"),
     (float("inf"), "inf"), (-2.5e9, "-2500000000")],
)  # fmt: skip
def test_a_number_has_no_exponent(monkeypatch: pytest.MonkeyPatch, value: float, text: str) -> None:
    monkeypatch.setitem(reasons.TEMPLATES, "took", "{time_s:.3g} s on {where}")
    assert Reason("took", {"time_s": value, "where": "e1"}).text == f"{text} s on e1"
