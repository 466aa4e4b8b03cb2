"""The tool calls of one step: gated, executed, settled.

Start with `batch.py`. Suspended calls go on in `runtime/suspension`.
"""
