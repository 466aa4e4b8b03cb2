"""`awaken cluster`: the nodes that share a store."""

import asyncio

import typer

from awaken.bootstrap.stores import profiles_of
from awaken.contracts.storage.store import Store
from awaken.services.cluster import ClusterNode, ClusterStatus, read_cluster

from .command_context import StoreUrl
from .command_line import new_app
from .output import as_json, print_stderr, print_stdout, table
from .reports import REFUSED, IsJson, report_errors
from .stores import check_exists, store_at

app = new_app("The nodes that share a store.")

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"))


@app.callback()
def cluster() -> None:
    """Show the nodes that share a store."""


@app.command()
def status(*, store_url: StoreUrl = None, is_json: IsJson = False) -> None:
    """Show nodes, queue, claims and sweeps; exits with 1 if something is stuck."""
    with report_errors(is_json=is_json):
        found = asyncio.run(_read(store_at(store_url)))
    print_stdout(as_json(found) if is_json else _format_status(found))
    for problem in found.problems:
        if not is_json:
            print_stderr(f"awaken: {problem.text}")
    if found.is_stuck:
        raise typer.Exit(REFUSED)


async def _read(store: Store) -> ClusterStatus:
    await check_exists(store)
    await store.open()
    try:
        return await read_cluster(store, profiles_of(store))
    finally:
        await store.close()


def _format_status(found: ClusterStatus) -> str:
    head = ("NODE", "KIND", "VERSION", "UP", "RUNS", "CLAIMS", "BEAT", "STATE")
    shown = table(head, (_format_node(it) for it in found.nodes)) if found.nodes else "no nodes"
    queue, claims = found.queue, found.claims
    oldest = "" if queue.oldest_due_ms is None else f" (oldest {_seconds(queue.oldest_due_ms)})"
    lines = [
        f"QUEUE   due {queue.due}{oldest}, delayed {queue.delayed},"
        f" dead letters {queue.dead_letters}",
        f"CLAIMS  {claims.held} held, {claims.of_dead_nodes} of nodes that are over;"
        f" leases per {found.leases}",
    ]
    if found.schema is not None:
        schema = found.schema
        lines.append(f"SCHEMA  {schema.found} (readable from {schema.readable_from})")
    if found.sweep is not None:
        lines.append(f"SWEEP   {_seconds(found.sweep.age_ms)} ago by {found.sweep.by}")
    return "\n".join([shown, "", *lines])


def _format_node(node: ClusterNode) -> tuple[object, ...]:
    return (
        node.address or node.id,
        node.kind,
        node.version,
        _duration(node.up_ms),
        f"{node.busy}/{node.slots}",
        node.claims,
        _seconds(node.beat_ms),
        node.state,
    )


def _seconds(ms: int) -> str:
    return f"{ms / 1000:.1f} s"


def _duration(ms: int) -> str:
    seconds = ms // 1000
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
