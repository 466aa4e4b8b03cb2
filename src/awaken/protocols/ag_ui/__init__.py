"""AG-UI 1.0: runs as its events over SSE, frontend tools, interrupts, and attaching again.

Calls to a client's own tools end a run with success and `pendingToolCallIds`, and are answered by
tool messages; every other call that waits for a decision is an interrupt, answered by `resume`. All
of them are reported, in the 1.0 format only, because the older format has a text in that field.
State, activities and resets are streamed live and are not logged: a client that attaches later gets
the next state as a whole.
"""
