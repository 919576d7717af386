"""The ends of the network's lines. What happens to a message on its way is the world's."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dq_client.base import codec
from dq_client.base import messages as m
from dq_server.live.access import Principal

if TYPE_CHECKING:
    from tests.dst.world import World


class Line:
    """Stands for Connection: one per life of its owner."""

    def __init__(
        self,
        world: World,
        name: str,
        principal: Principal,
        wake: Callable[[], None],
        address: str = "",
    ) -> None:
        """address: where it leads, if there are several servers (paired.py)."""
        self.world, self.principal, self.wake = world, principal, wake
        self.name, self.address = name, address
        self.inbox: deque[bytes] = deque()
        self.count = 0
        world.lives += 1
        self.identity = f"{name}#{world.lives}".encode()
        self.cut_off = False
        self.handshakes = 0
        world.lines[self.identity] = self

    def send(self, body: m.RequestBody, request: str = "") -> str:
        self.count += 1
        request = request or f"{self.identity.decode().replace('#', '-')}.{self.count}"
        frame = codec.encode(m.Request(request, body))
        self.world.carry(self, lambda: self.world.to_server(self, frame))
        return request

    def receive(self) -> Any:
        return codec.decode_from_server(self.inbox.popleft()) if self.inbox else None

    def deliver(self, frame: bytes) -> None:
        if self.world.lines.get(self.identity) is self:
            self.inbox.append(frame)
            self.wake()

    def check_refused(self) -> None:
        """Nobody is."""

    def close(self) -> None:
        self.world.lines.pop(self.identity, None)
