"""awaken with tools of the default effect: intents are durable before tools run."""

from awaken_adapter import Awaken


class AwakenOnce(Awaken):
    """Only its stored turns differ."""

    name = "awaken(once)"
    store = "SQLite, WAL, synchronous=FULL, every commit and every tool intent"
    effect = "once"


ADAPTER = AwakenOnce
