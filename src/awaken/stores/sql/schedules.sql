-- The statements of schedules and triggers, by name. `$n` are their arguments, in order.
-- A writer locks the row of the schedule or the trigger before it locks any thread.

-- name: add_schedule
INSERT INTO schedules (schedule_id, tenant_id, agent_id, status, principal_id, wake_at, revision,
    created_at, record)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (schedule_id) DO NOTHING

-- name: find_schedule
SELECT record, revision FROM schedules WHERE schedule_id = $1

-- name: lock_schedule
SELECT revision, claim_token FROM schedules WHERE schedule_id = $1 {for_update}

-- name: save_schedule
UPDATE schedules SET agent_id = $2, status = $3, principal_id = $4, wake_at = $5, revision = $6,
    record = $7, claim_token = NULL, lease_until = NULL
WHERE schedule_id = $1

-- name: delete_schedule
DELETE FROM schedules WHERE schedule_id = $1

-- name: clear_firings
DELETE FROM schedule_firings WHERE schedule_id = $1

-- name: find_next_wake
SELECT wake_at FROM schedules WHERE wake_at IS NOT NULL
AND (principal_id IS NULL OR CAST($1 AS BIGINT) = 1) ORDER BY wake_at LIMIT 1

-- name: list_due_schedules
SELECT schedule_id, record, revision FROM schedules
WHERE wake_at IS NOT NULL AND wake_at <= $1
AND (lease_until IS NULL OR lease_until <= $2 OR lease_until > $3)
AND (principal_id IS NULL OR CAST($4 AS BIGINT) = 1)
ORDER BY wake_at, schedule_id LIMIT $5 {skip_locked}

-- name: lease_schedule
UPDATE schedules SET claim_token = $2, lease_until = $3 WHERE schedule_id = $1

-- name: list_schedules_asc
SELECT record, schedule_id, created_at FROM schedules
WHERE (created_at, schedule_id) > ($1, $2) AND (created_at, schedule_id) < ($3, $4)
AND (CAST($5 AS TEXT) IS NULL OR tenant_id = $5) AND (CAST($6 AS TEXT) IS NULL OR status = $6)
AND (CAST($7 AS TEXT) IS NULL OR agent_id = $7)
ORDER BY created_at, schedule_id LIMIT $8 OFFSET $9

-- name: list_schedules_desc
SELECT record, schedule_id, created_at FROM schedules
WHERE (created_at, schedule_id) > ($1, $2) AND (created_at, schedule_id) < ($3, $4)
AND (CAST($5 AS TEXT) IS NULL OR tenant_id = $5) AND (CAST($6 AS TEXT) IS NULL OR status = $6)
AND (CAST($7 AS TEXT) IS NULL OR agent_id = $7)
ORDER BY created_at DESC, schedule_id DESC LIMIT $8 OFFSET $9

-- name: count_schedules
SELECT COUNT(*) FROM schedules
WHERE (created_at, schedule_id) > ($1, $2) AND (created_at, schedule_id) < ($3, $4)
AND (CAST($5 AS TEXT) IS NULL OR tenant_id = $5) AND (CAST($6 AS TEXT) IS NULL OR status = $6)
AND (CAST($7 AS TEXT) IS NULL OR agent_id = $7)

-- name: add_firing
INSERT INTO schedule_firings (firing_id, schedule_id, due_at, outcome, fired_at, record)
VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (firing_id) DO NOTHING

-- name: has_firing
SELECT 1 FROM schedule_firings WHERE firing_id = $1

-- name: list_firings_asc
SELECT record, firing_id, due_at FROM schedule_firings
WHERE (due_at, firing_id) > ($1, $2) AND (due_at, firing_id) < ($3, $4) AND schedule_id = $5
AND (CAST($6 AS TEXT) IS NULL OR outcome = $6)
ORDER BY due_at, firing_id LIMIT $7 OFFSET $8

-- name: list_firings_desc
SELECT record, firing_id, due_at FROM schedule_firings
WHERE (due_at, firing_id) > ($1, $2) AND (due_at, firing_id) < ($3, $4) AND schedule_id = $5
AND (CAST($6 AS TEXT) IS NULL OR outcome = $6)
ORDER BY due_at DESC, firing_id DESC LIMIT $7 OFFSET $8

