"""What a backend cannot do is refused by name, and endpoints are checked before anything runs."""

import asyncio
from typing import Any

import pytest

from awaken import (
    Cancelled,
    ContextWindowPolicy,
    InvalidInput,
    MaxRounds,
    RemoteEndpoint,
    RunRequest,
    tool,
)
from awaken.backends import BackendCapabilities, BackendRunStatus, CancellationCapability
from awaken.bootstrap.backends import Backends
from awaken.contracts.clock import SystemClock
from awaken.errors import InvalidBackendConfig, InvalidSpec, UnsupportedFeature
from awaken.models import InferenceOverride
from awaken.runtime.primitives.signals import WakeSignal
from awaken.testing import ScriptedModel
from awaken.tools import ToolCallResume, ToolDescriptor

from .delegating import boss, ended, within
from .remoting import STATELESS, FakeBackend, far, remote_runtime, said, waits

REFUSED: dict[str, dict[str, Any]] = {
    "overrides": {"overrides": InferenceOverride(temperature=0.5)},
    "decisions": {"decisions": (("t1", ToolCallResume(decision_id="d")),)},
    "frontend_tools": {"frontend_tools": (ToolDescriptor(id="f", name="f", description="f"),)},
}


@pytest.mark.parametrize("feature", REFUSED)
def test_what_a_backend_cannot_do_is_refused_by_name(feature: str) -> None:
    async def scenario() -> None:
        backend = FakeBackend(said("never"), can=STATELESS)
        async with remote_runtime(backend, None) as rt:
            request = RunRequest(agent_id="far", thread_id="t", **REFUSED[feature])
            with pytest.raises(UnsupportedFeature) as refused:
                await rt.start(request)
            assert refused.value.features == feature
            assert backend.roots == []
            assert await rt.list_runs("t") == ()

    asyncio.run(scenario())


def test_a_run_of_a_backend_that_remembers_nothing_cannot_go_on_but_can_be_cancelled() -> None:
    async def scenario() -> None:
        backend = FakeBackend(waits(BackendRunStatus.WAITING_INPUT), can=STATELESS)
        async with remote_runtime(backend, None) as rt:
            waiting = await rt.run("far", "hi", thread_id="t")
            with pytest.raises(UnsupportedFeature) as refused:
                await rt.run("far", "more", thread_id="t", continue_run_id=waiting.run_id)
            assert refused.value.features == "continuation"
            assert await rt.cancel(waiting.run_id)
            assert (await ended(rt, waiting.run_id)).termination == Cancelled(cause="user")
            assert (len(backend.roots), backend.aborted) == (1, [])

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("can", "has_token", "has_decisions"),
    [
        (STATELESS, False, False),
        (BackendCapabilities(cancellation=CancellationCapability.REMOTE_ABORT), False, True),
        (BackendCapabilities(decisions=False), True, False),
    ],
    ids=["stateless", "abort only", "no decisions"],
)
def test_a_backend_gets_only_the_ways_in_that_it_can_serve(
    can: BackendCapabilities, has_token: bool, has_decisions: bool
) -> None:
    async def scenario() -> None:
        backend = FakeBackend(said("ok"), can=can)
        async with remote_runtime(backend, None) as rt:
            await rt.run("far", "hi", thread_id="t")
            control = backend.roots[0].control
            assert (control.cancellation is not None) is has_token
            assert (control.decisions is not None) is has_decisions

    asyncio.run(scenario())


class Factory:
    """Makes the one backend that it was given, for endpoints that it likes."""

    def __init__(self, backend: FakeBackend) -> None:
        self.backend = backend
        self.closed = 0

    def validate(self, endpoint: RemoteEndpoint) -> None:
        if not endpoint.base_url.startswith("http"):
            raise InvalidBackendConfig(backend="fake", problem="no web address")

    def build(self, endpoint: RemoteEndpoint) -> FakeBackend:
        self.backend.turns.append(said(f"from {endpoint.base_url}"))
        return self.backend

    async def close(self) -> None:
        self.closed += 1


def test_a_factory_makes_the_backend_of_an_endpoint() -> None:
    async def scenario() -> None:
        factory = Factory(FakeBackend())
        async with remote_runtime(factory, None) as rt:
            assert (await within(rt.run("far", "hi"))).text == "from http://x"
        assert factory.closed == 1

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("endpoint", "problem"),
    [
        (RemoteEndpoint(backend="fake", base_url="gopher://x"), "no web address"),
        (RemoteEndpoint(backend="nowhere", base_url="http://x"), "nowhere"),
    ],
)
def test_an_endpoint_that_cannot_be_used_is_refused_at_once(
    endpoint: RemoteEndpoint, problem: str
) -> None:
    with pytest.raises(InvalidSpec, match=problem):
        remote_runtime(Factory(FakeBackend()), None, remote=far(endpoint=endpoint))


@tool
async def plain() -> str:
    return "done"


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": [plain]},
        {"delegates": ["boss"]},
        {"model": "scripted"},
        {"model": ScriptedModel([])},
        {"instructions": "Be brief."},
        {"allowed_tools": ["x"]},
        {"excluded_tools": ["x"]},
        {"stop": [MaxRounds(rounds=1)]},
        {"max_rounds": 3},
        {"output_type": int},
        {"reasoning_effort": "low"},
        {"context_policy": ContextWindowPolicy()},
        {"parallel_tools": False},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_what_would_do_nothing_beside_an_endpoint_is_refused_by_name(fields: Any) -> None:
    (name,) = fields
    with pytest.raises(InvalidSpec, match=f"field '{name}'.*endpoint"):
        remote_runtime(FakeBackend(), None, boss(), remote=far(**fields))


def test_what_is_no_backend_is_refused_with_what_it_lacks() -> None:
    class Idle:
        def capabilities(self) -> BackendCapabilities:
            return BackendCapabilities()

    with pytest.raises(InvalidInput, match=r"'far' .*Idle .*neither execute_root nor execute_del"):
        Backends({"far": Idle()}, SystemClock())  # type: ignore[dict-item]


def test_a_backend_that_cannot_be_closed_does_not_keep_the_others_open(
    caplog: pytest.LogCaptureFixture,
) -> None:
    closed: list[str] = []

    class Factory:
        def __init__(self, name: str) -> None:
            self.name = name

        def validate(self, endpoint: object) -> None:
            raise NotImplementedError

        def build(self, endpoint: object) -> object:
            raise NotImplementedError

        async def close(self) -> None:
            closed.append(self.name)
            if self.name == "one":
                raise OSError(self.name)

    backends = Backends({it: Factory(it) for it in ("one", "two")}, SystemClock())  # type: ignore[misc]
    asyncio.run(backends.close())
    assert closed == ["one", "two"]
    assert "could not be closed" in caplog.text


def test_a_bell_wakes_all_who_wait_and_none_twice() -> None:
    async def scenario() -> None:
        bell = WakeSignal()
        async with asyncio.timeout(5):
            waiting = [asyncio.create_task(bell.wait(5)) for _ in range(2)]
            await asyncio.sleep(0)
            bell.ring()
            assert await asyncio.gather(*waiting) == [True, True]
            assert await bell.wait(0.001) is False
            bell.ring()
            assert await bell.wait(5) is True

    asyncio.run(scenario())
