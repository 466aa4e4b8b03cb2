"""Tools that a model is told of only when it needs them.

Belongs here: which of an agent's tools stand in its requests. `DeferredToolsPlugin` keeps the
others out of them, lists their ids, and offers `ToolSearch`, by which a model loads what it wants.
"""

from .config import DeferredToolsConfig, DiscountedBeta, LoadRule
from .plugin import DeferredToolsPlugin

__all__ = [
    "DeferredToolsConfig",
    "DeferredToolsPlugin",
    "DiscountedBeta",
    "LoadRule",
]
