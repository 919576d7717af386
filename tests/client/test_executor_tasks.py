"""Tasks as bytes: what travels, what is refused before it travels, what comes back."""

from __future__ import annotations

import sys
from threading import Lock

import pytest

from dq_client.base.errors import UsageError
from dq_client.executor.tasks import RemoteTraceback, answer, dumps, result_of


class Unreadable(Exception):
    """An exception that can be pickled and not read again."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__(f"{first} {second}")


def fail(kind: type[Exception], *words: object) -> None:
    raise kind(*words)


@pytest.fixture(params=[True, False], ids=["with cloudpickle", "without"])
def cloudpickle(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    if request.param:
        pytest.importorskip("cloudpickle")
    else:
        monkeypatch.setitem(sys.modules, "cloudpickle", None)
    return bool(request.param)


def test_results_and_exceptions_come_back(cloudpickle: bool) -> None:
    assert result_of(answer(dumps((divmod, (7, 2), {})))) == ((3, 1), None)
    value, error = result_of(answer(dumps((fail, (KeyError, "gone"), {}))))
    assert value is None
    assert isinstance(error, KeyError)
    assert isinstance(error.__cause__, RemoteTraceback)
    assert "raise kind(*words)" in str(error.__cause__)


def test_an_exception_that_cannot_be_read_comes_back_as_text(cloudpickle: bool) -> None:
    _, error = result_of(answer(dumps((fail, (Unreadable, 1, 2), {}))))
    assert isinstance(error, RuntimeError)
    assert str(error) == "Unreadable: 1 2"
    _, error = result_of(answer(dumps((Lock, (), {}))))  # a result that cannot travel
    assert isinstance(error, UsageError)


def test_what_only_the_program_has_is_refused_or_goes_along(cloudpickle: bool) -> None:
    names: dict[str, object] = {"__name__": "__main__"}
    exec("def mine(x): return x + 1\nclass Own:\n    pass", names)
    for what in (names["mine"], (abs, names["mine"]), names["Own"], names["Own"]()):  # type: ignore[operator]
        if cloudpickle:
            dumps(what)
            continue
        with pytest.raises(UsageError, match=r"(mine|Own) is defined in the program itself"):
            dumps(what)
    if cloudpickle:
        assert result_of(answer(dumps((names["mine"], (1,), {})))) == (2, None)
