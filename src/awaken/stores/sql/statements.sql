-- Every statement of the SQL store, by name. `$n` are its arguments, in order.
-- A thread's rows lie together: `place` is the thread's number and a number inside it in one key.

-- name: find_thread
SELECT no, version, message_count, event_seq, purged_seq, updated_at, resource_id, parent_id,
    head, claim_token, claimed_by, claim_dispatch, cancel_cause, epoch, queued, served_at, id,
    latest_run_id, tenant_id
FROM threads WHERE id = $1

-- name: find_thread_and_run
SELECT no, version, message_count, event_seq, purged_seq, updated_at, resource_id, parent_id,
    head, claim_token, claimed_by, claim_dispatch, cancel_cause, epoch, queued, served_at, id,
    latest_run_id, tenant_id, (SELECT record FROM runs WHERE run_id = latest_run_id)
FROM threads WHERE id = $1

-- name: lock_thread
SELECT no, version, message_count, event_seq, purged_seq, updated_at, resource_id, parent_id,
    head, claim_token, claimed_by, claim_dispatch, cancel_cause, epoch, queued, served_at, id,
    latest_run_id, tenant_id
FROM threads WHERE id = $1 {for_update}

-- name: add_thread
INSERT INTO threads (id, head, tenant_id) VALUES ($1, $2, $3) ON CONFLICT (id) DO NOTHING

-- name: add_committed_thread
INSERT INTO threads (id, tenant_id, resource_id, parent_id, version, message_count, event_seq,
    updated_at, sort_at, head, latest_run_id, claim_token, claimed_by, lease_until)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
ON CONFLICT (id) DO NOTHING RETURNING no

-- name: save_commit_head
UPDATE threads SET version = $2, message_count = $3, event_seq = $4, updated_at = $5,
    sort_at = $6, head = $7, latest_run_id = $8
WHERE no = $1

-- name: save_head_and_claim
UPDATE threads SET version = $2, message_count = $3, event_seq = $4, updated_at = $5,
    sort_at = $6, head = $7, latest_run_id = $8,
    claim_token = $9, claimed_by = $10, claim_dispatch = $11, cancel_cause = $12, lease_until = $13
WHERE no = $1

-- name: touch_thread
UPDATE threads SET version = version WHERE no = $1

-- name: save_lineage
UPDATE threads SET resource_id = $2, parent_id = $3 WHERE no = $1

-- name: save_edit
UPDATE threads SET updated_at = $2, sort_at = $3, resource_id = $4, parent_id = $5, head = $6
WHERE no = $1

-- name: take_claim
UPDATE threads SET claim_token = $2, claimed_by = $3, claim_dispatch = $4, cancel_cause = $5,
    lease_until = $6
WHERE no = $1

-- name: drop_claim
UPDATE threads SET claim_token = NULL, claimed_by = NULL, claim_dispatch = NULL,
    cancel_cause = $2, lease_until = NULL
WHERE no = $1

-- name: set_cancel
UPDATE threads SET cancel_cause = $2 WHERE no = $1

-- name: park_queue
UPDATE threads SET turn_at = NULL WHERE id = $1

-- name: postpone_claim
UPDATE threads SET lease_until = $2 WHERE id = $1

-- name: save_queue
UPDATE threads SET epoch = $2, queued = $3, served_at = $4, head_priority = $5, due_at = $6,
    turn_at = $7, head_no = $8, head_agent = $9
WHERE no = $1

-- name: find_parent
SELECT parent_id FROM threads WHERE id = $1 {for_share}

-- name: list_threads
SELECT no, version, message_count, event_seq, purged_seq, updated_at, resource_id, parent_id,
    head, claim_token, claimed_by, claim_dispatch, cancel_cause, epoch, queued, served_at, id,
    latest_run_id, tenant_id
FROM threads
WHERE (CAST($1 AS TEXT) IS NULL OR resource_id = $1)
    AND (CAST($2 AS TEXT) IS NULL OR parent_id = $2)
    AND (CAST($3 AS INTEGER) = 0 OR parent_id IS NULL)
ORDER BY sort_at DESC, id
LIMIT $4 OFFSET $5

-- name: count_threads
SELECT COUNT(*) FROM threads
WHERE (CAST($1 AS TEXT) IS NULL OR resource_id = $1)
    AND (CAST($2 AS TEXT) IS NULL OR parent_id = $2)
    AND (CAST($3 AS INTEGER) = 0 OR parent_id IS NULL)

