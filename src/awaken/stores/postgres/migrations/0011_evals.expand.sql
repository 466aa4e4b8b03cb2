-- Datasets, evals and scores. Columns serve to find a record, which is authoritative.
CREATE TABLE eval_objects (hash BYTEA PRIMARY KEY, body BYTEA NOT NULL);
-- Whose conversation an object holds: found again when that thread or user is deleted.
CREATE TABLE eval_sources (
    hash BYTEA NOT NULL,
    thread_id TEXT COLLATE "C" NOT NULL,
    user_id TEXT COLLATE "C" NOT NULL,
    tenant_id TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (hash, thread_id, user_id, tenant_id)
);
CREATE INDEX eval_sources_thread ON eval_sources (thread_id, hash) WHERE thread_id <> '';
CREATE INDEX eval_sources_user ON eval_sources (user_id, hash) WHERE user_id <> '';
-- A revision is two blobs: what a list shows, and its manifest, which may be large.
CREATE TABLE eval_datasets (
    dataset_id TEXT COLLATE "C" NOT NULL,
    revision BIGINT NOT NULL,
    tenant_id TEXT COLLATE "C",
    is_deleted BIGINT NOT NULL,
    record BYTEA NOT NULL,
    cases BYTEA NOT NULL,
    PRIMARY KEY (dataset_id, revision)
);
CREATE TABLE eval_runs (
    no BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    eval_id TEXT COLLATE "C" NOT NULL UNIQUE,
    dataset_id TEXT COLLATE "C" NOT NULL,
    tenant_id TEXT COLLATE "C",
    status TEXT COLLATE "C" NOT NULL,
    record BYTEA NOT NULL
);
-- Written once; the place is the number of the eval, then that of the sample.
CREATE TABLE eval_items (place BIGINT PRIMARY KEY, record BYTEA NOT NULL);
CREATE TABLE scores (
    no BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_id TEXT COLLATE "C" NOT NULL,
    scorer TEXT COLLATE "C" NOT NULL,
    source TEXT COLLATE "C" NOT NULL,
    tenant_id TEXT COLLATE "C",
    at BIGINT NOT NULL,
    value BIGINT,
    record BYTEA NOT NULL
);
CREATE INDEX scores_run ON scores (run_id, no);
CREATE INDEX scores_scorer ON scores (scorer, no);
