-- name: add_eval_object
INSERT INTO eval_objects (hash, body) VALUES ($1, $2) ON CONFLICT DO NOTHING

-- name: load_eval_objects
SELECT hash, body FROM eval_objects WHERE hash IN ({places})

-- name: list_eval_objects
SELECT hash FROM eval_objects WHERE hash > $1 ORDER BY hash LIMIT $2

-- name: delete_eval_object
DELETE FROM eval_objects WHERE hash = $1

-- name: add_eval_source
INSERT INTO eval_sources (hash, thread_id, user_id, tenant_id, kind) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT DO NOTHING

-- name: delete_eval_sources
DELETE FROM eval_sources WHERE hash = $1

-- name: list_eval_sources_of_thread
SELECT hash, thread_id, user_id, tenant_id, kind FROM eval_sources
WHERE thread_id = $1 AND thread_id <> '' AND hash > $2
AND ($3 = '' OR (user_id = $3 AND tenant_id = $4))
ORDER BY hash, thread_id, user_id LIMIT $5

-- name: list_eval_sources_of_user
SELECT hash, thread_id, user_id, tenant_id, kind FROM eval_sources
WHERE user_id = $1 AND user_id <> '' AND tenant_id = $2 AND hash > $3
ORDER BY hash, thread_id, user_id LIMIT $4

-- name: find_newest_revision
SELECT MAX(revision) FROM eval_datasets WHERE dataset_id = $1

-- name: add_dataset_revision
INSERT INTO eval_datasets (dataset_id, revision, tenant_id, is_deleted, record, cases)
VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING

-- name: load_dataset
SELECT dataset_id, revision, record, cases FROM eval_datasets
WHERE dataset_id = $1 AND revision = $2

-- name: load_newest_dataset
SELECT dataset_id, revision, record, cases FROM eval_datasets
WHERE dataset_id = $1 ORDER BY revision DESC LIMIT 1

-- name: list_datasets
SELECT dataset_id, revision, record FROM eval_datasets d
WHERE dataset_id > $1 AND is_deleted = 0
AND revision = (SELECT MAX(revision) FROM eval_datasets WHERE dataset_id = d.dataset_id)
AND (CAST($2 AS TEXT) IS NULL OR tenant_id = $2)
ORDER BY dataset_id LIMIT $3

-- name: list_dataset_revisions
SELECT dataset_id, revision, record FROM eval_datasets
WHERE dataset_id = $1 AND revision < $2 ORDER BY revision DESC LIMIT $3

-- name: delete_dataset_revisions
DELETE FROM eval_datasets WHERE dataset_id = $1

-- name: add_eval
INSERT INTO eval_runs (eval_id, dataset_id, tenant_id, status, record)
VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING

-- name: update_eval
UPDATE eval_runs SET status = $2, record = $3 WHERE eval_id = $1 AND status = $4

-- name: find_eval
SELECT no, eval_id, record FROM eval_runs WHERE eval_id = $1

-- name: list_evals
SELECT no, eval_id, record FROM eval_runs
WHERE no < $1 AND (CAST($2 AS TEXT) IS NULL OR dataset_id = $2)
AND (CAST($3 AS TEXT) IS NULL OR status = $3) AND (CAST($4 AS TEXT) IS NULL OR tenant_id = $4)
ORDER BY no DESC LIMIT $5

-- name: delete_eval
DELETE FROM eval_runs WHERE eval_id = $1

-- name: delete_eval_items
DELETE FROM eval_items WHERE place >= $1 AND place <= $2

-- name: add_eval_item
INSERT INTO eval_items (place, record) VALUES ($1, $2) ON CONFLICT DO NOTHING

-- name: list_eval_items
SELECT place, record FROM eval_items WHERE place > $1 AND place <= $2 ORDER BY place LIMIT $3

-- name: add_score
INSERT INTO scores (run_id, scorer, source, tenant_id, at, value, record)
VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING no

-- name: list_scores
SELECT no, record, run_id FROM scores
WHERE no < $1 AND (CAST($2 AS TEXT) IS NULL OR run_id = $2)
AND (CAST($3 AS TEXT) IS NULL OR scorer = $3) AND (CAST($4 AS TEXT) IS NULL OR source = $4)
AND (CAST($5 AS TEXT) IS NULL OR tenant_id = $5) AND (CAST($6 AS BIGINT) IS NULL OR at >= $6)
AND (CAST($7 AS BIGINT) IS NULL OR value < $7)
ORDER BY no DESC LIMIT $8

-- name: list_scores_of_run
SELECT no, record, run_id FROM scores
WHERE no < $1 AND run_id = $2
AND (CAST($3 AS TEXT) IS NULL OR scorer = $3) AND (CAST($4 AS TEXT) IS NULL OR source = $4)
AND (CAST($5 AS TEXT) IS NULL OR tenant_id = $5) AND (CAST($6 AS BIGINT) IS NULL OR at >= $6)
AND (CAST($7 AS BIGINT) IS NULL OR value < $7)
ORDER BY no DESC LIMIT $8

-- name: list_scores_of_scorer
SELECT no, record, run_id FROM scores
WHERE no < $1 AND (CAST($2 AS TEXT) IS NULL OR run_id = $2) AND scorer = $3
AND (CAST($4 AS TEXT) IS NULL OR source = $4)
AND (CAST($5 AS TEXT) IS NULL OR tenant_id = $5) AND (CAST($6 AS BIGINT) IS NULL OR at >= $6)
AND (CAST($7 AS BIGINT) IS NULL OR value < $7)
ORDER BY no DESC LIMIT $8
