-- Facts about users and projects, and passages of documents.
CREATE TABLE memory_partitions (no BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, kind TEXT NOT NULL, tenant TEXT NOT NULL, name TEXT NOT NULL, UNIQUE (kind, tenant, name));
CREATE TABLE memory_items (no BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, partition_no BIGINT NOT NULL, item_id TEXT NOT NULL, group_id TEXT NOT NULL, position BIGINT NOT NULL, digest TEXT NOT NULL, expires_at BIGINT, body BYTEA NOT NULL);
CREATE INDEX memory_items_order ON memory_items (partition_no, no);
CREATE UNIQUE INDEX memory_items_id ON memory_items (partition_no, item_id);
CREATE UNIQUE INDEX memory_items_digest ON memory_items (partition_no, digest);
CREATE INDEX memory_items_group ON memory_items (partition_no, group_id) WHERE group_id <> '';
CREATE INDEX memory_items_expiry ON memory_items (expires_at) WHERE expires_at IS NOT NULL;
-- Every word begins with the number of its partition, so an index entry belongs to one partition.
CREATE TABLE memory_terms (item_no BIGINT PRIMARY KEY, terms TSVECTOR NOT NULL);
CREATE INDEX memory_terms_words ON memory_terms USING GIN (terms);
CREATE TABLE memory_vectors (partition_no BIGINT NOT NULL, item_no BIGINT NOT NULL PRIMARY KEY, model TEXT NOT NULL, vector REAL[] NOT NULL);
CREATE INDEX memory_vectors_partition ON memory_vectors (partition_no);
CREATE TABLE memory_marks (partition_no BIGINT NOT NULL, mark TEXT NOT NULL, PRIMARY KEY (partition_no, mark));
