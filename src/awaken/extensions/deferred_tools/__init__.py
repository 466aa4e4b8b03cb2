"""Tools whose definitions a model gets only when it needs them.

Belongs here: which of an agent's tools are in its requests. `DeferredToolsPlugin` leaves the
others out, lists their ids, and offers `ToolSearch`, by which a model loads the tools it wants.
"""

from .config import DeferredToolsConfig, DiscountedBeta, LoadMode, LoadRule
from .plugin import DeferredToolsPlugin

__all__ = [
    "DeferredToolsConfig",
    "DeferredToolsPlugin",
    "DiscountedBeta",
    "LoadMode",
    "LoadRule",
]
