"""What a process remembers of a move, and when it must not."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from resize_lib.descriptors import BlockCyclic, ProcessGrid
from resize_lib.redistribution import Arena, MovingArray, Placement
from resize_lib.redistribution.repeating import question_of
from resize_lib.redistribution.repeats import Repeats

LOCAL = np.zeros((8, 8))
ARRAY = MovingArray("A", BlockCyclic(8, 8, 2, 2), "f8", LOCAL)
ONE, OTHER = (Placement(ProcessGrid(1, 1), (rank,)) for rank in (0, 1))


def asked(array=ARRAY, old=ONE, new=OTHER, options="all"):
    return question_of(options, [array], old, new)


def test_the_same_move_of_the_same_memory_is_the_same_question():
    again = MovingArray("A", BlockCyclic(8, 8, 2, 2), "f8", LOCAL[:])
    assert asked() == asked(again, old=Placement(ProcessGrid(1, 1), (0,)))


@pytest.mark.parametrize(
    "other",
    [
        asked(replace(ARRAY, name="B")),
        asked(replace(ARRAY, descriptor=BlockCyclic(8, 8, 4, 2))),
        asked(replace(ARRAY, new_descriptor=BlockCyclic(8, 8, 4, 2))),
        asked(replace(ARRAY, dtype="i8")),
        asked(replace(ARRAY, order="F")),
        asked(replace(ARRAY, local=LOCAL.copy())),
        asked(replace(ARRAY, local=LOCAL.T)),
        asked(replace(ARRAY, local=LOCAL[:7])),
        asked(replace(ARRAY, local=LOCAL.view("i8"))),
        asked(replace(ARRAY, local=None)),
        asked(new=ONE),
        asked(old=OTHER),
        asked(options="none"),
        question_of("all", [ARRAY, replace(ARRAY, name="B")], ONE, OTHER),
    ],
)
def test_anything_different_is_another_question(other):
    assert other is not None
    assert other != asked()


@pytest.mark.parametrize("wrong", [[3], 3, [replace(ARRAY, local="text")]])
def test_bad_input_is_no_question(wrong):
    assert question_of("all", wrong, ONE, OTHER) is None


def remembered(*questions, repeats):
    for question in questions:
        repeats.add(SimpleNamespace(question=question, round=0))


def test_what_was_not_asked_in_the_last_two_rounds_is_forgotten():
    repeats = Repeats()
    assert repeats.find("to") is None
    remembered("to", repeats=repeats)
    assert repeats.find("fro") is None
    remembered("fro", repeats=repeats)
    for _ in range(5):
        assert repeats.find("to").question == "to"
        assert repeats.find("fro").question == "fro"
    for _ in range(3):
        assert repeats.find("to") is not None
    assert repeats.find("fro") is None


def test_a_question_is_remembered_once_and_nothing_answers_no_question():
    repeats = Repeats()
    remembered("to", "to", repeats=repeats)
    assert repeats.find(None) is None
    assert len(repeats._repeats) == 1


def test_questions_that_cannot_be_compared_are_different():
    repeats = Repeats()
    remembered((LOCAL,), repeats=repeats)
    assert repeats.find((LOCAL.copy(),)) is None


@pytest.mark.parametrize(
    "change",
    [Arena.trim, Arena.close, lambda arena: arena.scratch("send 0", 1 << 20)],
    ids=["trim", "close", "larger scratch"],
)
def test_an_arena_forgets_moves_of_memory_that_it_gave_up(change):
    arena = Arena(shared=False)
    arena.scratch("send 0", 100)
    remembered("to", repeats=arena.repeats)
    arena.scratch("send 0", 50)
    assert arena.repeats.find("to") is not None
    change(arena)
    assert arena.repeats.find("to") is None


def test_an_arena_finds_kept_memory_by_its_address():
    arena = Arena(shared=False)
    one, two = (arena.empty((100, 100), "f8") for _ in range(2))
    places = [part.__array_interface__["data"][0] for part in (one, two)]
    assert arena.empty_at(places[0], (100, 100), "f8") is None  # in use
    del one, two
    assert arena.empty_at(places[1], (1 << 20, 10), "f8") is None  # too small
    parts = [arena.empty_at(place, (50, 50), "f4", "F") for place in places]
    assert [part.__array_interface__["data"][0] for part in parts] == places
    assert all(part.flags.f_contiguous and part.dtype == "f4" for part in parts)
    assert arena.free_bytes == 0
