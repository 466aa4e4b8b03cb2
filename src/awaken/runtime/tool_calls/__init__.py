"""The tool calls of one step: gated, executed, settled.

`batch` decides what runs when, `gate` asks whether a call may pass, `attempt` runs one call,
`settle` turns its output into state, transcript and events.
"""
