"""The bus over core NATS, without JetStream: nothing is stored, everything may be lost.

Start reading at `bus.py`; `address.py` reads the URL, `connection.py` is one connection.
"""

from .bus import NatsBus

__all__ = ["NatsBus"]
