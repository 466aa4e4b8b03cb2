-- Datasets, evals and scores. Columns serve to find a record, which is authoritative.
CREATE TABLE eval_objects (hash BLOB PRIMARY KEY, body BLOB NOT NULL) STRICT, WITHOUT ROWID;
-- Whose conversation an object holds: found again when that thread or user is deleted.
CREATE TABLE eval_sources (
    hash BLOB NOT NULL,
    thread_id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    tenant_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    PRIMARY KEY (hash, thread_id, user_id, tenant_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX eval_sources_thread ON eval_sources (thread_id, hash) WHERE thread_id <> '';
CREATE INDEX eval_sources_user ON eval_sources (user_id, hash) WHERE user_id <> '';
-- A revision is two blobs: what a list shows, and its manifest, which may be large.
CREATE TABLE eval_datasets (
    dataset_id TEXT NOT NULL,
    revision INTEGER NOT NULL,
    tenant_id TEXT,
    is_deleted INTEGER NOT NULL,
    record BLOB NOT NULL,
    cases BLOB NOT NULL,
    PRIMARY KEY (dataset_id, revision)
) STRICT;
CREATE TABLE eval_runs (
    no INTEGER PRIMARY KEY AUTOINCREMENT,
    eval_id TEXT NOT NULL UNIQUE,
    dataset_id TEXT NOT NULL,
    tenant_id TEXT,
    status TEXT NOT NULL,
    record BLOB NOT NULL
) STRICT;
-- Written once; the place is the number of the eval, then that of the sample.
CREATE TABLE eval_items (place INTEGER PRIMARY KEY, record BLOB NOT NULL) STRICT;
CREATE TABLE scores (
    no INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id TEXT NOT NULL,
    scorer TEXT NOT NULL,
    source TEXT NOT NULL,
    tenant_id TEXT,
    at INTEGER NOT NULL,
    value INTEGER,
    record BLOB NOT NULL
) STRICT;
CREATE INDEX scores_run ON scores (run_id, no);
CREATE INDEX scores_scorer ON scores (scorer, no);
