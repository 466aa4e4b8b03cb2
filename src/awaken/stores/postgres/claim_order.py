"""In which order Postgres hands out work: by agent, and in fair shares over tenants.

Each probe is one step in an index, and there is one for each agent of the worker and each tenant
that waits for it; what waits for other agents, or until later, is never read.
"""

from collections.abc import Collection, Mapping, Sequence

import msgspec

from awaken.contracts.storage.mailbox import EVERY_TENANT, TenantLimits
from awaken.stores.sql.claims import join_names
from awaken.stores.sql.session import Row, SqlSession

from .texts import STATEMENTS, THREAD

_FREE = "turn_at IS NOT NULL AND claim_token IS NULL"
_READY = f"{_FREE} AND due_at = 0"
_LATER = f"{_FREE} AND due_at > 0"
_AGENT, _LANE = "COALESCE(head_agent, '')", "COALESCE(tenant_id, '')"
# A blank agent: the head does not know its agent, and every worker may take it.
_ASKED = (
    "SELECT replace(replace(named, '%7C', '|'), '%25', '%') AS agent"
    " FROM unnest(string_to_array(btrim({known}::text, '|'), '|') || ARRAY[''])"
    " AS named WHERE {known} IS NOT NULL"
)
_BUSY_MAX = 500
"""How many claims of a tenant are counted; beyond it tenants are alike."""


def _list_agents(name: str, where: str, known: str) -> str:
    """Every agent that some head waits for, one index step for each; none if some are named."""
    return (
        f"{name} (agent) AS ((SELECT {_AGENT} FROM threads WHERE {where} AND {known}::text IS NULL"
        f" ORDER BY {_AGENT} LIMIT 1) UNION ALL SELECT next.agent FROM {name}, LATERAL"
        f" (SELECT {_AGENT} AS agent FROM threads WHERE {where} AND {_AGENT} > {name}.agent"
        f" ORDER BY {_AGENT} LIMIT 1) AS next)"
    )


def _name_agents(known: str) -> str:
    asked = _ASKED.format(known=known)
    ready = _list_agents("ready_agents", _READY, known)
    later = _list_agents("later_agents", _LATER, known)
    return f"asked AS ({asked}), {ready}, {later}"


_READY_AGENTS = "(SELECT agent FROM asked UNION SELECT agent FROM ready_agents) AS named"
_LATER_AGENTS = "(SELECT agent FROM asked UNION SELECT agent FROM later_agents) AS named"


def _list_lanes(name: str, where: str, agents: str) -> str:
    """Every tenant that has a head for an agent, one index step for each."""
    return (
        f"{name} (agent, lane) AS (SELECT named.agent, first.lane FROM {agents}, LATERAL"
        f" (SELECT {_LANE} AS lane FROM threads WHERE {where} AND {_AGENT} = named.agent"
        f" ORDER BY {_LANE} LIMIT 1) AS first UNION ALL SELECT {name}.agent, next.lane"
        f" FROM {name}, LATERAL (SELECT {_LANE} AS lane FROM threads WHERE {where}"
        f" AND {_AGENT} = {name}.agent AND {_LANE} > {name}.lane ORDER BY {_LANE} LIMIT 1) AS next)"
    )


_FIND_DUE = f"""
WITH RECURSIVE {_name_agents("$2")}
SELECT 1 FROM {_READY_AGENTS}, LATERAL (
    SELECT 1 FROM threads WHERE {_READY} AND {_AGENT} = named.agent LIMIT 1) AS first
UNION ALL
SELECT 1 FROM {_LATER_AGENTS}, LATERAL (
    SELECT 1 FROM threads WHERE {_LATER} AND {_AGENT} = named.agent AND due_at <= $1 LIMIT 1
) AS first
LIMIT 1
"""

# More candidates than are wanted: other workers may have locked the first ones.
_CANDIDATES = f"""
{_list_lanes("lanes", _READY, _READY_AGENTS)},
{_list_lanes("later_lanes", _LATER, _LATER_AGENTS)},
candidates AS (
    SELECT head.* FROM lanes, LATERAL (
        SELECT no, lanes.lane, head_priority, turn_at, head_no FROM threads
        WHERE {_READY} AND {_AGENT} = lanes.agent AND {_LANE} = lanes.lane
        ORDER BY head_priority, turn_at, head_no LIMIT $2 * 4 + 16) AS head
    UNION ALL
    SELECT head.* FROM later_lanes AS lanes, LATERAL (
        SELECT no, lanes.lane, head_priority, turn_at, head_no FROM threads
        WHERE {_LATER} AND {_AGENT} = lanes.agent AND {_LANE} = lanes.lane AND due_at <= $1
        ORDER BY due_at LIMIT $2 * 4 + 16) AS head
)"""
# Each is locked by itself, in their order, until there are enough: a join could read and lock
# others. The last order is that of the candidates, so nothing is sorted for it, and no more are
# locked than are wanted. A locked row is returned as `lock_thread` returns it: it is the newest,
# and stays as it is.
_LOCKED = f"""
SELECT locked.* FROM (
    SELECT no, head_priority, share, turn_at, head_no FROM ranked
    ORDER BY head_priority, share, turn_at, head_no
    LIMIT $2 * 4 + 16) AS first,
LATERAL (
    SELECT t.id, t.head_agent, {THREAD} FROM threads t WHERE t.no = first.no AND {_FREE}
        AND t.due_at <= $1
    FOR UPDATE SKIP LOCKED) AS locked
ORDER BY first.head_priority, first.share, first.turn_at, first.head_no
LIMIT $2
"""

