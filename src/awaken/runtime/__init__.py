"""The engine room: the loop, its steps, phases, plugin host, typed state, resolution, tool calls.

Reads top-down: `engine` admits runs, `loop` drives one, `step` takes one step.
It names no store, provider or protocol; all of them arrive through the ports in `contracts`.
"""
