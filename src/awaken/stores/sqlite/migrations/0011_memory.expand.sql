-- Facts about users and projects, and passages of documents. The index of their words is made when the first one is kept.
CREATE TABLE memory_partitions (no INTEGER PRIMARY KEY, kind TEXT NOT NULL, tenant TEXT NOT NULL, name TEXT NOT NULL, UNIQUE (kind, tenant, name));
CREATE TABLE memory_items (no INTEGER PRIMARY KEY, partition_no INTEGER NOT NULL, item_id TEXT NOT NULL, group_id TEXT NOT NULL, position INTEGER NOT NULL, digest TEXT NOT NULL, expires_at INTEGER, body BLOB NOT NULL);
CREATE INDEX memory_items_order ON memory_items (partition_no);
CREATE UNIQUE INDEX memory_items_id ON memory_items (partition_no, item_id);
CREATE UNIQUE INDEX memory_items_digest ON memory_items (partition_no, digest);
CREATE INDEX memory_items_group ON memory_items (partition_no, group_id) WHERE group_id <> '';
CREATE INDEX memory_items_expiry ON memory_items (expires_at) WHERE expires_at IS NOT NULL;
-- The vectors of one partition are next to each other, because a search compares all of them.
CREATE TABLE memory_vectors (partition_no INTEGER NOT NULL, item_no INTEGER NOT NULL, model TEXT NOT NULL, vector BLOB NOT NULL, PRIMARY KEY (partition_no, item_no)) WITHOUT ROWID;
CREATE INDEX memory_vectors_item ON memory_vectors (item_no);
CREATE TABLE memory_marks (partition_no INTEGER NOT NULL, mark TEXT NOT NULL, PRIMARY KEY (partition_no, mark)) WITHOUT ROWID;
