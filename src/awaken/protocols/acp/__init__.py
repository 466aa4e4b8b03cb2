"""The Agent Client Protocol: an editor talks to an agent over stdin and stdout.

Sessions are threads. What a call waits for is asked as a permission; `allow_always` and
`reject_always` are remembered durably for the thread and the tool, and consulted before the
client is asked again. A call that waits for an answer that is no permission cannot be answered
here: it ends the turn with an error, and the run is cancelled. A client that goes away stops
nothing by itself; the process drains when its stdin ends.
"""
