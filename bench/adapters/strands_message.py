"""strands, durable after every message, like a checkpoint per step (persist variant)."""

from typing import ClassVar

from adapters.strands_ import Strands


class StrandsMessage(Strands):
    name = "strands(save per message)"
    store = "SnapshotSessionManager save_latest_on=message, LocalFileStorage"
    session_options: ClassVar = {"save_latest_on": "message"}


ADAPTER = StrandsMessage