-- name: list_tenant_threads
SELECT no, version, message_count, event_seq, purged_seq, updated_at, resource_id, parent_id,
    head, claim_token, claimed_by, claim_dispatch, cancel_cause, epoch, queued, served_at, id,
    latest_run_id, tenant_id
FROM threads
WHERE tenant_id = $6 AND (CAST($1 AS TEXT) IS NULL OR resource_id = $1)
    AND (CAST($2 AS TEXT) IS NULL OR parent_id = $2)
    AND (CAST($3 AS INTEGER) = 0 OR parent_id IS NULL)
ORDER BY sort_at DESC, id
LIMIT $4 OFFSET $5

-- name: count_tenant_threads
SELECT COUNT(*) FROM threads
WHERE tenant_id = $4 AND (CAST($1 AS TEXT) IS NULL OR resource_id = $1)
    AND (CAST($2 AS TEXT) IS NULL OR parent_id = $2)
    AND (CAST($3 AS INTEGER) = 0 OR parent_id IS NULL)

-- name: list_children
SELECT id FROM threads WHERE parent_id = $1 ORDER BY id

-- name: detach_children
UPDATE threads SET parent_id = NULL WHERE parent_id = $1

-- name: delete_thread
DELETE FROM threads WHERE no = $1

-- name: add_commit
INSERT INTO commits
    (place, commit_id, digest, run_id, committed_at, message_count, event_seq, events, tools, state)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)

-- name: find_commit
SELECT place, digest, message_count, event_seq FROM commits
WHERE place BETWEEN $2 AND $3 AND $1 <> '' AND $1 = CASE commit_id
    WHEN '' THEN run_id || ':' || CAST(place % 4294967296 AS TEXT) ELSE commit_id END
ORDER BY place DESC LIMIT 1

-- name: list_commit_events
SELECT event_seq, run_id, committed_at, events FROM commits
WHERE place BETWEEN $1 AND $2 AND event_seq > $3 AND events IS NOT NULL
ORDER BY place LIMIT $4

-- name: find_first_commit
SELECT event_seq, run_id, committed_at, events FROM commits
WHERE place BETWEEN $1 AND $2 ORDER BY place LIMIT 1

-- name: list_run_events
SELECT event_seq, run_id, committed_at, events FROM commits
WHERE place BETWEEN $1 AND $2 AND run_id = $3 AND events IS NOT NULL
ORDER BY place

-- name: list_commit_tools
SELECT tools FROM commits
WHERE place BETWEEN $1 AND $2 AND tools IS NOT NULL
ORDER BY place

-- name: list_old_state
SELECT place, run_id, event_seq, state FROM commits
WHERE place BETWEEN $1 AND $2 AND event_seq <= $3 AND state IS NOT NULL
ORDER BY place DESC LIMIT $4

-- name: list_run_state
SELECT place, run_id, event_seq, state FROM commits
WHERE place BETWEEN $1 AND $2 AND run_id = $3 AND state IS NOT NULL
ORDER BY place

-- name: delete_commits
DELETE FROM commits WHERE place BETWEEN $1 AND $2

-- name: add_message
INSERT INTO messages (place, id_key, created_at, body) VALUES ($1, $2, $3, $4)

-- name: list_messages_like
SELECT body, created_at FROM messages WHERE id_key = $1

-- name: list_messages
SELECT place, created_at, body FROM messages WHERE place BETWEEN $1 AND $2 ORDER BY place

-- name: delete_messages
DELETE FROM messages WHERE place BETWEEN $1 AND $2

-- name: add_run
INSERT INTO runs
    (place, run_id, thread_no, status, created_at, finished_at, first_version, record, agent_id,
    kind, publication, tenant_id, ended, tokens, cost_nanos)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15
WHERE NOT EXISTS (SELECT 1 FROM dispatches WHERE run_id = $2 AND thread_no <> $3)
ON CONFLICT (run_id) DO NOTHING

-- name: save_run
UPDATE runs SET status = $2, finished_at = $3, record = $4, ended = $5, tokens = $6,
    cost_nanos = $7
WHERE run_id = $1

-- name: save_repinned_run
UPDATE runs SET status = $2, finished_at = $3, record = $4, ended = $5, tokens = $6,
    cost_nanos = $7, publication = $8
WHERE run_id = $1

-- name: save_same_run
UPDATE runs SET record = $2 WHERE run_id = $1

-- name: find_run
SELECT record, thread_no, first_version FROM runs WHERE run_id = $1

-- name: count_prefix
SELECT (SELECT COUNT(*) FROM (SELECT 1 FROM runs WHERE run_id >= $1 AND run_id < $2 LIMIT $3) AS a),
    (SELECT COUNT(*) FROM (SELECT 1 FROM threads WHERE id >= $1 AND id < $2 LIMIT $3) AS b)

