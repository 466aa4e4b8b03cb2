"""A process that fires schedules of a store until it is killed. Its clock jumps as a file says.

`python -m tests.torture.due_times_node STORE_URL JUMP_FILE`
"""

import asyncio
import sys
from pathlib import Path

from awaken.bootstrap.node import Node
from awaken.bootstrap.scheduling import build_operator_scheduling
from awaken.contracts.storage.dispatch import DispatchStatus
from awaken.contracts.storage.queries import DispatchQuery
from awaken.contracts.storage.store import Store
from awaken.mailbox.config import MailboxConfig
from awaken.runtime.primitives.system import SystemClock, Uuid7Source
from awaken.stores.postgres import PostgresStore
from awaken.stores.sql.session import Moment
from awaken.stores.sqlite import SqliteStore
from awaken.stores.sqlite.clock import moment


def open_store(url: str, file: Path) -> Store:
    """Make a store whose wall clock is off by as many milliseconds as a file says."""
    if not url.startswith("sqlite:///"):
        server, _, schema = url.partition("#")
        return PostgresStore(server, schema=schema)

    def read_clock() -> Moment:
        now = moment()
        offset = int(file.read_text() or 0)
        return Moment(wall_ms=now.wall_ms + offset, lease_ms=now.lease_ms)

    return SqliteStore(url.removeprefix("sqlite:///"), read_clock)


async def main(url: str, file: Path) -> None:
    """Fire what is due, and look again as fast as the test wants to see it."""
    node = Node(open_store(url, file), SystemClock(), Uuid7Source(), MailboxConfig(), None)
    await node.open()
    scheduling = build_operator_scheduling(node.store, node.mailbox.services)
    print("ready", flush=True)
    while True:
        await scheduling.firer.fire_due()
        # No worker runs here: what was fired is over at once, so that nothing overlaps.
        queued = DispatchQuery(status=DispatchStatus.QUEUED, limit=200)
        for dispatch in (await node.store.list_dispatches(queued)).items:
            await node.store.cancel_dispatch(dispatch.dispatch_id)
        await asyncio.sleep(0.01)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
