-- Indexes of runs without their ids, which SQLite compares only where two runs have the same time. Every run is in these
-- indexes: with ids a page had room for eight runs, without them for thirty.
DROP INDEX runs_recent;
DROP INDEX runs_agent;
DROP INDEX runs_open;
DROP INDEX runs_finished;
CREATE INDEX runs_recent ON runs (created_at);
CREATE INDEX runs_agent ON runs (agent_id, created_at);
CREATE INDEX runs_open ON runs (status, created_at) WHERE status <> 'done';
CREATE INDEX runs_finished ON runs (finished_at) WHERE finished_at IS NOT NULL;
