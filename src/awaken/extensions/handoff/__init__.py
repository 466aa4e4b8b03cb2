"""Handing a conversation over to another agent on the same thread.

`HandoffPlugin` offers the model a tool for it; the loop does the switch at the next step.
"""

from .plugin import Handoff, HandoffPlugin

__all__ = ["Handoff", "HandoffPlugin"]
