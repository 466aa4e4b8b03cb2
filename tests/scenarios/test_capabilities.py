"""What a backend cannot do is refused before anything happens; what it says is what is stored."""

from dataclasses import replace
from typing import Any

import pytest

from awaken import (
    AgentRuntime,
    BehaviorRequested,
    Blocked,
    Cancelled,
    Failed,
    NaturalEnd,
    RunRequest,
    RunStatus,
    Stopped,
    Suspended,
    user,
)
from awaken.backends import (
    BackendCapabilities,
    BackendRootRunRequest,
    BackendRunResult,
    BackendRunStatus,
    ContinuationCapability,
    LocalBackend,
)
from awaken.contracts.backend_results import backend_status
from awaken.errors import UnsupportedFeature
from awaken.events import StoppedReason, Termination
from awaken.models import InferenceOverride
from awaken.runtime.resolution.registries import RegistrySet
from awaken.testing import ToolCalls
from awaken.tools import ToolCallResume, ToolDescriptor

from .asking import Asking, open_tickets
from .worlds import World, simulated


class Limited(LocalBackend):
    """A backend that lacks some things."""

    def __init__(self, **lacking: Any) -> None:
        self._capabilities = BackendCapabilities(**lacking)
        self.ran = 0

    def capabilities(self) -> BackendCapabilities:
        return self._capabilities

    async def execute_root(self, request: BackendRootRunRequest) -> BackendRunResult:
        self.ran += 1
        return await super().execute_root(request)


def moved(runtime: AgentRuntime, backend: LocalBackend) -> None:
    """Let the agent run on another backend from now on."""

    def change(registries: RegistrySet) -> RegistrySet:
        return replace(registries, backends={**registries.backends, "local": backend})

    runtime.registry.update(change)


NOTHING = {
    "decisions": False,
    "overrides": False,
    "frontend_tools": False,
    "continuation": ContinuationCapability.NONE,
}
OVERRIDES = {"overrides": InferenceOverride(temperature=0.1)}
FRONTEND = {"frontend_tools": (ToolDescriptor(id="pick"),)}


@pytest.mark.parametrize(
    ("lacking", "asked", "missing"),
    [
        ({"overrides": False}, OVERRIDES, "overrides"),
        ({"frontend_tools": False}, FRONTEND, "frontend_tools"),
        ({"decisions": False}, {"decisions": True}, "decisions"),
        ({"continuation": ContinuationCapability.NONE}, {}, "continuation"),
        ({"continuation": ContinuationCapability.NONE}, {"continue_run_id": "r"}, "continuation"),
        (
            NOTHING,
            {"decisions": True, **OVERRIDES, **FRONTEND},
            "decisions, overrides, frontend_tools, continuation",
        ),
        ({}, {"decisions": True, **OVERRIDES, **FRONTEND}, None),
    ],
)
def test_a_request_beyond_the_backend_is_refused_before_any_event_or_commit(
    lacking: dict[str, Any], asked: dict[str, Any], missing: str | None
) -> None:
    async def scenario() -> None:
        world = World([ToolCalls([("ask", {"question": "?"})]), "bye"], tools=Asking().tools)
        await world.tell(run_id_hint="r")
        (ticket,) = await open_tickets(world)
        backend = Limited(**lacking)
        moved(world.runtime, backend)
        decisions = ((ticket, ToolCallResume(decision_id="d")),) if "decisions" in asked else ()
        request = RunRequest(**{"thread_id": "t", **asked, "decisions": decisions})
        commits, events = len(world.store.commits), len(await world.store.list_events("t"))
        if missing is None:
            assert (await (await world.runtime.start(request)).result()).text == "bye"
            assert backend.ran == 1
            return
        expected = f"agent 'agent' backend does not support: {missing}"
        with pytest.raises(UnsupportedFeature) as refused:
            await world.runtime.start(request)
        assert str(refused.value) == expected
        with pytest.raises(UnsupportedFeature):
            await anext(world.runtime._engine.stream(request))
        assert backend.ran == 0
        assert (commits, events) == (
            len(world.store.commits),
            len(await world.store.list_events("t")),
        )
        assert await open_tickets(world) == [ticket]
        moved(world.runtime, LocalBackend())
        assert (await world.runtime.run("agent", "free", thread_id="t")).text == "bye"

    simulated(scenario)


