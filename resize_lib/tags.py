"""The tags of the library's messages, each with one meaning; no two are equal.

Most communicators of the library have only its own messages, and several of its parts share one.
"""

from __future__ import annotations

from typing import Final

DEPARTURE_DONE: Final = 7002  # a leaver has sent all (processes/departure.py)
DEPARTURE_GO: Final = 7003  # and may end
MOVED_DATA: Final = 7301  # redistribution/messages.py
GHOSTS: Final = 7303  # declared/ghosts.py
MIGRATION: Final = 7304  # declared/items.py
WHOLE_DATA: Final = 7305  # redistribution/segments.py
PARTNER_COPY: Final = 7306  # protection/partners.py
FETCHED_COPY: Final = 7307  # protection/chosen.py
MARKER: Final = 7308  # under_way.py
FARM: Final = 7309  # farm_round.py
SURVIVORS: Final = 7400  # and the number of the loss: processes/own.py
