"""What a run writes and what reaches it: commits, live events, leases, its inbox.

Start with `journal.py`. The run itself is in `runtime/run.py`; nothing here imports it.
"""
