"""The tool calls of one step: gated, executed, settled.

Start with `batch.py`. Suspended calls are continued in `runtime/suspension`.
"""
