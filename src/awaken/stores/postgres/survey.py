"""What there is to do because time has passed: one statement for all that an idle node would ask.

Each part is a probe of an index, so an idle store answers with a few pages, however large it is.
Where `EXISTS` would read a table until it meets a row, an order leads to the index.
"""

from awaken.contracts.state.profile import OPEN_EVALS
from awaken.contracts.storage.mailbox import SWEEP_TURN
from awaken.contracts.storage.nodes import Survey
from awaken.contracts.storage.usage import SETTLE_MS
from awaken.stores.sql.session import SqlSession
from awaken.stores.sql.usage import CURSOR

from .session import PostgresSession
from .texts import NOW, STATEMENTS

KEPT_MS = 600_000
"""How long a node that is over stays listed; longer than any claim of it can last."""
TAKE_TURN = (
    f"INSERT INTO turns (name, taken_at, taken_by) SELECT $1::text, {NOW}, $2::text"
    " ON CONFLICT (name) DO UPDATE SET taken_at = excluded.taken_at,"
    " taken_by = excluded.taken_by WHERE turns.taken_at <= excluded.taken_at - $3::bigint"
    # The clock of the server was set back.
    " OR turns.taken_at > excluded.taken_at"
)
_LATER = "turn_at IS NOT NULL AND claim_token IS NULL AND due_at > 0"
_AGENT = "COALESCE(head_agent, '')"

_SURVEY = f"""
WITH RECURSIVE turn AS ({TAKE_TURN} RETURNING 1),
clock AS MATERIALIZED (SELECT {NOW} AS now),
later (agent, due_at) AS (
    (SELECT {_AGENT}, due_at FROM threads WHERE {_LATER} ORDER BY {_AGENT}, due_at LIMIT 1)
    UNION ALL SELECT next.agent, next.due_at FROM later, LATERAL (
        SELECT {_AGENT} AS agent, due_at FROM threads
        WHERE {_LATER} AND {_AGENT} > later.agent ORDER BY {_AGENT}, due_at LIMIT 1) AS next
),
counted AS MATERIALIZED (
    SELECT COALESCE(split_part(min(value), ' ', 1)::bigint, -1) AS at,
        COALESCE(substr(min(value), strpos(min(value), ' ') + 1), '') AS run_id
    FROM facts WHERE name = $4::text
)
SELECT now,
    EXISTS (SELECT 1 FROM turn),
    ARRAY(SELECT node_id FROM nodes WHERE NOT is_over),
    EXISTS (SELECT 1 FROM nodes WHERE NOT is_over AND lease_until <= now
            OR is_over AND beat_at < now - {KEPT_MS})
    OR EXISTS (SELECT 1 FROM nodes n WHERE n.is_over AND EXISTS (
            SELECT 1 FROM threads t WHERE t.claimed_by = n.node_id AND t.claim_token IS NOT NULL))
    OR EXISTS (SELECT 1 FROM threads WHERE claim_token IS NOT NULL AND lease_until <= now),
    (SELECT min(expires_at) FROM tickets WHERE status = 'open' AND expires_at IS NOT NULL),
    (SELECT min(due_at) FROM later),
    (SELECT min(wake_at) FROM schedules WHERE wake_at IS NOT NULL),
    (SELECT 1 FROM runs WHERE agent_id IS NULL ORDER BY created_at, run_id LIMIT 1) IS NOT NULL,
    (SELECT 1 FROM runs WHERE finished_at IS NOT NULL AND finished_at <= now - {SETTLE_MS}
        AND (finished_at, run_id) > ((SELECT at FROM counted), (SELECT run_id FROM counted))
        ORDER BY finished_at, run_id LIMIT 1) IS NOT NULL,
    EXISTS (SELECT 1 FROM outbox WHERE is_dead = 0
            AND (due_at <= now OR due_at > now + $5::bigint)),
    EXISTS (SELECT 1 FROM profiles WHERE owner = $6::text AND name = $6::text)
FROM clock
"""
STATEMENTS["node_survey"] = _SURVEY.strip()


async def survey(session: SqlSession, node_id: str, every_ms: int, pause_max_ms: int) -> Survey:
    """Take the turn of sweeping, if it is free, and find what there is to do."""
    row = await session.one(
        "node_survey", SWEEP_TURN, node_id, every_ms, CURSOR, pause_max_ms, OPEN_EVALS
    )
    assert row is not None
    assert isinstance(session, PostgresSession)
    now = row[0]
    session.set_clock(now)
    deadline_ms, due_ms, wake_ms = (None if at is None else at - now for at in row[4:7])
    return Survey(
        is_turn=row[1],
        living=tuple(row[2]),
        has_lost_claims=row[3],
        deadline_ms=deadline_ms,
        due_ms=due_ms,
        wake_ms=wake_ms,
        has_unfilled_runs=row[7],
        has_uncounted_runs=row[8],
        has_orders=row[9],
        has_evals=row[10],
    )
