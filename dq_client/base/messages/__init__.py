"""Every message to and from a server. Encoded with msgspec (dq_client/base/codec.py); no pickle.

    base.py          field types and limits, directions and roles, what all clients say
    users.py         requests of users            handled in dq_server/live/requests/users.py
    applications.py  requests of applications                                    applications.py
    agents.py        requests of agents           and orders to them             agents.py
    standby.py       a standby, its server and the agents                        standby.py
    frames.py        Request, Reply, Order: the frames round these bodies
    bodies.py        all of them, for the server

A client (user, agent or application) sends a `Request` and gets the `Reply` with the same id; it
may send the same request again until the reply comes: every request is safe to repeat. To agents
the server also sends `Order`s unasked; orders repeat what the server's state wants, so a lost one
comes again with the next heartbeat. Lists and strings are bounded: a request cannot be larger than
`FRAME_BYTES_MAX`.

Read as `from dq_client.base import messages as m`. A name is looked up in these modules when it is
first used, so a command imports the messages that it sends and no others: making the types of all
takes longer than most commands run.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dq_client.base.messages.agents import *  # noqa: F403
    from dq_client.base.messages.applications import *  # noqa: F403
    from dq_client.base.messages.base import *  # noqa: F403
    from dq_client.base.messages.bodies import *  # noqa: F403
    from dq_client.base.messages.frames import *  # noqa: F403
    from dq_client.base.messages.standby import *  # noqa: F403
    from dq_client.base.messages.users import *  # noqa: F403

PARTS = ("base", "frames", "users", "applications", "agents", "standby", "bodies")


def __getattr__(name: str) -> Any:
    if not name.startswith("_") and name not in PARTS:
        for part in PARTS:
            found = vars(import_module(f"{__name__}.{part}"))
            if name in found:
                return globals().setdefault(name, found[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