# By the index of threads that wait until later: most of them were served before now.
_LOOK_AGAIN = f"UPDATE threads SET due_at = 0 WHERE {_LATER} AND served_at > $1 AND due_at > $1"


def _count_claims(most: str) -> str:
    # Claims of tenants have an index, the others are found among all claims.
    return (
        "(SELECT count(*) FROM (SELECT 1 FROM threads WHERE claim_token IS NOT NULL"
        " AND tenant_id = waiting.lane AND waiting.lane <> '' UNION ALL SELECT 1 FROM threads"
        f" WHERE claim_token IS NOT NULL AND {_LANE} = '' AND waiting.lane = ''"
        f" LIMIT {most}) AS held) AS claims"
    )


_LIST_DUE = f"""
WITH RECURSIVE {_name_agents("$3")},{_CANDIDATES},
busy AS (
    SELECT lane, {_count_claims(str(_BUSY_MAX))}
    FROM (SELECT DISTINCT lane FROM candidates) AS waiting
),
ranked AS (
    SELECT no, head_priority, turn_at, head_no, busy.claims + row_number() OVER (
        PARTITION BY lane ORDER BY head_priority, turn_at, head_no) AS share
    FROM candidates JOIN busy USING (lane)
)
{_LOCKED}"""

# The same where tenants have limits, which come as JSON: those of a lane itself, or of '*'. A lane
# that has all it may have is left out, and so is the part of its heads that is too much.
_SHARES = f"""
WITH RECURSIVE {_name_agents("$3")},{_CANDIDATES},
limits AS (
    SELECT key AS lane, (value->>'max_busy')::bigint AS max_busy,
        (value->>'weight')::bigint AS weight
    FROM jsonb_each($4::text::jsonb)
),
bounds AS (
    SELECT waiting.lane, found.max_busy, COALESCE(found.weight, 100) AS weight
    FROM (SELECT DISTINCT lane FROM candidates) AS waiting LEFT JOIN LATERAL (
        SELECT max_busy, weight FROM limits WHERE waiting.lane <> ''
            AND limits.lane IN (waiting.lane, '{EVERY_TENANT}')
        ORDER BY limits.lane = waiting.lane DESC LIMIT 1) AS found ON true
),
busy AS (
    SELECT lane, max_busy, weight, {_count_claims(f"GREATEST({_BUSY_MAX}, waiting.max_busy)")}
    FROM bounds AS waiting
),
places AS (
    SELECT no, lane, head_priority, turn_at, head_no, max_busy, weight,
        busy.claims + row_number() OVER (
            PARTITION BY lane ORDER BY head_priority, turn_at, head_no) AS place
    FROM candidates JOIN busy USING (lane)
),
"""
# The counts of a statement are those of its beginning, so a claimer that counts to decide must own
# the lane before: of two that count at once, one leaves the lane out. Only lanes that are next.
_HOLD_LANES = f"""{_SHARES}
next AS MATERIALIZED (
    SELECT DISTINCT lane FROM (
        SELECT lane, max_busy FROM places WHERE max_busy IS NULL OR place <= max_busy
        ORDER BY head_priority, place::float8 / weight, turn_at, head_no
        LIMIT $2 * 4 + 16) AS first
    WHERE max_busy IS NOT NULL
)
SELECT lane FROM next
WHERE pg_try_advisory_xact_lock(hashtextextended('{{schema}} lane ' || lane, 0))
"""
_LIST_SHARED_DUE = f"""{_SHARES}
ranked AS (
    SELECT no, head_priority, turn_at, head_no, place::float8 / weight AS share FROM places
    WHERE max_busy IS NULL OR (place <= max_busy AND lane = ANY($5::text[]))
)
{_LOCKED}"""

STATEMENTS.update(
    {
        "list_due": _LIST_DUE.strip(),
        "find_due": _FIND_DUE.strip(),
        "look_again": _LOOK_AGAIN,
        "hold_lanes": _HOLD_LANES.strip(),
        "list_shared_due": _LIST_SHARED_DUE.strip(),
    }
)


async def list_shared_due(
    session: SqlSession,
    now_ms: int,
    limit: int,
    agents: Collection[str] | None,
    tenants: Mapping[str, TenantLimits],
) -> Sequence[Row]:
    """List what is due in the shares and within the limits of tenants.

    Weights cost nothing more; a limit of claims costs one statement.
    """
    asked = (now_ms, limit, join_names(agents), _encode_limits(tenants))
    lanes: list[str] = []
    if any(it.max_busy is not None for it in tenants.values()):
        lanes = [row[0] for row in await session.all("hold_lanes", *asked)]
    return await session.all("list_shared_due", *asked, lanes)


def _encode_limits(tenants: Mapping[str, TenantLimits]) -> str:
    limits = {name: {"max_busy": it.max_busy, "weight": it.weight} for name, it in tenants.items()}
    return msgspec.json.encode(limits).decode()