-- name: list_unfilled_runs
SELECT run_id, record FROM runs WHERE agent_id IS NULL LIMIT $1

-- name: fill_run
UPDATE runs SET agent_id = $2, kind = $3, publication = $4, ended = $5, tokens = $6,
    cost_nanos = $7
WHERE run_id = $1 AND agent_id IS NULL

-- name: list_pinned_publications
SELECT DISTINCT publication FROM runs WHERE status <> 'done' AND COALESCE(publication, -1) >= 0

-- name: count_open_runs
SELECT status, COUNT(*) FROM runs
WHERE status <> 'done' AND (CAST($1 AS TEXT) IS NULL OR tenant_id = $1)
    AND (kind IS NULL OR kind = 'task')
GROUP BY status

-- name: list_finished_runs
SELECT finished_at, run_id, record, tenant_id, thread_no, first_version FROM runs
WHERE finished_at IS NOT NULL AND finished_at <= $3 AND (finished_at, run_id) > ($1, $2)
ORDER BY finished_at, run_id LIMIT $4

-- name: find_usage
SELECT record FROM usage_days WHERE day = $1 AND agent = $2 AND model = $3 AND tenant = $4

-- name: save_usage
INSERT INTO usage_days (day, agent, model, tenant, record) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (day, agent, model, tenant) DO UPDATE SET record = excluded.record

-- name: list_usage
SELECT day, agent, model, tenant, record FROM usage_days
WHERE day BETWEEN $1 AND $2 AND (CAST($3 AS TEXT) IS NULL OR tenant = $3)
ORDER BY day, agent, model, tenant

-- name: delete_runs
DELETE FROM runs WHERE place BETWEEN $1 AND $2

-- name: delete_run
DELETE FROM runs WHERE run_id = $1

-- name: save_state
INSERT INTO state (thread_no, scope, name, version, data) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (thread_no, scope, name) DO UPDATE SET version = excluded.version, data = excluded.data

-- name: delete_state
DELETE FROM state WHERE thread_no = $1 AND scope = $2 AND name = $3

-- name: clear_run_state
DELETE FROM state WHERE thread_no = $1 AND scope = 1

-- name: delete_thread_state
DELETE FROM state WHERE thread_no = $1

-- name: list_state
SELECT scope, name, version, data FROM state WHERE thread_no = $1

-- name: save_ticket
INSERT INTO tickets (ticket_id, thread_no, run_id, status, created_at, expires_at, record)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (ticket_id) DO UPDATE SET status = excluded.status, expires_at = excluded.expires_at,
    record = excluded.record
WHERE tickets.thread_no = excluded.thread_no

-- name: find_live_ticket
SELECT record FROM tickets WHERE ticket_id = $1

-- name: find_ticket
SELECT record FROM tickets WHERE ticket_id = $1

-- name: list_open_tickets
SELECT record, ticket_id FROM tickets WHERE status = 'open' ORDER BY created_at, ticket_id

-- name: list_open_tickets_of
SELECT tickets.record, ticket_id FROM tickets JOIN threads ON threads.no = tickets.thread_no
WHERE threads.id = $1 AND tickets.status = 'open'
    AND (CAST($2 AS TEXT) IS NULL OR threads.tenant_id = $2)
ORDER BY tickets.created_at, ticket_id

-- name: list_tenant_tickets
SELECT tickets.record, ticket_id FROM tickets JOIN threads ON threads.no = tickets.thread_no
WHERE threads.tenant_id = $1 AND tickets.status = 'open'
ORDER BY tickets.created_at, ticket_id

-- name: list_run_tickets
SELECT tickets.record FROM tickets JOIN threads ON threads.no = tickets.thread_no
WHERE threads.id = $1 AND tickets.run_id = $2 ORDER BY tickets.created_at, ticket_id

-- name: find_next_deadline
SELECT MIN(expires_at) FROM tickets WHERE status = 'open' AND expires_at IS NOT NULL

-- name: list_expired_tickets
SELECT record, ticket_id FROM tickets WHERE status = 'open' AND expires_at < $1
ORDER BY expires_at, ticket_id LIMIT $2

-- name: delete_tickets
DELETE FROM tickets WHERE thread_no = $1

-- name: delete_run_tickets
DELETE FROM tickets WHERE thread_no = $1 AND run_id = $2

-- name: save_checkpoint
INSERT INTO checkpoints (run_id, thread_no, record) VALUES ($1, $2, $3)
ON CONFLICT (run_id) DO UPDATE SET record = excluded.record

