"""What operators ask and do over HTTP: queues, workers, models, policy, budgets, traces, batches.

Start reading in `routes`. Routes of one tenant's own objects answer tenants as well; all others
need a caller without a tenant.
"""
