"""Which endpoints name an agent, and which option a decision picks."""

import importlib
from pathlib import Path
from typing import Any

import pytest

from awaken import RemoteEndpoint
from awaken.backends import (
    AcpBackendFactory,
    BackendCapabilities,
    CancellationCapability,
    ExecutionBackendFactory,
)
from awaken.backends.acp.permissions import (
    AskedCall,
    Option,
    PermissionRequest,
    outcome,
)
from awaken.errors import BackendExecutionFailed, InvalidBackendConfig
from awaken.tools import DecisionAction, ToolCallResume

from .acp_backend_world import root, run

GOOD: dict[str, Any] = {"command": ["agent", "--acp"], "cwd": "/"}
KINDS = ("allow_once", "allow_always", "reject_once", "reject_always")


def endpoint(options: Any = None, **more: Any) -> RemoteEndpoint:
    fields = {"backend": "acp", "base_url": "stdio:", "options": GOOD | (options or {})}
    return RemoteEndpoint(**{**fields, **more})


def test_a_good_endpoint_is_taken() -> None:
    factory = AcpBackendFactory()
    assert isinstance(factory, ExecutionBackendFactory)
    factory.validate(endpoint({"env": {"A": "b", "C": None}}))
    expected = BackendCapabilities.remote_stateless_text()
    able = factory.build(endpoint()).capabilities()
    both = CancellationCapability.COOPERATIVE_TOKEN_AND_REMOTE_ABORT
    assert (able.cancellation, able.decisions) == (both, True)
    for name in ("overrides", "frontend_tools", "continuation", "waits", "transcript", "output"):
        assert getattr(able, name) == getattr(expected, name)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"options": {"shell": True}}, "option 'shell' is unknown; use command, cwd, env"),
        ({"options": {"command": "agent --acp"}}, "command is a list of arguments"),
        ({"options": {"command": []}}, "'command' is empty"),
        ({"options": {"command": [" "]}}, "'command' is empty"),
        ({"options": {"command": ["a", 1]}}, "command is a list of arguments"),
        ({"options": {"command": ["a\0b"]}}, "NUL"),
        ({"options": {"cwd": "here"}}, "'cwd' is not an absolute path"),
        ({"options": {"env": {"A": 1}}}, "env has texts by name"),
        ({"options": {"env": {"A=B": "c"}}}, "'env' has a blank name"),
        ({"base_url": "http://localhost"}, "base_url must be 'stdio:'"),
        ({"backend": "a2a"}, "backend 'a2a' is not 'acp'"),
        ({"auth": {"type": "bearer"}}, "neither auth nor target"),
        ({"target": "x"}, "neither auth nor target"),
        ({"timeout_ms": 0}, "timeout_ms must be positive"),
    ],
)
def test_an_endpoint_that_names_no_agent_is_refused(wrong: Any, words: str) -> None:
    factory = AcpBackendFactory()
    for check in (factory.validate, factory.build):
        with pytest.raises(InvalidBackendConfig) as refused:
            check(endpoint(**wrong) if "options" not in wrong else endpoint(wrong["options"]))
        assert words in str(refused.value)


def test_an_endpoint_without_a_command_is_refused() -> None:
    with pytest.raises(InvalidBackendConfig, match="command"):
        AcpBackendFactory().validate(_bare())


def _bare() -> RemoteEndpoint:
    return RemoteEndpoint(backend="acp", base_url="stdio:", options={"cwd": "/"})


def test_without_the_package_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(InvalidBackendConfig, match=r"awaken\[acp\]"):
        AcpBackendFactory().build(endpoint())


@pytest.mark.parametrize("wrong", [{"command": ["/no/such/agent"]}, {"cwd": "/no/such/folder"}])
def test_a_program_that_cannot_be_started_is_named(wrong: Any) -> None:
    async def scenario() -> None:
        backend = AcpBackendFactory().build(endpoint({"command": ["true"]} | wrong))
        with pytest.raises(BackendExecutionFailed, match="/no/such/"):
            await backend.execute_root(root())

    run(scenario)


def test_a_program_that_is_no_agent_is_told_from_one(tmp_path: Path) -> None:
    async def scenario() -> None:
        backend = AcpBackendFactory().build(endpoint({"command": ["false"]}))
        with pytest.raises(BackendExecutionFailed, match="ended with code 1"):
            await backend.execute_root(root())

    run(scenario)


def test_the_target_tells_nothing_of_the_command() -> None:
    names = set()
    for options in (GOOD, {"cwd": "/tmp"}, {"command": ["agent", "--key=secret"]}):
        backend = AcpBackendFactory().build(endpoint(options))
        names.add(backend._settings.program.target)
    assert len(names) == 3
    assert not any("secret" in name for name in names)


def decided(result: Any = None, action: str = "resume", arguments: Any = None) -> ToolCallResume:
    return ToolCallResume(
        decision_id="d", action=DecisionAction(action), result=result, arguments=arguments
    )


@pytest.mark.parametrize(
    ("decision", "kinds", "picked"),
    [
        (decided(), KINDS, "allow_once"),
        (decided({"approved": True}), KINDS, "allow_once"),
        (decided({"option_id": "o-allow_always"}), KINDS, "allow_always"),
        (decided("o-allow_always"), KINDS, "allow_always"),
        (decided("o-reject_always"), KINDS, "reject_always"),
        (decided("o-unheard_of"), KINDS, "reject_once"),
        (decided({"approved": False}), KINDS, "reject_once"),
        (decided(arguments={"path": "/x"}), KINDS, "allow_once"),
        (decided(arguments={"path": "/edited"}), KINDS, "reject_once"),
        (decided("o-allow_always", arguments={"path": "/edited"}), KINDS, "reject_once"),
        (decided(), ("allow_always", "reject_once"), "reject_once"),
        (decided(), ("allow_always",), None),
        (decided(action="cancel"), KINDS, "reject_once"),
        (decided("o-reject_always", "cancel"), KINDS, "reject_always"),
        (decided("o-allow_once", "cancel"), KINDS, "reject_once"),
        (decided(action="cancel"), ("allow_once",), None),
        (None, KINDS, "reject_once"),
        (None, ("allow_once",), None),
    ],
)
def test_a_decision_picks_an_option_and_no_clear_yes_is_a_no(
    decision: ToolCallResume | None, kinds: tuple[str, ...], picked: str | None
) -> None:
    options = tuple(Option(option_id=f"o-{kind}", name=kind, kind=kind) for kind in kinds)
    call = AskedCall(tool_call_id="c1", raw_input={"path": "/x"})
    asked = PermissionRequest(session_id="s", tool_call=call, options=options)
    expected: dict[str, str] = {"outcome": "cancelled"}
    if picked is not None:
        expected = {"outcome": "selected", "optionId": f"o-{picked}"}
    assert outcome(asked, decision) == {"outcome": expected}
