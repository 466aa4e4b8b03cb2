"""The result of a run, from its record."""

from typing import Any

from awaken.contracts.errors import AwakenError
from awaken.contracts.lifecycle import NaturalEnd, Suspended, Termination
from awaken.contracts.runs.records import RunRecord, RunResult
from awaken.contracts.storage.store import RunStore
from awaken.runtime.resolution.registry import RegistryHandle


async def load_result(record: RunRecord, store: RunStore, registry: RegistryHandle) -> RunResult:
    """Return the result of a run from its stored record."""
    return RunResult(
        run_id=record.run_id,
        thread_id=record.thread_id,
        agent_id=record.active_agent_id or record.agent_id,
        status=record.status,
        text=record.final_output or "",
        termination=_visible_end(record),
        steps=record.steps,
        usage=record.usage,
        tickets=await store.list_tickets(record.thread_id) if record.waiting else (),
        output=await _decode_output(record, registry),
        continued_as=record.continued_as,
    )


def _visible_end(record: RunRecord) -> Termination | None:
    if record.awaits_tasks:
        return NaturalEnd()
    return Suspended() if record.waiting else record.termination


async def _decode_output(record: RunRecord, registry: RegistryHandle) -> Any:
    """Decode the answer of a run that ended by itself; only its text is stored."""
    if not isinstance(record.termination, NaturalEnd) or record.continued_as is not None:
        return None
    try:
        agent_id = record.active_agent_id or record.agent_id
        agent = await registry.resolve(agent_id)
        text = record.final_output or ""
        return text if agent.output is None else agent.output.decode(text)
    except AwakenError:
        # The agent has changed since; the text is still available.
        return None
