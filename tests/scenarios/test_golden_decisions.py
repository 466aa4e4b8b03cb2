"""Tickets and decisions that another version left behind are applied: once, and as decided."""

import asyncio
import importlib.util
import shutil
from pathlib import Path
from types import ModuleType

import pytest

from awaken import AgentRuntime, Cancelled, MailboxConfig, NaturalEnd, RunStatus
from awaken.testing import assert_valid_events, assert_valid_transcript
from awaken.tools import DecisionAction

GOLDEN = Path(__file__).parents[1] / "golden"
VERSIONS = sorted(path.parent.name for path in GOLDEN.glob("*/decisions.db"))
CONFIG = MailboxConfig(lease_ms=2_000, renew_ms=500, sweep_ms=50, poll_ms=20, retention_ms=None)
PATIENCE_MS = 20_000
THREADS = ("open", "both", "decided", "declined")
BESIDE = ("beside-approved", "beside-declined", "beside-cancelled")


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def app(version: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "golden_decisions", GOLDEN / version / "decisions_app.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def store_url(version: str, tmp_path: Path) -> str:
    return f"sqlite:///{shutil.copy(GOLDEN / version / 'decisions.db', tmp_path / 'store.db')}"


def test_every_ticket_and_every_queued_decision_takes_effect_once(
    app: ModuleType, store_url: str
) -> None:
    async def scenario() -> dict[str, tuple[object, str]]:
        async with AgentRuntime([app.agent], store=store_url, mailbox=CONFIG) as runtime:
            tickets = {(it.thread_id, it.tool_name): it for it in await runtime.tickets()}
            await runtime.decide(tickets["open", "pay"].ticket_id)
            await runtime.decide(tickets["both", "ask"].ticket_id, result="red")
            await runtime.decide(tickets["both", "pay"].ticket_id, action=DecisionAction.CANCEL)
            ends = {}
            for name in (*THREADS, *BESIDE):
                result = await runtime.wait(f"run-{name}", timeout_ms=PATIENCE_MS)
                assert result.status is RunStatus.DONE
                ends[name] = (type(result.termination), result.text)
                assert_valid_transcript(await runtime.messages(name))
                assert_valid_events(await runtime.store.list_events(name))
            assert await runtime.tickets() == ()
            return ends

    ends = asyncio.run(scenario())
    paid = {name for name, (_, text) in ends.items() if "paid 7" in text}
    assert paid == {"open", "decided", "beside-approved"}
    assert len(app.PAID) == len(paid)
    assert "they said red" in ends["both"][1]
    assert {name for name, (end, _) in ends.items() if end is not NaturalEnd} == {
        "beside-cancelled"
    }
    assert ends["beside-cancelled"][0] is Cancelled
