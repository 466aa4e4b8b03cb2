-- name: memory_partition
SELECT no FROM memory_partitions WHERE kind = $1 AND tenant = $2 AND name = $3

-- name: memory_lock_partition
SELECT no FROM memory_partitions WHERE kind = $1 AND tenant = $2 AND name = $3 {for_update}

-- name: memory_add_partition
INSERT INTO memory_partitions (kind, tenant, name) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING

-- name: memory_delete_partition
DELETE FROM memory_partitions WHERE no = $1

-- name: memory_list_partitions
SELECT p.name, count(*) FROM memory_partitions p JOIN memory_items i ON i.partition_no = p.no
WHERE p.kind = $1 AND p.tenant = $2 AND (i.expires_at IS NULL OR i.expires_at > $3) AND (i.position = 0)
GROUP BY p.name ORDER BY p.name

-- name: memory_count
SELECT count(*) FROM memory_items WHERE partition_no = $1

-- name: memory_add_item
INSERT INTO memory_items (partition_no, item_id, group_id, position, digest, expires_at, body)
VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING no

-- name: memory_update_item
UPDATE memory_items SET digest = $2, expires_at = $3, body = $4 WHERE no = $1

-- name: memory_find_digest
SELECT no, item_id, group_id, position, body, expires_at FROM memory_items
WHERE partition_no = $1 AND digest = $2

-- name: memory_find_item
SELECT no, item_id, group_id, position, body FROM memory_items
WHERE partition_no = $1 AND item_id = $2 AND (expires_at IS NULL OR expires_at > $3)

-- name: memory_find_any_item
SELECT no FROM memory_items WHERE partition_no = $1 AND item_id = $2

-- name: memory_list_items
SELECT no, item_id, group_id, position, body FROM memory_items
WHERE partition_no = $1 AND no > $2 AND (expires_at IS NULL OR expires_at > $3)
ORDER BY no LIMIT $4

-- name: memory_list_firsts
SELECT no, item_id, group_id, position, body FROM memory_items
WHERE partition_no = $1 AND no > $2 AND (expires_at IS NULL OR expires_at > $3) AND position = $5
ORDER BY no LIMIT $4

-- name: memory_list_group
SELECT no FROM memory_items WHERE partition_no = $1 AND group_id = $2

-- name: memory_list_all
SELECT no FROM memory_items WHERE partition_no = $1

-- name: memory_list_expired
SELECT no FROM memory_items WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2

-- name: memory_delete_item
DELETE FROM memory_items WHERE no = $1

-- name: memory_save_vector
INSERT INTO memory_vectors (partition_no, item_no, model, vector) VALUES ($1, $2, $3, $4)

-- name: memory_delete_vector
DELETE FROM memory_vectors WHERE item_no = $1

-- name: memory_list_unembedded
SELECT i.no, i.item_id, i.group_id, i.position, i.body, p.kind, p.tenant, p.name
FROM memory_items i JOIN memory_partitions p ON p.no = i.partition_no
WHERE i.no > $2 AND (i.expires_at IS NULL OR i.expires_at > $3) AND NOT EXISTS (
    SELECT 1 FROM memory_vectors v WHERE v.item_no = i.no AND v.model = $1)
ORDER BY i.no LIMIT $4

-- name: memory_count_vectors
SELECT v.model, count(*) FROM memory_items i LEFT JOIN memory_vectors v ON v.item_no = i.no
WHERE i.expires_at IS NULL OR i.expires_at > $1 GROUP BY v.model

-- name: memory_add_mark
INSERT INTO memory_marks (partition_no, mark) VALUES ($1, $2) ON CONFLICT DO NOTHING

-- name: memory_find_mark
SELECT 1 FROM memory_marks WHERE partition_no = $1 AND mark = $2

-- name: memory_delete_marks
DELETE FROM memory_marks WHERE partition_no = $1

-- name: memory_list_marks
SELECT mark FROM memory_marks WHERE partition_no = $1

-- name: memory_delete_mark
DELETE FROM memory_marks WHERE partition_no = $1 AND mark = $2
