"""Admitting runs: which agent, which run id, what is restored, one run per thread.

Start with `execution.py`. The loop that an admitted run goes through is in `runtime/loop`.
"""
