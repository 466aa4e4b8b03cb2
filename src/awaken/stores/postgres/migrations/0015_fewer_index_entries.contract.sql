-- From here on a queued run writes few and short entries of indexes: those that only older code needs are dropped.
DROP INDEX IF EXISTS threads_recent, threads_busy, threads_claimed, threads_leased, threads_queued, threads_waiting;

-- step
DROP INDEX IF EXISTS runs_recent, runs_agent, runs_open, runs_finished;

-- step
DROP INDEX IF EXISTS dispatches_run, dispatches_ended;
ALTER TABLE dispatches DROP CONSTRAINT IF EXISTS dispatches_pkey;
ALTER TABLE dispatches REPLICA IDENTITY USING INDEX dispatches_dispatch_id_key;
