-- Lists of runs by keys, and usage by day. `kind` is NULL for a chat and `ended` for a natural end, so that most
-- runs write neither column nor its index. `sql/run_columns.py` fills the columns of older runs.
ALTER TABLE runs ADD COLUMN agent_id TEXT COLLATE "C";
ALTER TABLE runs ADD COLUMN kind TEXT COLLATE "C";
ALTER TABLE runs ADD COLUMN publication BIGINT;
ALTER TABLE runs ADD COLUMN tenant_id TEXT COLLATE "C";
ALTER TABLE runs ADD COLUMN ended TEXT COLLATE "C";
ALTER TABLE runs ADD COLUMN tokens BIGINT;
ALTER TABLE runs ADD COLUMN cost_nanos BIGINT;
UPDATE runs SET tenant_id = (SELECT tenant_id FROM threads WHERE no = runs.thread_no)
WHERE EXISTS (SELECT 1 FROM threads WHERE no = runs.thread_no AND tenant_id IS NOT NULL);
DROP INDEX runs_created;
DROP INDEX runs_ended;
CREATE INDEX runs_recent ON runs (created_at, run_id, kind);
CREATE INDEX runs_agent ON runs (agent_id, created_at, run_id);
CREATE INDEX runs_finished ON runs (finished_at, run_id) WHERE finished_at IS NOT NULL;
CREATE INDEX runs_ended ON runs (ended, created_at, run_id) WHERE ended IS NOT NULL;
CREATE INDEX runs_kind ON runs (kind, created_at, run_id) WHERE kind IS NOT NULL;
CREATE INDEX runs_publication ON runs (publication, created_at, run_id) WHERE publication IS NOT NULL;
CREATE INDEX runs_tenant ON runs (tenant_id, created_at, run_id) WHERE tenant_id IS NOT NULL;
CREATE TABLE usage_days (
    day BIGINT NOT NULL,
    agent TEXT COLLATE "C" NOT NULL,
    model TEXT COLLATE "C" NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    record BYTEA NOT NULL,
    PRIMARY KEY (day, agent, model, tenant)
);
