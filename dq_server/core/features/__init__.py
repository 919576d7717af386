"""What the scheduler can do, one room each: see feature.py for what a feature is.

The order counts where features are asked in turn: the first verdict at a remap point holds, who
starts is asked in this order, and so are walltimes and other limits when time passes.
"""

from dq_server.core.feature import Features
from dq_server.core.features.attaching import Attaching
from dq_server.core.features.dependencies import Dependencies
from dq_server.core.features.draining import Draining
from dq_server.core.features.dynamic_requests import Requests
from dq_server.core.features.history import History
from dq_server.core.features.lifecycle import Lifecycle
from dq_server.core.features.nodes import Nodes
from dq_server.core.features.pool import Pooling
from dq_server.core.features.profiles import Profiles
from dq_server.core.features.protection import Protecting
from dq_server.core.features.reservations import Reservations
from dq_server.core.features.resizing import Resizing
from dq_server.core.features.spawning import Spawning

FEATURES = Features(
    (
        Lifecycle(),
        Attaching(),
        Dependencies(),
        History(),
        Resizing(),
        Requests(),
        Spawning(),
        Profiles(),
        Nodes(),
        Draining(),
        Reservations(),
        Protecting(),
        Pooling(),
    )
)
