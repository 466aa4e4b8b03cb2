"""Waits for the run in which plugins do their work after a run."""

import asyncio

from awaken.contracts.errors import UnknownRun
from awaken.contracts.runs.records import RunResult
from awaken.runtime.loop.follow_ups import make_follow_up_id, make_order_id

from .control import RunControl

PAUSE_S = 0.02
"""Between two looks whether the order to queue it was carried out."""


async def wait_for_follow_up(
    control: RunControl, run_id: str, timeout_ms: int | None = None
) -> RunResult:
    """Wait until the follow-up of a run has ended; the end of the run has ordered it.

    Raises:
        UnknownRun: None was ordered, or its order was given up.
        TimeoutError: It takes longer than `timeout_ms`.
    """
    follow_up_id, store = make_follow_up_id(run_id), control.mailbox.services.store
    async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
        while True:
            # Read first: an order that is gone has been carried out.
            order = await store.find_outbox(make_order_id(follow_up_id))
            try:
                return await control.wait(follow_up_id, timeout_ms)
            except UnknownRun:
                if order is None or order.is_dead:
                    raise
            await asyncio.sleep(PAUSE_S)
