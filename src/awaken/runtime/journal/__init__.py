"""What a run writes down and what reaches it: commits, live events, leases, its inbox.

Start with `journal.py`. What a run is stands in `runtime/run.py`; nothing here knows of it.
"""
