"""PMI-1 as the process manager speaks it: what MPICH says, and what it would never say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dq_client.node.ranks import pmi


def world(
    size: int = 2, nodes: list[int] | None = None, local: set[int] | None = None
) -> pmi.PmiWorld:
    """One world; all ranks are here unless said otherwise."""
    here = frozenset(range(size) if local is None else local)
    return pmi.PmiWorld("kvs_7", size, here, nodes or [0] * size)


def answer(of: pmi.PmiWorld, rank: int, line: str) -> str:
    """The one line that a rank is answered."""
    (said,) = of.handle(rank, line)
    assert isinstance(said, pmi.Say)
    assert said.rank == rank
    return said.line


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("cmd=init pmi_version=1 pmi_subversion=1", "cmd=response_to_init rc=0 pmi_version=1"),
        ("cmd=get_maxes", "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=4096"),
        ("cmd=get_appnum", "cmd=appnum rc=0 appnum=0"),
        ("cmd=get_my_kvsname", "cmd=my_kvsname rc=0 kvsname=kvs_7"),
        ("cmd=get_universe_size", "cmd=universe_size rc=0 size=2"),
        ("cmd=get kvsname=kvs_7 key=missing", "cmd=get_result rc=-1"),
        ("cmd=get_ranks2hosts", "cmd=get_ranks2hosts_result rc=-1"),
    ],
)
def test_what_a_rank_asks_at_its_start(asked: str, told: str) -> None:
    assert answer(world(), 0, asked).startswith(told)


def test_what_one_rank_puts_another_gets() -> None:
    w = world()
    assert " rc=0" in answer(w, 0, "cmd=put kvsname=kvs_7 key=card value=a b=c d")
    assert answer(w, 1, "cmd=get kvsname=kvs_7 key=card").endswith(" value=a b=c d")


def test_a_barrier_lets_all_go_when_the_last_has_come() -> None:
    w = world(3)
    assert w.handle(2, "cmd=barrier_in") == []
    assert w.handle(0, "cmd=barrier_in") == []
    assert w.handle(1, "cmd=barrier_in") == [pmi.Say(r, "cmd=barrier_out rc=0") for r in (0, 1, 2)]


def test_a_barrier_over_two_nodes() -> None:
    here, there = world(3, [0, 0, 1], {0, 1}), world(3, [0, 0, 1], {2})
    there.handle(2, "cmd=put key=k2 value=v2")
    assert there.handle(2, "cmd=barrier_in") == [pmi.Fence(0, {"k2": "v2"})]
    here.handle(0, "cmd=barrier_in")
    assert here.handle(1, "cmd=barrier_in") == [pmi.Fence(0, {})]
    assert here.waiting() == pmi.Fence(0, {})
    assert len(here.fenced(0, {"k2": "v2"})) == 2
    assert here.waiting() is None
    assert here.fenced(0, {"k2": "other"}) == [], "said again"
    assert answer(here, 1, "cmd=get key=k2").endswith("value=v2")


def test_a_spawn_comes_in_lines() -> None:
    w = world()
    lines = ["mcmd=spawn", "nprocs=2", "execname=/bin/a b", "totspawns=1", "spawnssofar=1"]
    lines += ["argcnt=2", "arg1=x=1", "arg2=", "preput_num=1", "preput_key_0=PARENT"]
    lines += ["preput_val_0=port 1", "info_num=1", "info_key_0=wdir", "info_val_0=/tmp"]
    for line in lines:
        assert w.handle(1, line) == []
    (spawn,) = w.handle(1, "endcmd")
    assert spawn == pmi.Spawn(
        1, [["/bin/a b", "x=1", ""]], [0, 0], {"wdir": "/tmp"}, {"PARENT": "port 1"}
    )


def test_a_spawn_of_several_programs_is_one() -> None:
    w = world()
    first = ["mcmd=spawn", "nprocs=1", "execname=a", "totspawns=2", "spawnssofar=1", "argcnt=0"]
    second = ["mcmd=spawn", "nprocs=2", "execname=b", "totspawns=2", "spawnssofar=2", "argcnt=0"]
    for line in first:
        assert w.handle(0, line) == []
    assert w.handle(0, "endcmd") == []
    for line in second:
        assert w.handle(0, line) == []
    (spawn,) = w.handle(0, "endcmd")
    assert isinstance(spawn, pmi.Spawn)
    assert (spawn.programs, spawn.program_of) == ([["a"], ["b"]], [0, 1, 1])


def test_names_abort_and_finalize() -> None:
    w = world()
    assert w.handle(0, "cmd=publish_name service=s port=tag#0$ x") == [
        pmi.Publish(0, "s", "tag#0$ x")
    ]
    assert w.handle(1, "cmd=lookup_name service=s") == [pmi.Lookup(1, "s")]
    assert w.handle(1, "cmd=abort exitcode=7") == [pmi.Abort(1, 7)]
    assert w.handle(1, "cmd=finalize") == [
        pmi.Finalized(1),
        pmi.Say(1, "cmd=finalize_ack rc=0"),
    ]


@pytest.mark.parametrize(
    ("nodes", "told"),
    [
        ([0], "(vector,(0,1,1))"),
        ([0, 0, 0], "(vector,(0,1,3))"),
        ([0, 1, 2], "(vector,(0,3,1))"),
        ([0, 0, 1, 1, 2], "(vector,(0,2,2),(2,1,1))"),
        ([1, 0], "(vector,(1,1,1),(0,1,1))"),
    ],
)
def test_mapping(nodes: list[int], told: str) -> None:
    assert pmi.mapping(nodes) == told


@given(st.lists(st.integers(0, 6), min_size=1, max_size=40))
def test_a_mapping_says_every_rank(nodes: list[int]) -> None:
    blocks = pmi.mapping(nodes).removeprefix("(vector,").removesuffix(")")
    found: list[int] = []
    for block in blocks.split("),("):
        first, count, each = map(int, block.strip("()").split(","))
        for node in range(first, first + count):
            found += [node] * each
    assert found == nodes


@pytest.mark.parametrize(
    "line",
    [
        "",
        " ",
        "cmd",
        "cmd=",
        "=x",
        "hello world",
        "cmd=put key=k",
        "cmd=put key= value=v",
        f"cmd=put key={'k' * 65} value=v",
        f"cmd=put key=k value={'v' * 4097}",
        "cmd=abort exitcode=1e3",
        "cmd=abort exitcode=" + "9" * 5000,
        "cmd=lookup_name",
        f"cmd={'c' * 100}",
    ],
)
def test_garbage_is_named_and_changes_nothing(line: str) -> None:
    w = world()
    before = dict(w.keys)
    with pytest.raises(pmi.Garbage):
        w.handle(0, line)
    assert w.keys == before


def test_a_second_barrier_inside_a_barrier_is_garbage() -> None:
    w = world()
    w.handle(0, "cmd=barrier_in")
    with pytest.raises(pmi.Garbage, match="barrier"):
        w.handle(0, "cmd=barrier_in")


@pytest.mark.parametrize("count", ["0", "-1", "100001", "x", ""])
def test_a_spawn_of_no_sensible_number(count: str) -> None:
    w = world()
    for line in ("mcmd=spawn", f"nprocs={count}", "execname=a"):
        w.handle(0, line)
    with pytest.raises(pmi.Garbage):
        w.handle(0, "endcmd")


def test_a_spawn_without_an_end_is_bounded() -> None:
    w = world()
    w.handle(0, "mcmd=spawn")
    with pytest.raises(pmi.Garbage, match="without an end"):
        for i in range(1000):
            w.handle(0, f"arg{i}=" + "x" * 60_000)


def test_keys_are_bounded() -> None:
    w = world()
    with pytest.raises(pmi.Garbage, match="more keys"):
        for i in range(100_000):
            w.handle(0, f"cmd=put key=k{i} value=" + "v" * 4096)


words = st.sampled_from(
    [
        "cmd=put",
        "cmd=get",
        "cmd=barrier_in",
        "mcmd=spawn",
        "endcmd",
        "nprocs=2",
        "execname=a",
        "key=k",
        "value=v",
        "cmd=finalize",
        "cmd=abort",
        "exitcode=1",
        "totspawns=3",
        "=",
        "x",
    ]
)
lines = st.one_of(st.text(max_size=200), st.lists(words, max_size=5).map(" ".join))


@given(st.lists(st.tuples(st.integers(0, 2), lines), max_size=60))
def test_no_line_does_more_than_be_refused(said: list[tuple[int, str]]) -> None:
    """Any sequence is answered or refused; never another error, and never an answer to nobody."""
    w = world(3)
    for rank, line in said:
        try:
            effects = w.handle(rank, line)
        except pmi.Garbage as e:
            assert len(str(e)) < 400
            continue
        for effect in effects:
            assert not isinstance(effect, pmi.Say) or effect.rank in (0, 1, 2)
            assert not isinstance(effect, pmi.Say) or "\n" not in effect.line
