"""The long tail of vendors, by way of pydantic-ai: whatever it can ask, an agent can use.

Belongs here: our requests as its messages, its events and errors as ours. Does not: vendors of our
own wire formats. The extra `providers` is loaded by the first call, never by an import.
"""

from .client import BridgeClient

__all__ = ["BridgeClient"]
