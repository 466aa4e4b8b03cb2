"""The table of kinds: every namespace of managed configuration, its spec and its HTTP form.

Belongs here: how a kind is written over HTTP, checked, and what it names. Does not: how records
become something that runs, which is the compiler's. Start with `wire_forms`, then any kind.
"""

from .models import SUPPORTED_ADAPTERS
from .table import config_kinds

__all__ = ["SUPPORTED_ADAPTERS", "config_kinds"]