-- name: find_checkpoint
SELECT record FROM checkpoints WHERE run_id = $1

-- name: delete_checkpoints
DELETE FROM checkpoints WHERE thread_no = $1

-- name: add_outbox
INSERT INTO outbox (entry_id, thread_no, due_at, is_dead, record) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (entry_id) DO NOTHING

-- name: list_due_outbox
SELECT record, entry_id FROM outbox
WHERE is_dead = 0 AND (due_at <= $1 OR due_at > $3) ORDER BY no LIMIT $2

-- name: find_outbox
SELECT record, entry_id FROM outbox WHERE entry_id = $1

-- name: list_thread_outbox
SELECT record, entry_id FROM outbox WHERE thread_no = $1 AND is_dead = 0 ORDER BY no

-- name: list_dead_outbox
SELECT record, entry_id FROM outbox
WHERE is_dead = 1
    AND (CAST($1 AS TEXT) IS NULL OR thread_no = (SELECT no FROM threads WHERE id = $1))
ORDER BY no LIMIT $2

-- name: save_outbox
UPDATE outbox SET due_at = $2, is_dead = $3, record = $4 WHERE entry_id = $1

-- name: move_outbox
UPDATE outbox SET thread_no = COALESCE((SELECT no FROM threads WHERE id = $2), thread_no)
WHERE entry_id = $1

-- name: delete_outbox
DELETE FROM outbox WHERE entry_id = $1

-- name: purge_outbox
DELETE FROM outbox WHERE is_dead = 1 AND due_at < $1 AND no IN (
    SELECT no FROM outbox WHERE is_dead = 1 AND due_at < $1 ORDER BY no LIMIT $2)

-- name: delete_dead_outbox
DELETE FROM outbox WHERE thread_no = $1 AND is_dead = 1

-- name: add_dispatch
INSERT INTO dispatches (dispatch_id, thread_no, run_id, status, priority, available_at, mode,
    dedupe_key, created_at, updated_at, record)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)

-- name: save_dispatch
UPDATE dispatches SET run_id = $2, status = $3, available_at = $4, updated_at = $5, record = $6
WHERE dispatch_id = $1

-- name: find_dispatch
SELECT record FROM dispatches WHERE dispatch_id = $1

-- name: find_dedupe
SELECT record FROM dispatches WHERE thread_no = $1 AND dedupe_key = $2

-- name: find_dispatch_of_run
SELECT record FROM dispatches WHERE run_id = $1 ORDER BY no DESC LIMIT 1

-- name: first_queued
SELECT record, no FROM dispatches WHERE thread_no = $1 AND status = 'queued'
ORDER BY priority, no LIMIT 1

-- name: list_queued
SELECT record, no FROM dispatches WHERE thread_no = $1 AND status = 'queued' ORDER BY priority, no

-- name: count_queued_of
SELECT COUNT(*) FROM dispatches WHERE thread_no = $1 AND status = 'queued'

-- name: count_queued
SELECT COALESCE(SUM(queued), 0) FROM threads WHERE queued > 0

-- name: count_queued_by_tenant
SELECT tenant_id, SUM(queued) FROM threads WHERE queued > 0 AND tenant_id IS NOT NULL
GROUP BY tenant_id

-- name: list_dispatches
SELECT record, dispatch_id FROM dispatches
WHERE (CAST($1 AS TEXT) IS NULL OR thread_no = (SELECT no FROM threads WHERE id = $1))
    AND (CAST($2 AS TEXT) IS NULL OR status = $2)
ORDER BY created_at, dispatch_id LIMIT $3 OFFSET $4

-- name: count_dispatches
SELECT COUNT(*) FROM dispatches
WHERE (CAST($1 AS TEXT) IS NULL OR thread_no = (SELECT no FROM threads WHERE id = $1))
    AND (CAST($2 AS TEXT) IS NULL OR status = $2)

-- name: delete_dispatches
DELETE FROM dispatches WHERE thread_no = $1

-- name: list_due
SELECT id, head_agent FROM threads
WHERE turn_at IS NOT NULL AND claim_token IS NULL AND due_at <= $1
    AND (head_agent IS NULL OR CAST($3 AS TEXT) IS NULL
        OR instr($3, '|' || replace(replace(head_agent, '%', '%25'), '|', '%7C') || '|') > 0)
ORDER BY head_priority, turn_at, head_no LIMIT $2 {skip_locked}

