"""Handing a conversation over to another agent on the same thread.

`plugin.HandoffPlugin` offers the model a tool for it; the loop does the switch at the next step.
"""