def test_a_backend_that_lacks_everything_still_takes_a_plain_message() -> None:
    async def scenario() -> None:
        world = World(["hello"])
        moved(world.runtime, Limited(**NOTHING))
        assert (await world.runtime.run("agent", "hi", thread_id="t")).text == "hello"
        least = BackendCapabilities.remote_stateless_text()
        request = RunRequest(messages=(user("hi"),))
        assert least.unsupported_root_features(request, continues=False) == []

    simulated(scenario)


STOP = Stopped(reason=StoppedReason(code="max_rounds"))
TIMED_OUT = Stopped(reason=StoppedReason(code="timeout", detail="10 ms"))


@pytest.mark.parametrize(
    ("termination", "status", "message"),
    [
        (NaturalEnd(), BackendRunStatus.COMPLETED, None),
        (BehaviorRequested(), BackendRunStatus.COMPLETED, None),
        (Cancelled(), BackendRunStatus.CANCELLED, None),
        (Suspended(), BackendRunStatus.SUSPENDED, None),
        (STOP, BackendRunStatus.FAILED, "stopped: max_rounds"),
        (TIMED_OUT, BackendRunStatus.FAILED, "stopped: timeout (10 ms)"),
        (Blocked(reason="no"), BackendRunStatus.FAILED, "blocked: no"),
        (Failed(message="boom"), BackendRunStatus.FAILED, "boom"),
    ],
)
def test_a_local_termination_has_one_status_for_whoever_delegated_the_run(
    termination: Termination, status: BackendRunStatus, message: str | None
) -> None:
    assert backend_status(termination) == (status, message)


@pytest.mark.parametrize(
    ("status", "durable", "reason", "label"),
    [
        (BackendRunStatus.WAITING_INPUT, RunStatus.WAITING, "input_required", "waiting_input"),
        (BackendRunStatus.WAITING_AUTH, RunStatus.WAITING, "auth_required", "waiting_auth"),
        (BackendRunStatus.SUSPENDED, RunStatus.WAITING, "suspended", "suspended"),
        (BackendRunStatus.FAILED, RunStatus.DONE, "error", "failed"),
        (BackendRunStatus.CANCELLED, RunStatus.DONE, "cancelled", "cancelled"),
        (BackendRunStatus.TIMEOUT, RunStatus.DONE, "timeout", "timeout"),
    ],
)
@pytest.mark.parametrize("termination", [NaturalEnd(), STOP, Suspended(), Failed(message="x")])
def test_a_status_of_its_own_stays_whatever_the_termination(
    status: BackendRunStatus, durable: RunStatus, reason: str, label: str, termination: Termination
) -> None:
    assert status.run_status(termination) is durable
    assert status.status_reason(termination) == reason
    assert status.label(termination) == label


def test_a_completed_run_takes_its_status_from_its_termination() -> None:
    completed = BackendRunStatus.COMPLETED
    found = [
        (completed.run_status(it), completed.status_reason(it), completed.label(it))
        for it in (NaturalEnd(), Suspended(), STOP)
    ]
    assert found == [
        (RunStatus.DONE, "natural", "done"),
        (RunStatus.WAITING, "suspended", "waiting"),
        (RunStatus.DONE, "stopped:max_rounds", "done"),
    ]


class Seeing(LocalBackend):
    """A backend that keeps what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[BackendRootRunRequest] = []

    async def execute_root(self, request: BackendRootRunRequest) -> BackendRunResult:
        self.asked.append(request)
        return await super().execute_root(request)


def test_a_local_backend_gets_the_controls_that_it_declares() -> None:
    async def scenario() -> None:
        world = World(["hello"])
        backend = Seeing()
        moved(world.runtime, backend)
        await world.runtime.run("agent", "hi", thread_id="t")
        (request,) = backend.asked
        assert request.control.cancellation is not None
        assert request.checkpoint is not None
        assert [it.text for it in request.new_messages] == ["hi"]

    simulated(scenario)
