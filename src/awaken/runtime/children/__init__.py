"""What runs set going below themselves: delegates, background tasks, messages to agents.

Start with `sub_runs.py`.
"""
