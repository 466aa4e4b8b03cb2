"""Writes the golden store of decisions: `python tests/golden/write_decisions.py`.

It holds tickets in every stage in which a process can leave them: open, decided with the
continuation queued, and decided for a run that another process executes (approved, declined, and
cancelled with its run). It is written once for a release, kept for ever, and resumed by the tests
of every later version.
"""

import asyncio
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType

from write_golden import CONFIG, GOLDEN, MOMENT, PATIENCE_S, copy, load_app, of_no_machine

from awaken import AgentRuntime, __version__
from awaken.buses.memory import MemoryBus
from awaken.contracts.lifecycle import RunStatus
from awaken.contracts.storage.store import Store
from awaken.contracts.suspension.tickets import DecisionAction, Ticket, ToolCallResume
from awaken.mailbox.mailbox import Mailbox
from awaken.stores.sqlite.store import SqliteStore
from awaken.testing import FakeClock, SequentialIds

BESIDE = {
    "beside-approved": DecisionAction.RESUME,
    "beside-declined": DecisionAction.CANCEL,
    "beside-cancelled": None,
}
"""Runs that another process executes when they are decided, or cancelled."""


def main() -> None:
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else GOLDEN / __version__ / "decisions.db"
    app = load_app(GOLDEN / __version__ / "decisions_app.py")
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        for patched in of_no_machine():
            stack.enter_context(patched)
        asyncio.run(write(app, Path(folder) / "store.db", target))
    print(f"{target}: {target.stat().st_size} bytes")


async def write(app: ModuleType, source: Path, target: Path) -> None:
    runtime = AgentRuntime(
        [app.agent],
        store=SqliteStore(source, lambda: MOMENT),
        clock=FakeClock(),
        ids=SequentialIds("golden"),
        mailbox=CONFIG,
        has_worker=False,
    )
    async with runtime:
        mailbox = Mailbox(
            runtime.store, MemoryBus(), FakeClock(), SequentialIds("elsewhere"), CONFIG
        )
        for name in ("open", "both", "decided", "declined"):
            waiting = await runtime.run("shop", name, thread_id=name, run_id_hint=f"run-{name}")
            assert waiting.status is RunStatus.WAITING
        await decide(mailbox, await open_ticket(runtime.store, "decided"), DecisionAction.RESUME)
        await decide(mailbox, await open_ticket(runtime.store, "declined"), DecisionAction.CANCEL)
        app.Hold.is_wanted = True
        for name, action in BESIDE.items():
            app.Hold.entered.clear()
            await runtime.start("shop", name, thread_id=name, run_id_hint=f"run-{name}")
            async with asyncio.timeout(PATIENCE_S):
                await app.Hold.entered.wait()
                ticket = await open_ticket(runtime.store, name)
            if action is None:
                await mailbox.cancel_run(f"run-{name}")
            else:
                await decide(mailbox, ticket, action)
        copy(source, target)
        for name in BESIDE:
            await runtime.cancel(f"run-{name}")


async def open_ticket(store: Store, name: str) -> Ticket:
    while True:
        tickets = await store.list_run_tickets(name, f"run-{name}")
        if tickets:
            (ticket,) = tickets
            return ticket
        await asyncio.sleep(0.01)


async def decide(mailbox: Mailbox, ticket: Ticket, action: DecisionAction) -> None:
    decision = ToolCallResume(decision_id=f"decision-{ticket.run_id}", action=action)
    await mailbox.decide([(ticket.ticket_id, decision)])


if __name__ == "__main__":
    main()
