"""AG-UI 1.0: runs as its events over SSE, frontend tools, interrupts, and attaching again.

Calls to a client's own tools end a run with success and `pendingToolCallIds`, and are answered by
tool messages; everything else that waits for a decision is an interrupt, answered by `resume`. All
of them are told, in the form of 1.0 only, because the older form has the same field as a text.
State, activities and resets are shown while they happen and are not part of the log: who attaches
later gets the next state whole.
"""
