"""What runs start below themselves: delegates, background tasks, messages to agents.

Start with `sub_runs.py`.
"""
