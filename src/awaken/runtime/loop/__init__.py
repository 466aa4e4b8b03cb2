"""The loop of a run: open, step, stop checks, close.

Start with `loop.py`. A model turn is in `runtime/inference`, tool calls are in `runtime/tools`.
"""
