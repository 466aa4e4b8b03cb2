-- Lists of runs by keys, and usage by day. `kind` is NULL for a chat and `ended` for a natural end, so that most
-- runs write neither column nor its index. `sql/run_columns.py` fills the columns of older runs.
ALTER TABLE runs ADD COLUMN agent_id TEXT;
ALTER TABLE runs ADD COLUMN kind TEXT;
ALTER TABLE runs ADD COLUMN publication INTEGER;
ALTER TABLE runs ADD COLUMN tenant_id TEXT;
ALTER TABLE runs ADD COLUMN ended TEXT;
ALTER TABLE runs ADD COLUMN tokens INTEGER;
ALTER TABLE runs ADD COLUMN cost_nanos INTEGER;
UPDATE runs SET tenant_id = (SELECT tenant_id FROM threads WHERE no = runs.thread_no)
WHERE EXISTS (SELECT 1 FROM threads WHERE no = runs.thread_no AND tenant_id IS NOT NULL);
CREATE INDEX runs_recent ON runs (created_at, run_id, kind);
CREATE INDEX runs_agent ON runs (agent_id, created_at, run_id);
CREATE INDEX runs_open ON runs (status, created_at, run_id) WHERE status <> 'done';
CREATE INDEX runs_finished ON runs (finished_at, run_id) WHERE finished_at IS NOT NULL;
CREATE INDEX runs_ended ON runs (ended, created_at, run_id) WHERE ended IS NOT NULL;
CREATE INDEX runs_kind ON runs (kind, created_at, run_id) WHERE kind IS NOT NULL;
CREATE INDEX runs_publication ON runs (publication, created_at, run_id) WHERE publication IS NOT NULL;
CREATE INDEX runs_tenant ON runs (tenant_id, created_at, run_id) WHERE tenant_id IS NOT NULL;
CREATE TABLE usage_days (
    day INTEGER NOT NULL,
    agent TEXT NOT NULL,
    model TEXT NOT NULL,
    tenant TEXT NOT NULL,
    record BLOB NOT NULL,
    PRIMARY KEY (day, agent, model, tenant)
) STRICT, WITHOUT ROWID;
