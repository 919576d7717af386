"""What the scheduler can do, one room each: see feature.py for what a feature is.

The order counts where features are asked in turn: the first verdict at a remap point holds, who
starts is asked in this order, and so are walltimes and other limits when time passes.
"""

from dq_server.core.feature import Features
from dq_server.core.features.arrays import Arrays
from dq_server.core.features.dependencies import Dependencies
from dq_server.core.features.draining import Draining
from dq_server.core.features.dynamic_requests import Requests
from dq_server.core.features.history import History
from dq_server.core.features.lifecycle import Lifecycle
from dq_server.core.features.maintenance import Maintenance
from dq_server.core.features.node_ends import NodeEnds
from dq_server.core.features.nodes import Nodes
from dq_server.core.features.placement import Placing
from dq_server.core.features.pool import Pooling
from dq_server.core.features.profiles import Profiles
from dq_server.core.features.protection import Protecting
from dq_server.core.features.quotas import Quotas
from dq_server.core.features.reservations import Reservations
from dq_server.core.features.resizing import Resizing
from dq_server.core.features.spawning import Spawning
from dq_server.core.features.watch import Watching
from dq_server.core.features.workers import WorkerJobsFeature

FEATURES = Features(
    (
        Placing(),
        Lifecycle(),
        Dependencies(),
        Arrays(),
        Quotas(),
        History(),
        Resizing(),
        Requests(),
        Spawning(),
        Profiles(),
        Nodes(),
        Draining(),
        NodeEnds(),
        Reservations(),
        Maintenance(),
        WorkerJobsFeature(),
        Protecting(),
        Pooling(),
        Watching(),
    )
)
