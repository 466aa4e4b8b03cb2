"""All other vendors, through pydantic-ai: an agent can use every model that it supports.

Belongs here: the translation of requests, events and errors. Does not: vendors of our own wire
formats. The first call loads the extra `providers`, an import never does.
"""

from .client import BridgeClient

__all__ = ["BridgeClient"]
