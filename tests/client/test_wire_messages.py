"""The bytes of every message on the wire, and what a message must declare.

An old agent may meet a new server: a change of these bytes is a change of the protocol
(messages.PROTOCOL), never a side effect of moving a class or renaming a field.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from typing import Any

import msgspec
import msgspec.inspect as mi
import pytest

from dq_client.base import codec
from dq_client.base import messages as m

# First 16 hex digits of the SHA-256 of each message as bytes: once with every field filled
# (`example` below), once with its optional fields left out.
BYTES = {
    "Heard": ("23d94cd195942b2a", "23d94cd195942b2a"),
    "Hello": ("449f64d985ac76a4", "d2738fc6478a2724"),
    "Submit": ("592af78495d52e00", "39525620f81ae8f1"),
    "Attach": ("08eb02acdf0e38a0", "d93b90f6dda593ea"),
    "JobQuery": ("5c0efcfa5ec23ef7", "5c0efcfa5ec23ef7"),
    "JobsQuery": ("7e62ff810010707f", "6c99a3a96992625b"),
    "NodesQuery": ("312f78f5e92ed8b2", "f8d16df32bc73475"),
    "PoolQuery": ("cbc8dc6d5b2640b3", "cbc8dc6d5b2640b3"),
    "QuotasQuery": ("28e0a12e76787792", "28e0a12e76787792"),
    "DrainNode": ("b5071f25d38c9b90", "96aa8bf0d23938db"),
    "ResumeNode": ("47f640ba9bb7e3d7", "47f640ba9bb7e3d7"),
    "WhyQuery": ("88067a9d8e68dc6d", "88067a9d8e68dc6d"),
    "StatusQuery": ("461f2ead6ab93866", "461f2ead6ab93866"),
    "TimelineQuery": ("630a7dab14898f2f", "630a7dab14898f2f"),
    "Kill": ("54e80548427f3bd6", "54e80548427f3bd6"),
    "Hold": ("dfae03e37099aef9", "dfae03e37099aef9"),
    "Release": ("3e9e03257e23d1de", "3e9e03257e23d1de"),
    "Edit": ("3b83b9aeb857f9ab", "ba71ea259616941a"),
    "Resize": ("3b2df41af87a004a", "e350545fbcc01038"),
    "Reserve": ("479a3b10a267834f", "7e355d243bf31194"),
    "CancelReservation": ("fd76e1cc43f064dc", "fd76e1cc43f064dc"),
    "PlanMaintenance": ("7e2d0551de9f3860", "84cdd0c8ae7cd1d0"),
    "CancelMaintenance": ("7199277b0a03bdb5", "7199277b0a03bdb5"),
    "MaintenanceQuery": ("78d6528dbe1ee48e", "78d6528dbe1ee48e"),
    "ReservationsQuery": ("dd31f733f85836ea", "dd31f733f85836ea"),
    "LogsQuery": ("59664e1849213463", "40045a6f1bf8618d"),
    "Stop": ("4367c4b48f369ff4", "22e7f89d2d310f74"),
    "JobHello": ("632ee2bdb714df1e", "f91f3f1bc4f49c7a"),
    "RemapPoint": ("2da82a9dd008aac7", "7cd33f4ee61e78d2"),
    "Committed": ("c46d85c6cd6b495a", "4772eff997dcfad4"),
    "Aborted": ("f28e6205d3c05c5b", "483e0bb28bcc2795"),
    "CopyMade": ("bb765d95e722f130", "e9529584b6b76ec5"),
    "RestartReady": ("0aa70ec06387a660", "0aa70ec06387a660"),
    "ResizesByRestart": ("7c768ec025e6a352", "7c768ec025e6a352"),
    "RanksLost": ("26e1c4ec9a94a07e", "26e1c4ec9a94a07e"),
    "GaveUp": ("028b88fdc2175f42", "028b88fdc2175f42"),
    "WorkDone": ("ffcee7e81e171ece", "d919e90ae5372f2d"),
    "DynamicRequest": ("6f4bbd4bc83e0562", "1d1c84351b309043"),
    "DynamicRelease": ("f79aaafc5de9dede", "7798d27b3645665b"),
    "AgentHello": ("ab872a0652d4c3f9", "d9b5c515fc776418"),
    "Heartbeat": ("41c009dead326c38", "4198f037133a3246"),
    "AppStarted": ("b5575d6678877d89", "b5575d6678877d89"),
    "AppEnded": ("0e40872638317b33", "a38bda0c57ae2b33"),
    "WorldEnded": ("48c8e0b19d5fc5c5", "48c8e0b19d5fc5c5"),
    "RankLost": ("df4ff67fcac906ae", "df4ff67fcac906ae"),
    "OutputLost": ("7e933a81d18a6419", "17aa8fae45695c8e"),
    "Vacated": ("c8aaae82fcb6ea27", "76e11cbd6bdfd22a"),
    "RemoteRun": ("fab2e3602df63148", "943d8f841c259c47"),
    "RemoteEnded": ("1456a7a2bd485440", "e76f5e4f84a3bb0a"),
    "Relay": ("32e2249bdd0016c3", "32e2249bdd0016c3"),
    "SpawnRanks": ("b32a5eb56d6c5382", "3df403e29774d0f1"),
    "AgentRetired": ("3b8a38560defaad0", "3b8a38560defaad0"),
    "KeepLog": ("d3714f4be1db6355", "d3714f4be1db6355"),
    "LogAnswer": ("c858cfd1d03fbc14", "40624a760b671bac"),
    "Welcome": ("7235ca3333509637", "addb56194fe8a037"),
    "Submitted": ("34ea67019aec252c", "73045bbad4699195"),
    "Attached": ("807700e5b5369cbc", "807700e5b5369cbc"),
    "Data": ("749542bd551d2f46", "74aed94761830be4"),
    "Done": ("4ae631edb0461bc1", "4ae631edb0461bc1"),
    "Error": ("fee831eb84f1fea6", "fee831eb84f1fea6"),
    "LogPiece": ("cd5acee05db13997", "1d8ae18c8a525e7b"),
    "JobWelcome": ("3483426775281e73", "7b633bd30790b678"),
    "RemapAnswer": ("0eb45eef24a114ff", "31cb6e6487734744"),
    "DynamicAnswer": ("0134e0eb1f5e954a", "f85dd37fb59938ee"),
    "Launch": ("c44b0c0de5903231", "42652f2773b19e74"),
    "StartRanks": ("79b8bfd71e6e8220", "b6b1211a1529a172"),
    "Relayed": ("ac744215b962f856", "ac744215b962f856"),
    "KillTree": ("9cf2c9ae17051954", "9cf2c9ae17051954"),
    "Vacate": ("53ffc9a1289fc1bd", "864e29c2726fa89c"),
    "SaveCopies": ("674c80f247c5cd82", "8c3bd577c84733cf"),
    "ForgetCopies": ("fa4267cca354d255", "71757dcce65eb0b4"),
    "RunProxy": ("734c10c23596808f", "2092749873f4e643"),
    "ProxyEnded": ("5b50bdb26aa3d092", "26ba196d088b4495"),
    "ReadLog": ("f35d11d7301d0531", "f35d11d7301d0531"),
    "Retire": ("5d4bb98bda7b743a", "17c3351cd36d0c07"),
    "JobJoining": ("fccd2d57c0349a1d", "fccd2d57c0349a1d"),
    "RankReport": ("94ee92336660692a", "0580eab159fd5af8"),
    "ReleaseSize": ("49034e88ec8e3761", "49034e88ec8e3761"),
    "Since": ("aeaae0627aeb3226", "7e512fda7f5f1bb0"),
    "Follow": ("5c657f3aca16d990", "8fc88b8913bd6923"),
    "ForgetStandby": ("198ca9cc2bf85e82", "198ca9cc2bf85e82"),
    "Ballot": ("ae0b7650b66c2c77", "ae0b7650b66c2c77"),
    "Followed": ("4fed27336562ce88", "1bfc7e114dc83981"),
    "Standing": ("da3a5f81ce857ac2", "d90c89de845a646b"),
    "Recognize": ("9fdeefba3e0df751", "9fdeefba3e0df751"),
    "Ring": ("f45d2444594530ca", "f45d2444594530ca"),
    "Ordered": ("d949cf3c0c4cb43b", "d079163f43b3cea9"),
}


def example(kind: mi.Type, *, full: bool) -> object:
    """A value of this type; with `full` optional fields are given, too."""
    match kind:
        case mi.StructType():
            fields = [f for f in kind.fields if full or f.required]
            return kind.cls(**{f.name: example(f.type, full=full) for f in fields})
        case mi.UnionType():
            return example(next(t for t in kind.types if not isinstance(t, mi.NoneType)), full=full)
        case mi.IntType():
            return 7
        case mi.FloatType():
            return 0.5
        case mi.BoolType():
            return True
        case mi.BytesType():
            return b"\0\xff"
        case mi.StrType():
            return "2x4" if kind.pattern and "x" in kind.pattern else "word"
        case mi.ListType():
            return [example(kind.item_type, full=full)] * 2
        case mi.TupleType():
            return tuple(example(t, full=full) for t in kind.item_types)
        case mi.DictType():
            return {"key": example(kind.value_type, full=full)}
        case mi.LiteralType():
            return kind.values[0]
        case mi.AnyType():
            return {"any": [1, 2.5, None, "text"]}
    raise AssertionError(f"no example of {kind}")


def frame(body: type[m.Body], *, full: bool) -> bytes:
    """A message with such a body, as it travels."""
    made: Any = example(mi.type_info(body), full=full)
    if body in m.REQUESTS:
        return codec.encode(m.Request("id-1", made))
    if body in m.REPLIES:
        return codec.encode(m.Reply("id-1", made))
    return codec.encode(m.Order(3, made))


def digest(frame: bytes) -> str:
    return hashlib.sha256(frame).hexdigest()[:16]


BODIES = [*m.REQUESTS, *m.REPLIES, *m.ORDERS]


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
@pytest.mark.parametrize("full", [True, False], ids=["all fields", "required fields"])
def test_a_message_has_the_bytes_it_always_had(body: Any, full: bool) -> None:
    sent = frame(body, full=full)
    decode = codec.decode_request if body in m.REQUESTS else codec.decode_from_server
    assert type(decode(sent).body) is body
    assert codec.encode(decode(sent)) == sent
    assert digest(sent) == BYTES.get(body.__name__, ("new", "new"))[not full]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"t": "later"}, "unknown request 'later': another version of dq has sent it"),
        ({"t": "kill"}, "the key 'job' is missing"),
        ({"t": "kill", "job": "7"}, "job: a whole number is needed, not a text"),
        ({"t": "kill", "job": -1}, "job: a whole number >= 0 is needed"),
        ({"t": "drain", "node": "n" * 5000}, "node: a text of length <= 200 is needed"),
    ],
)
def test_why_a_message_is_none_is_said_in_plain_words(body: dict[str, Any], why: str) -> None:
    with pytest.raises(codec.MalformedMessage) as caught:
        codec.decode_request(msgspec.msgpack.encode({"id": "1", "body": body}))
    assert str(caught.value) == why


def test_every_message_is_in_the_table_above() -> None:
    assert {body.__name__ for body in BODIES} == BYTES.keys()
    tags = [body.__struct_config__.tag for body in BODIES]
    assert len(set(tags)) == len(tags)


@pytest.mark.parametrize("roles", [(), ("root",), ("user", "root")])
def test_a_role_that_does_not_exist_cannot_be_declared(roles: tuple[()] | tuple[str, ...]) -> None:
    with pytest.raises(TypeError, match="one or more of user, agent, job, viewer"):
        m.sent_by(*roles)


UNDECLARED = """
from dq_client.base.messages import base
class Forgotten(base.RequestBody, tag="forgotten", frozen=True):
    pass
from dq_client.base.messages import bodies
"""


def test_a_request_that_declares_no_role_is_refused_when_it_is_imported() -> None:
    words = [sys.executable, "-c", UNDECLARED]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    assert "requests without @sent_by: ['Forgotten']" in ran.stderr