-- name: count_firings
SELECT COUNT(*) FROM schedule_firings
WHERE (due_at, firing_id) > ($1, $2) AND (due_at, firing_id) < ($3, $4) AND schedule_id = $5
AND (CAST($6 AS TEXT) IS NULL OR outcome = $6)

-- name: purge_firings
DELETE FROM schedule_firings WHERE firing_id IN (
    SELECT firing_id FROM schedule_firings WHERE fired_at < $1 ORDER BY fired_at LIMIT $2)

-- name: add_trigger
INSERT INTO triggers (trigger_id, tenant_id, agent_id, revision, created_at, record)
VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (trigger_id) DO NOTHING

-- name: find_trigger
SELECT record, revision FROM triggers WHERE trigger_id = $1

-- name: lock_trigger
SELECT record, revision FROM triggers WHERE trigger_id = $1 {for_update}

-- name: save_trigger
UPDATE triggers SET agent_id = $2, revision = $3, record = $4 WHERE trigger_id = $1

-- name: delete_trigger
DELETE FROM triggers WHERE trigger_id = $1

-- name: clear_deliveries
DELETE FROM trigger_deliveries WHERE trigger_id = $1

-- name: list_triggers_asc
SELECT record, trigger_id, created_at FROM triggers
WHERE (created_at, trigger_id) > ($1, $2) AND (created_at, trigger_id) < ($3, $4)
AND (CAST($5 AS TEXT) IS NULL OR tenant_id = $5) AND (CAST($6 AS TEXT) IS NULL OR agent_id = $6)
ORDER BY created_at, trigger_id LIMIT $7 OFFSET $8

-- name: list_triggers_desc
SELECT record, trigger_id, created_at FROM triggers
WHERE (created_at, trigger_id) > ($1, $2) AND (created_at, trigger_id) < ($3, $4)
AND (CAST($5 AS TEXT) IS NULL OR tenant_id = $5) AND (CAST($6 AS TEXT) IS NULL OR agent_id = $6)
ORDER BY created_at DESC, trigger_id DESC LIMIT $7 OFFSET $8

-- name: count_triggers
SELECT COUNT(*) FROM triggers
WHERE (created_at, trigger_id) > ($1, $2) AND (created_at, trigger_id) < ($3, $4)
AND (CAST($5 AS TEXT) IS NULL OR tenant_id = $5) AND (CAST($6 AS TEXT) IS NULL OR agent_id = $6)

-- name: add_delivery
INSERT INTO trigger_deliveries (trigger_id, delivery_id, digest, outcome, received_at, record)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (trigger_id, delivery_id) DO UPDATE SET digest = excluded.digest,
    outcome = excluded.outcome, received_at = excluded.received_at, record = excluded.record

-- name: find_delivery
SELECT record, delivery_id FROM trigger_deliveries WHERE trigger_id = $1 AND delivery_id = $2

-- name: find_delivered_digest
SELECT record, delivery_id FROM trigger_deliveries
WHERE trigger_id = $1 AND digest = $2 AND outcome <> 'refused' LIMIT 1

-- name: list_deliveries_asc
SELECT record, delivery_id, received_at FROM trigger_deliveries
WHERE (received_at, delivery_id) > ($1, $2) AND (received_at, delivery_id) < ($3, $4)
AND trigger_id = $5 AND (CAST($6 AS TEXT) IS NULL OR outcome = $6)
ORDER BY received_at, delivery_id LIMIT $7 OFFSET $8

-- name: list_deliveries_desc
SELECT record, delivery_id, received_at FROM trigger_deliveries
WHERE (received_at, delivery_id) > ($1, $2) AND (received_at, delivery_id) < ($3, $4)
AND trigger_id = $5 AND (CAST($6 AS TEXT) IS NULL OR outcome = $6)
ORDER BY received_at DESC, delivery_id DESC LIMIT $7 OFFSET $8

-- name: count_deliveries
SELECT COUNT(*) FROM trigger_deliveries
WHERE (received_at, delivery_id) > ($1, $2) AND (received_at, delivery_id) < ($3, $4)
AND trigger_id = $5 AND (CAST($6 AS TEXT) IS NULL OR outcome = $6)

-- name: purge_deliveries
DELETE FROM trigger_deliveries WHERE received_at < $1 AND (trigger_id, delivery_id) IN (
    SELECT trigger_id, delivery_id FROM trigger_deliveries WHERE received_at < $1
    ORDER BY received_at LIMIT $2)
