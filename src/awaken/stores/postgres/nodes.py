"""Nodes in Postgres: one row for each process, which all its claims depend on."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from awaken.contracts.record import EMPTY
from awaken.contracts.storage.dispatch import LeaseReport, RunDispatch
from awaken.contracts.storage.mailbox import SWEEP_TURN
from awaken.contracts.storage.nodes import (
    CLAIM_LEASES,
    LiveNode,
    NodeBeat,
    NodeFigures,
    NodeRecord,
    NodeReport,
    Survey,
)
from awaken.stores.sql import claims
from awaken.stores.sql.migrations import migrations
from awaken.stores.sql.session import Database, SqlSession

from .connection import Connection
from .queue_figures import read_queue
from .survey import KEPT_MS, TAKE_TURN, survey
from .texts import NOW, STATEMENTS

_HAS_INPUT = (
    "CASE WHEN t.queued > 0 THEN EXISTS (SELECT 1 FROM dispatches d WHERE d.thread_no = t.no"
    " AND d.status = 'queued' AND d.mode IN ('steer', 'resume')"
    f" AND d.available_at <= {NOW}) ELSE false END"
)
_BEGIN = (
    "INSERT INTO nodes (node_id, kind, version, host, pid, schema_no, started_at, beat_at,"
    " lease_until, slots, busy, agents, is_draining)"
    " SELECT $1::text, $2::text, $3::text, $4::text, $5::bigint, $6::bigint, n, n, n + $7::bigint,"
    " $8::bigint, $9::bigint, $10::text, $11::boolean"
    f" FROM (SELECT {NOW} AS n) AS clock ON CONFLICT (node_id) DO NOTHING"
)
_BEGIN_ANEW = f"WITH ended AS (UPDATE nodes SET is_over = true WHERE node_id = $12) {_BEGIN}"
# One round trip, whatever the node executes. The parts see the rows as they were before: what the
# node says of itself is not among the live ones.
_BEAT = (
    "UPDATE nodes SET beat_at = n, lease_until = n + $2::bigint, slots = $3, busy = $4,"
    f" agents = $5, is_draining = $6, kind = $7 FROM (SELECT {NOW} AS n) AS clock"
    " WHERE node_id = $1 AND NOT is_over RETURNING 1"
)
_CLAIMS = (
    f"SELECT t.claim_token, t.cancel_cause, {_HAS_INPUT} AS has_input FROM threads t"
    " WHERE t.claimed_by = $1 AND t.claim_token IS NOT NULL"
)
_LOOK = (
    f"SELECT t.claim_token, t.cancel_cause, {_HAS_INPUT} FROM threads t"
    " WHERE t.claim_token = ANY($1::text[])"
)
# A thread that a commit has locked is left for the next time, long before its lease ends. Not those
# that were confirmed lately: short runs are never written again.
_CONFIRM = (
    f"UPDATE threads SET lease_until = {NOW} + $9::bigint WHERE no IN (SELECT no FROM threads"
    " WHERE claimed_by = $1 AND claim_token = ANY($8::text[])"
    f" AND lease_until < {NOW} + $9::bigint - $10::bigint FOR UPDATE SKIP LOCKED)"
    " AND EXISTS (SELECT 1 FROM beat)"
)
# A thread that a commit has locked is not forgotten.
_FREE = (
    "UPDATE threads SET lease_until = 0 WHERE no IN (SELECT no FROM threads"
    " WHERE claimed_by = $1 AND claim_token = ANY($2::text[]) FOR UPDATE SKIP LOCKED)"
)
_LIVE = (
    "SELECT node_id, slots - busy AS room, agents FROM nodes WHERE NOT is_over"
    f" AND NOT is_draining AND slots > 0 AND lease_until > {NOW} AND node_id <> $1"
)
_ANSWER = (
    "SELECT (SELECT count(*) FROM beat), held.*, live.* FROM (SELECT array_agg(claim_token),"
    f" array_agg(cancel_cause), array_agg(has_input) FROM ({_CLAIMS}) AS claim) AS held,"
    " (SELECT array_agg(node_id), array_agg(room), array_agg(agents)"
    f" FROM ({_LIVE}) AS node) AS live"
)
_RENEW = f"WITH beat AS ({_BEAT}) {_ANSWER}"
_RENEW_AND_CONFIRM = f"WITH beat AS ({_BEAT}), confirmed AS ({_CONFIRM}) {_ANSWER}"

STATEMENTS.update(
    {
        "node_begin": _BEGIN,
        "node_end": "UPDATE nodes SET is_over = true WHERE node_id = $1",
        "node_expire_own": (
            "UPDATE threads SET lease_until = 0 WHERE claimed_by = $1 AND claim_token IS NOT NULL"
        ),
        "node_list_living": "SELECT node_id FROM nodes WHERE NOT is_over",
        "node_declare_over": (
            "UPDATE nodes SET is_over = true WHERE node_id IN (SELECT node_id FROM nodes"
            " WHERE NOT is_over AND lease_until <= $1 FOR UPDATE SKIP LOCKED)"
        ),
        # Each time anew: a node that does not know yet that it is over may still claim threads.
        # What lasts longer than a claim of the node can is a damaged thread, which is left alone.
        "node_expire_claims": (
            "UPDATE threads SET lease_until = 0 WHERE no IN (SELECT t.no FROM nodes n"
            " JOIN threads t ON t.claimed_by = n.node_id AND t.claim_token IS NOT NULL"
            " WHERE n.is_over AND t.lease_until > 0 AND (t.lease_until <= $1 +"
            f" greatest({CLAIM_LEASES} * (n.lease_until - n.beat_at), {claims.DAMAGED_MS // 2})"
            f" OR t.lease_until > $1 + {claims.DAMAGED_MS}) FOR UPDATE OF t SKIP LOCKED)"
        ),
        # The nodes that are over have lost their claims already.
        "list_claim_holders": (
            "SELECT DISTINCT claimed_by FROM threads WHERE claim_token IS NOT NULL"
            " AND lease_until > $1"
            " AND claimed_by NOT IN (SELECT node_id FROM nodes WHERE is_over)"
        ),
        "node_forget": (
            "DELETE FROM nodes WHERE is_over AND beat_at < $1 AND NOT EXISTS (SELECT 1 FROM threads"
            " WHERE claimed_by = node_id AND claim_token IS NOT NULL)"
        ),
        "node_take_turn": TAKE_TURN,
        "node_find_turn": "SELECT taken_at, taken_by FROM turns WHERE name = $1",
        "node_list": (
            "SELECT node_id, kind, version, host, pid, schema_no, started_at, beat_at, lease_until,"
            " slots, busy, agents, is_draining, is_over, (SELECT count(*) FROM threads"
            " WHERE claimed_by = node_id AND claim_token IS NOT NULL)"
            " FROM nodes ORDER BY is_over, started_at, node_id"
        ),
        "node_unlisted": (
            "SELECT claimed_by, count(*) FROM threads WHERE claim_token IS NOT NULL AND"
            " NOT EXISTS (SELECT 1 FROM nodes WHERE node_id = claimed_by) GROUP BY claimed_by"
        ),
    }
)


class PostgresNodes:
    """The part of the store that knows the processes which share it."""

    _database: Database

    async def begin_node(self, node: NodeReport, lease_ms: int) -> None:
        """Write the row of a node, which makes its claims valid as long as it beats."""

        async def work(session: SqlSession) -> None:
            await session.run("node_begin", *_first_row(node, lease_ms))

        await self._database.write(work)

    async def end_node(self, node_id: str) -> None:
        """Declare a node over that stops; claims that it still has are taken back at once."""

        async def work(session: SqlSession) -> None:
            await session.run("node_end", node_id)
            await session.run("node_expire_own", node_id)

        await self._database.write(work)

    async def take_turn(self, name: str, node_id: str, every_ms: int) -> bool:
        """Whether this node does a work that one node at a time does, at most once in a while."""

        async def work(session: SqlSession) -> bool:
            return bool(await session.run("node_take_turn", name, node_id, every_ms))

        return await self._database.write_row(work)

    async def survey(self, node_id: str, every_ms: int, pause_max_ms: int) -> Survey:
        """Take the turn of sweeping, if it is free, and find what there is to do."""
        return await self._database.write_row(
            partial(survey, node_id=node_id, every_ms=every_ms, pause_max_ms=pause_max_ms)
        )

    async def read_nodes(self, max_busy: Mapping[str, int] = EMPTY) -> NodeFigures:
        """Read all nodes, their claims and what waits in the queue."""
        return await self._database.read(partial(_read_nodes, max_busy=max_busy))

    async def reclaim(
        self, limit: int = 100, is_gone: Callable[[str], bool] | None = None
    ) -> tuple[RunDispatch, ...]:
        """Take back the claims of nodes that are over, and claims whose own lease has run out."""
        return await self._database.write(partial(_reclaim, limit=limit, is_gone=is_gone))


async def _reclaim(
    session: SqlSession, limit: int, is_gone: Callable[[str], bool] | None
) -> tuple[RunDispatch, ...]:
    now = (await session.now()).lease_ms
    if is_gone is not None:
        for (node_id,) in map(tuple, await session.all("node_list_living")):
            if is_gone(node_id):
                await session.run("node_end", node_id)
    await session.run("node_declare_over", now)
    await session.run("node_expire_claims", now)
    await session.run("node_forget", now - KEPT_MS)
    return await claims.reclaim(session, limit, is_gone)


async def _read_nodes(session: SqlSession, max_busy: Mapping[str, int]) -> NodeFigures:
    now = (await session.now()).wall_ms
    nodes = [
        NodeRecord(
            node_id=row[0],
            kind=row[1],
            version=row[2],
            host=row[3],
            pid=row[4],
            schema_no=row[5],
            started_at=row[6],
            beat_at=row[7],
            lease_until=row[8],
            slots=row[9],
            busy=row[10],
            agents=_decode_agents(row[11]),
            is_draining=row[12],
            is_over=row[13],
            claims=row[14],
        )
        for row in await session.all("node_list")
    ]
    turn = await session.one("node_find_turn", SWEEP_TURN)
    return NodeFigures(
        at=now,
        nodes=tuple(nodes),
        queue=await read_queue(session, now, max_busy),
        swept_at=None if turn is None else turn[0],
        swept_by=None if turn is None else turn[1],
        unlisted={row[0]: row[1] for row in await session.all("node_unlisted")},
    )


async def begin_anew(connection: Connection, node: NodeReport, lease_ms: int, before: str) -> None:
    """Write the row of a node that had another id; see `NodeKeeper.begin_anew`."""
    await connection.execute(_BEGIN_ANEW, *_first_row(node, lease_ms), before)


async def free(connection: Connection, node_id: str, tokens: Sequence[str]) -> None:
    """Let claims run out now; see `NodeKeeper.free`."""
    await connection.execute(_FREE, node_id, tokens)


async def beat(
    connection: Connection, node: NodeReport, lease_ms: int, confirmed: Sequence[str] | None
) -> NodeBeat:
    """Renew the lease of a node; see `NodeKeeper.beat`."""
    load = (node.slots, node.busy, _encode_agents(node.agents), node.is_draining, node.kind)
    text, args = _RENEW, list[Any]([node.node_id, lease_ms, *load])
    if confirmed:
        claim_ms = CLAIM_LEASES * lease_ms
        text, args = _RENEW_AND_CONFIRM, [*args, confirmed, claim_ms, claim_ms // 4]
    renewed, *columns = await connection.fetchrow(text, *args)
    if not renewed:
        return NodeBeat(is_over=True)
    tokens, causes, inputs, ids, rooms, agents = (it or () for it in columns)
    leases = _read_leases(list(zip(tokens, causes, inputs, strict=True)))
    live = [
        LiveNode(node_id=node_id, room=room, agents=_decode_agents(served))
        for node_id, room, served in zip(ids, rooms, agents, strict=True)
    ]
    if node.slots > 0 and not node.is_draining:
        room = node.slots - node.busy
        live.append(LiveNode(node_id=node.node_id, room=room, agents=node.agents))
    return NodeBeat(leases=leases, live=tuple(live))


async def look(connection: Connection, tokens: Sequence[str]) -> tuple[LeaseReport, ...]:
    """Report on some claims; see `NodeKeeper.look`."""
    found = {it.claim_token: it for it in _read_leases(await connection.fetch(_LOOK, tokens))}
    return tuple(found.get(it) or LeaseReport(claim_token=it, is_held=False) for it in tokens)


def _read_leases(rows: Sequence[Any]) -> tuple[LeaseReport, ...]:
    return tuple(
        LeaseReport(claim_token=row[0], cancel_cause=row[1], has_input=row[2]) for row in rows
    )


def _first_row(node: NodeReport, lease_ms: int) -> tuple[Any, ...]:
    return (
        node.node_id,
        node.kind,
        node.version,
        node.host,
        node.pid,
        len(migrations(__package__)),
        lease_ms,
        node.slots,
        node.busy,
        _encode_agents(node.agents),
        node.is_draining,
    )


def _encode_agents(agents: tuple[str, ...] | None) -> str | None:
    return None if agents is None else msgspec.json.encode(agents).decode()


def _decode_agents(text: str | None) -> tuple[str, ...] | None:
    """Read which agents a node serves; none if its row is damaged, or of a later form.

    One row that cannot be read must not keep other nodes from their leases.
    """
    try:
        return None if text is None else msgspec.json.decode(text, type=tuple[str, ...])
    except msgspec.DecodeError:
        return ()
