-- The statements of managed configuration, by name. `$n` are their arguments, in order.
-- Every writer locks the one row of `config_state` first: writes are applied one after another.

-- name: lock_config
SELECT publication, audit_no, audit_chain, anchor_no, anchor_chain FROM config_state
WHERE name = 'main' {for_update}

-- name: find_config_state
SELECT publication, audit_no, audit_chain, anchor_no, anchor_chain FROM config_state
WHERE name = 'main'

-- name: save_config_state
UPDATE config_state SET publication = $1, audit_no = $2, audit_chain = $3, anchor_no = $4,
    anchor_chain = $5
WHERE name = 'main'

-- name: find_config_head
SELECT record, publication, revision FROM config_heads WHERE name = 'main'

-- name: save_config_head
INSERT INTO config_heads (name, publication, revision, record) VALUES ('main', $1, $2, $3)
ON CONFLICT (name) DO UPDATE SET publication = excluded.publication,
    revision = excluded.revision, record = excluded.record

-- name: add_config_object
INSERT INTO config_objects (hash, body) VALUES ($1, $2) ON CONFLICT (hash) DO NOTHING

-- name: load_config_objects
SELECT hash, body FROM config_objects WHERE hash IN (
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16,
    $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32,
    $33, $34, $35, $36, $37, $38, $39, $40, $41, $42, $43, $44, $45, $46, $47, $48,
    $49, $50, $51, $52, $53, $54, $55, $56, $57, $58, $59, $60, $61, $62, $63, $64)

-- name: list_config_objects
SELECT hash FROM config_objects

-- name: delete_config_object
DELETE FROM config_objects WHERE hash = $1

-- name: add_publication
INSERT INTO config_publications (no, kind, created_at, record, contents)
VALUES ($1, $2, $3, $4, $5)

-- name: has_publication
SELECT 1 FROM config_publications WHERE no = $1

-- name: load_publication
SELECT no, record, contents FROM config_publications WHERE no = $1

-- name: list_live_publications
SELECT no, record FROM config_publications
WHERE kind = 'live' AND no < $1 ORDER BY no DESC LIMIT $2

-- name: list_all_publications
SELECT no, record FROM config_publications WHERE no < $1 ORDER BY no DESC LIMIT $2

-- name: list_publication_ages
SELECT no, kind, created_at FROM config_publications

-- name: list_publication_contents
SELECT no, contents FROM config_publications WHERE no > $1 ORDER BY no LIMIT $2

-- name: delete_publication
DELETE FROM config_publications WHERE no = $1

-- name: find_draft
SELECT record, revision FROM config_drafts WHERE draft_id = $1

-- name: save_draft
INSERT INTO config_drafts (draft_id, base, revision, updated_at, expires_at, record)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (draft_id) DO UPDATE SET base = excluded.base, revision = excluded.revision,
    updated_at = excluded.updated_at, expires_at = excluded.expires_at, record = excluded.record

-- name: list_drafts
SELECT record, draft_id, revision FROM config_drafts ORDER BY updated_at DESC, draft_id

-- name: list_draft_bases
SELECT DISTINCT base FROM config_drafts WHERE base IS NOT NULL

-- name: delete_draft
DELETE FROM config_drafts WHERE draft_id = $1

-- name: delete_expired_drafts
DELETE FROM config_drafts WHERE expires_at < $1

-- name: save_secret
INSERT INTO config_secrets (ref, key_id, sealed, updated_at, updated_by)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (ref) DO UPDATE SET key_id = excluded.key_id, sealed = excluded.sealed,
    updated_at = excluded.updated_at, updated_by = excluded.updated_by

-- name: delete_secret
DELETE FROM config_secrets WHERE ref = $1

-- name: list_secrets
SELECT ref, key_id, sealed, updated_at, updated_by FROM config_secrets ORDER BY ref

-- name: add_config_request
INSERT INTO config_requests (idempotency_key, request_hash, publication, at)
VALUES ($1, $2, $3, $4)

-- name: find_config_request
SELECT request_hash, publication FROM config_requests WHERE idempotency_key = $1

-- name: delete_config_requests
DELETE FROM config_requests WHERE at < $1

-- name: add_audit
INSERT INTO config_audit (no, event_id, at, actor, action, resource, chain, record)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)

-- name: list_audit
SELECT no, chain, record FROM config_audit
WHERE no < $1 AND at BETWEEN $2 AND $3
    AND (CAST($4 AS TEXT) IS NULL OR action = $4)
    AND (CAST($5 AS TEXT) IS NULL OR actor = $5)
ORDER BY no DESC LIMIT $6

-- name: list_resource_audit
SELECT no, chain, record FROM config_audit
WHERE no < $1 AND at BETWEEN $2 AND $3
    AND (CAST($4 AS TEXT) IS NULL OR action = $4)
    AND (CAST($5 AS TEXT) IS NULL OR actor = $5) AND resource = $7
ORDER BY no DESC LIMIT $6

-- name: list_event_audit
SELECT no, chain, record FROM config_audit
WHERE no < $1 AND at BETWEEN $2 AND $3
    AND (CAST($4 AS TEXT) IS NULL OR action = $4)
    AND (CAST($5 AS TEXT) IS NULL OR actor = $5) AND event_id = $7
    AND (CAST($8 AS TEXT) IS NULL OR resource = $8)
ORDER BY no DESC LIMIT $6

-- name: read_audit_chain
SELECT no, chain, record FROM config_audit WHERE no > $1 ORDER BY no LIMIT $2

-- name: find_first_kept_audit
SELECT no FROM config_audit WHERE at >= $1 ORDER BY no LIMIT 1

-- name: find_last_pruned_audit
SELECT no, chain FROM config_audit WHERE no < $1 ORDER BY no DESC LIMIT 1

-- name: delete_audit
DELETE FROM config_audit WHERE no < $1
