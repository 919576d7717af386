"""Programs of several files, read as one."""

from __future__ import annotations

import pytest

from dq_client.check.facts import Facts, tree_of
from dq_client.check.linked import MAIN, Linked, Source, linked
from dq_client.check.roles import Role
from tests.client.test_check_facts import whatever_ranks_have


def program(main: str, **modules: str) -> dict[str, Facts]:
    """Facts about each file; `a_b` is the module a.b, a name that ends in _ a package."""
    sources = []
    for name, text in {**modules, MAIN: main}.items():
        is_package = name.endswith("_") and name != MAIN
        called = name if name == MAIN else name.strip("_").replace("_", ".")
        tree = tree_of(text, f"{name}.py")
        assert tree is not None
        sources.append(Source(called, f"{name}.py", tree, is_package))
    whole = linked(sources)
    return {source.name: Facts(source.tree, source.file, whole) for source in sources}


LOOP = """
import resize_lib
{imports}
rs = resize_lib.session()
u = rs.array("u", 30)
total = 0.0
for step in rs.iterations(9):
    {body}
"""
KEEPS = """
last = {}
def change(key, x):
    before = last.get(key, x)
    last[key] = x
    return x - before
class Lag:
    def __init__(self):
        self.before = self.scratch = 0.0
    def change(self, x):
        self.scratch = x * 2
        found, self.before = x - self.before, x
        return found + self.scratch
"""


@pytest.mark.parametrize(
    ("imports", "call"),
    [
        ("from keeps import Lag; lag = Lag()", "lag.change({})"),
        ("import keeps; lag = keeps.Lag()", "lag.change({})"),
        ("import keeps as k; lag = k.Lag()", "lag.change(x={})"),
        ("from keeps import *; lag = Lag()", "lag.change({})"),
    ],
)
@pytest.mark.parametrize(
    ("given", "role"), [("u.local.sum()", Role.PAST), ("2.0 * step", Role.NONE)]
)
def test_what_an_object_of_another_file_keeps(
    imports: str, call: str, given: str, role: Role
) -> None:
    body = f"total += rs.comm.allreduce({call.format(given)})"
    facts = program(LOOP.format(imports=imports, body=body), keeps=KEEPS)
    for each in facts.values():  # an attribute is one of the whole program
        found = each.attribute("before")
        judged = whatever_ranks_have(found.role), found.file, found.changed_file
        assert judged == (role, "keeps.py", "keeps.py")
        assert (found.line, found.changed_line) == (9, 12)
        assert each.attribute("scratch").role is Role.NONE


@pytest.mark.parametrize(
    ("given", "role"), [("u.local.sum()", Role.PAST), ("2.0 * step", Role.NONE)]
)
def test_a_global_of_another_file_under_a_key_that_is_given(given: str, role: Role) -> None:
    body = f"total += rs.comm.allreduce(change('u', {given}))"
    facts = program(LOOP.format(imports="from keeps import change", body=body), keeps=KEEPS)
    found = facts["keeps"].variable(0, 0, "last")
    assert (whatever_ranks_have(found.role), found.file, found.line) == (role, "keeps.py", 2)
    assert facts[MAIN].variable(0, 0, "total").file == f"{MAIN}.py"


def test_an_object_that_one_file_sets_and_another_reads() -> None:
    holder = "class Holder:\n    value = 0.0\n    def set(self, x):\n        self.value = x\n"
    early = "total += rs.comm.allreduce(h.value); h.set(u.local.sum())"
    late = "h.set(u.local.sum()); total += rs.comm.allreduce(h.value)"
    for body, role in ((early, Role.PAST), (late, Role.NONE)):
        main = LOOP.format(imports="from holder import Holder; h = Holder()", body=body)
        assert program(main, holder=holder)[MAIN].attribute("value").role is role


def test_a_method_of_a_base_class_in_a_third_file() -> None:
    base = "class Base:\n    before = 0.0\n    def keep(self, x):\n        self.before = x\n"
    derived = (
        "from . import base\nclass Derived(base.Base):\n    def change(self, x):\n"
        "        found = x - self.before\n        self.keep(x)\n        return found\n"
    )
    again = "from .derived import Derived\n"
    main = LOOP.format(
        imports="import pkg; d = pkg.Derived()",
        body="total += rs.comm.allreduce(d.change(u.local[0]))",
    )
    facts = program(main, pkg_=again, pkg_base=base, pkg_derived=derived)
    found = facts["pkg.base"].attribute("before")
    assert (found.role, found.changed_file, found.changed_line) == (Role.PAST, "pkg_base.py", 4)


SETTINGS = "step = 0\nlimit = 3\ndef is_over(x):\n    return x > limit\n"


def test_a_variable_that_others_give_to_a_module() -> None:
    body = (
        "total += rs.comm.allreduce(u.local.sum() - settings.last); "
        "settings.last = u.local.sum(); settings.step = step"
    )
    main = LOOP.format(imports="import settings; settings.last = 0.0", body=body)
    facts = program(main, settings=SETTINGS)["settings"]
    assert facts.variable(0, 0, "last").role is Role.PAST
    assert facts.variable(0, 0, "step").changed_file == f"{MAIN}.py"
    assert not facts.variable(0, 0, "limit").changed_line
    assert {"last", "step", "limit"} >= facts.live(0, 0) - {"is_over"}
    assert "last" in facts.live(0, 0), "it is looked at, though no line of the file binds it"


def test_a_function_that_sets_a_variable_of_a_module() -> None:
    main = LOOP.format(
        imports="import settings\ndef advance():\n    settings.step += 1", body="advance()"
    )
    found = program(main, settings=SETTINGS)["settings"].variable(0, 0, "step")
    assert (found.accumulates, found.changed_line) == (True, 5)


def test_equal_names_are_of_their_own_files() -> None:
    one = "import time\nvalue = time.time()\nclass Part:\n    pass\ndef f(time):\n    return time\n"
    two = "from time import time\nvalue = 0\nclass Part:\n    pass\n"
    main = "import one, two\nvalue = one.f(two.value)\n"
    facts = program(main, one=one, two=two)
    assert "clock" in facts["one"].variable(0, 0, "value").set_up
    assert not facts["two"].variable(0, 0, "value").set_up
    assert not facts[MAIN].variable(0, 0, "value").set_up


def test_what_a_file_does_as_a_program_it_does_not_do_as_a_module() -> None:
    module = "size = 3\nif __name__ == '__main__':\n    size = MPI.COMM_WORLD.size\n"
    found = program("import module\nprint(module.size)\n", module=module)["module"]
    assert not found.variable(0, 0, "size").set_up


def test_files_that_import_one_another() -> None:
    one = "import two\nlevel = 1\ndef up():\n    return two.up() + level\n"
    two = "import one\ndef up():\n    return one.level\n"
    facts = program("import one\nx = one.up()\n", one=one, two=two)
    assert facts["one"].variable(0, 0, "level").file == "one.py"


def test_lines_and_files() -> None:
    source = Source("a", "a.py", tree_of("x = 1\ny = 2\n", "a.py"))  # type: ignore[arg-type]
    whole = linked([source, Source(MAIN, "b.py", tree_of("import a\n", "b.py"))])  # type: ignore[arg-type]
    assert isinstance(whole, Linked)
    for file, line in (("a.py", 1), ("a.py", 2), ("b.py", 1)):
        assert whole.place(whole.line(file, line)) == (file, line)
    assert whole.line("a.py", 2) < whole.line("b.py", 1)
    assert whole.line("a.py", 0) == 0