-- name: list_open_due
SELECT id, head_agent, tenant_id, head_priority FROM threads
WHERE turn_at IS NOT NULL AND claim_token IS NULL AND due_at <= $1
    AND (head_agent IS NULL OR CAST($3 AS TEXT) IS NULL
        OR instr($3, '|' || replace(replace(head_agent, '%', '%25'), '|', '%7C') || '|') > 0)
    AND instr($4, '|' || replace(replace(COALESCE(tenant_id, ''), '%', '%25'), '|', '%7C') || '|') = 0
ORDER BY head_priority, turn_at, head_no LIMIT $2

-- name: count_busy
SELECT COALESCE(tenant_id, ''), COUNT(*) FROM threads WHERE claim_token IS NOT NULL
GROUP BY COALESCE(tenant_id, '')

-- name: find_due
SELECT 1 FROM threads
WHERE turn_at IS NOT NULL AND claim_token IS NULL AND due_at <= $1
    AND (head_agent IS NULL OR CAST($2 AS TEXT) IS NULL
        OR instr($2, '|' || replace(replace(head_agent, '%', '%25'), '|', '%7C') || '|') > 0)
LIMIT 1

-- name: look_again
UPDATE threads SET due_at = 0 WHERE turn_at IS NOT NULL AND due_at > $1 AND served_at > $1

-- name: list_expired_claims
SELECT id FROM threads WHERE claim_token IS NOT NULL AND lease_until <= $1
ORDER BY lease_until LIMIT $2 {skip_locked}

-- name: find_claim_holder
SELECT claimed_by FROM threads WHERE id = $1 AND claim_token IS NOT NULL

-- name: list_claim_holders
SELECT DISTINCT claimed_by FROM threads WHERE claim_token IS NOT NULL AND lease_until > $1

-- name: expire_claims_of
UPDATE threads SET lease_until = 0 WHERE claim_token IS NOT NULL AND claimed_by = $1

-- name: extend_lease
UPDATE threads SET lease_until = $2 WHERE claim_token = $1

-- name: find_lease
SELECT cancel_cause, EXISTS (
    SELECT 1 FROM dispatches
    WHERE thread_no = threads.no AND status = 'queued' AND mode IN ('steer', 'resume')
        AND available_at <= $2
)
FROM threads WHERE claim_token = $1

-- name: list_old_dispatches
SELECT dispatch_id FROM dispatches
WHERE updated_at < $1 AND status NOT IN ('queued', 'claimed')
ORDER BY updated_at LIMIT $2

-- name: delete_dispatch
DELETE FROM dispatches WHERE dispatch_id = $1

-- name: list_old_runs
SELECT runs.run_id, threads.id FROM runs JOIN threads ON threads.no = runs.thread_no
WHERE runs.finished_at IS NOT NULL AND runs.finished_at < $1
    AND runs.run_id <> COALESCE(threads.latest_run_id, '')
ORDER BY runs.finished_at LIMIT $2

-- name: list_old_logs
SELECT id, no FROM threads
WHERE no > $2 AND version > purged_version AND $1 > (
    SELECT committed_at FROM commits
    WHERE place BETWEEN threads.no * 4294967296 AND threads.no * 4294967296 + 4294967295
    ORDER BY place LIMIT 1
)
ORDER BY no LIMIT $3

-- name: list_old_commits
SELECT place, event_seq, committed_at FROM commits
WHERE place BETWEEN $1 AND $2 ORDER BY place LIMIT $3

-- name: save_purged
UPDATE threads SET purged_version = $2, purged_seq = $3 WHERE no = $1

-- name: save_fact
INSERT INTO facts (name, value) VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET value = excluded.value

-- name: find_fact
SELECT value FROM facts WHERE name = $1

-- name: add_fact
INSERT INTO facts (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING

-- name: replace_fact
UPDATE facts SET value = $3 WHERE name = $1 AND value = $2

-- name: find_profile
SELECT value, updated_at FROM profiles WHERE owner = $1 AND name = $2

-- name: save_profile
INSERT INTO profiles (owner, name, value, updated_at) VALUES ($1, $2, $3, $4)
ON CONFLICT (owner, name) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at

-- name: add_profile
INSERT INTO profiles (owner, name, value, updated_at) VALUES ($1, $2, $3, $4)
ON CONFLICT (owner, name) DO NOTHING

-- name: lock_profile
SELECT value FROM profiles WHERE owner = $1 AND name = $2 {for_update}

-- name: delete_profile
DELETE FROM profiles WHERE owner = $1 AND name = $2

-- name: list_profiles
SELECT name, value, updated_at FROM profiles WHERE owner = $1 ORDER BY name

-- name: clear_profiles
DELETE FROM profiles WHERE owner = $1
