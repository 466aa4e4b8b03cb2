"""The public names are a decision: a change of this file is a change of the API."""

import ast
import inspect
import subprocess
import sys

import pytest

import awaken
import awaken.extensions.background
import awaken.testing
from awaken.contracts.storage.mailbox import MailboxStore
from awaken.contracts.storage.store import CommitStore, EventStore, RunStore, ThreadStore

ROOT_NAMES = [
    "Agent",
    "AgentEvent",
    "AgentResolver",
    "AgentRuntime",
    "AgentSpec",
    "AwakenError",
    "Budget",
    "Message",
    "ModelPool",
    "ModelSpec",
    "Phase",
    "Plugin",
    "PluginRegistrar",
    "PoolMember",
    "ProviderSpec",
    "RemoteEndpoint",
    "RemoteRegistry",
    "RunFailed",
    "RunRequest",
    "RunResult",
    "StateCommand",
    "StateKey",
    "ToolContext",
    "ToolResult",
    "tool",
]
TESTING_NAMES = [
    "AgentReport",
    "AgentViolated",
    "Chunks",
    "EventRecorder",
    "FakeClock",
    "FakeModelServer",
    "HttpAnswer",
    "InjectionPoint",
    "LoopClock",
    "ModelRequest",
    "PROFILE_CHECKS",
    "Reasoning",
    "STORE_CHECKS",
    "Said",
    "ScheduleFailed",
    "ScriptExhausted",
    "ScriptedModel",
    "Sent",
    "SequentialIds",
    "Silence",
    "SimulationReport",
    "ToolCalls",
    "Turn",
    "anthropic_problems",
    "assert_valid_events",
    "assert_valid_transcript",
    "cancelling",
    "check_events",
    "check_transcript",
    "continuing",
    "enumerate_awaits",
    "gemini_problems",
    "inject_at",
    "openai_problems",
    "replay",
    "simulate",
    "simulate_agent",
]
BACKGROUND_NAMES = [
    "BackgroundTasksPlugin",
    "DurableMessageRequest",
    "DurableMessageSink",
    "MessageError",
    "SEND_MESSAGE_TOOL_ID",
    "SendMessageReceipt",
    "SendMessageTool",
]
RUNTIME_METHODS = [
    "asgi",
    "cancel",
    "cancel_and_wait",
    "decide",
    "decide_all",
    "drain",
    "fork",
    "get_run",
    "list_runs",
    "messages",
    "remotes",
    "run",
    "start",
    "steer",
    "stream",
    "submit",
    "tasks",
    "tickets",
    "undo_compaction",
    "view",
    "wait",
]
STORE_METHODS = {
    CommitStore: [
        "checkout",
        "commit",
        "find_checkpoint",
        "find_commit",
        "list_tool_records",
        "save_checkpoint",
    ],
    ThreadStore: [
        "delete_thread",
        "list_messages",
        "list_threads",
        "load_thread",
        "save_thread",
    ],
    RunStore: [
        "decide",
        "find_ticket",
        "list_run_tickets",
        "list_runs",
        "list_tickets",
        "load_run",
    ],
    EventStore: [
        "delete_outbox",
        "list_dead_outbox",
        "list_events",
        "list_outbox",
        "save_outbox",
    ],
    MailboxStore: [
        "cancel_dispatch",
        "claim",
        "claim_dispatch",
        "count_queued",
        "enqueue",
        "find_dispatch",
        "find_dispatch_of_run",
        "give_up_claim",
        "interrupt",
        "lease_keeper",
        "list_dispatches",
        "list_expired_tickets",
        "list_inputs",
        "now_ms",
        "purge",
        "reclaim",
        "release",
        "request_cancel",
        "requeue",
        "revive",
    ],
}
FORBIDDEN_IMPORTS = (
    "asyncpg",
    "pydantic",
    "starlette",
    "aiohttp",
    "uvicorn",
    "typer",
    "opentelemetry.sdk",
)


def public_methods(class_: type) -> list[str]:
    members = inspect.getmembers(class_, inspect.isfunction)
    return sorted(name for name, _ in members if not name.startswith("_"))


def test_the_root_exports_exactly_these_names() -> None:
    assert sorted(awaken.__all__) == ROOT_NAMES
    assert all(hasattr(awaken, name) for name in ROOT_NAMES)
    assert len(ROOT_NAMES) <= 25


def test_a_name_of_the_root_is_the_one_that_type_checkers_see() -> None:
    tree = ast.parse(inspect.getsource(awaken))
    shown = {
        alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module != "typing"
        for alias in node.names
    }
    assert shown == awaken._HOMES
    assert sorted(shown) == ROOT_NAMES
    assert set(ROOT_NAMES) <= set(dir(awaken))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        awaken.nothing  # noqa: B018


def test_the_test_kit_exports_exactly_these_names() -> None:
    assert sorted(awaken.testing.__all__) == TESTING_NAMES
    assert all(hasattr(awaken.testing, name) for name in TESTING_NAMES)


def test_background_tasks_export_exactly_these_names() -> None:
    assert sorted(awaken.extensions.background.__all__) == BACKGROUND_NAMES
    assert all(hasattr(awaken.extensions.background, name) for name in BACKGROUND_NAMES)


def test_the_runtime_has_exactly_these_methods() -> None:
    assert public_methods(awaken.AgentRuntime) == RUNTIME_METHODS


def test_the_store_ports_have_exactly_these_methods() -> None:
    assert {port: public_methods(port) for port in STORE_METHODS} == STORE_METHODS


def imported_with(module: str, forbidden: tuple[str, ...]) -> str:
    loaded = f"[m for m in {forbidden!r} if m in sys.modules]"
    code = f"import sys; from {module} import *; print({loaded})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_importing_awaken_pulls_in_nothing_heavy() -> None:
    assert imported_with("awaken", (*FORBIDDEN_IMPORTS, "awaken.testing")) == "[]"


def test_the_test_kit_needs_no_test_framework() -> None:
    frameworks = ("pytest", "_pytest", "hypothesis", "unittest")
    assert imported_with("awaken.testing", (*FORBIDDEN_IMPORTS, *frameworks)) == "[]"
