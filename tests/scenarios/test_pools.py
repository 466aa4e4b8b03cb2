"""Pools of models in runs: who answers, who stands in for whom, and who is left alone when sick."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any

import pytest

from awaken import Agent, AgentRuntime, AwakenError, ModelPool, ModelSpec, PoolMember, RunFailed
from awaken.errors import (
    ContentFiltered,
    ContextOverflow,
    InvalidRequest,
    ModelError,
    ModelNotFound,
    Overloaded,
    ProviderUnusable,
    QuotaExceeded,
    StreamInterrupted,
    Unauthorized,
)
from awaken.events import InferenceComplete
from awaken.models import InferenceOverride, ModelPrices, PoolRole, PoolRouting
from awaken.runtime.model_health.health import REFRESH_MS
from awaken.testing import Entry, FakeClock, LoopClock, ScriptedModel, Turn

from .worlds import simulated

ONCE = {"retry": {"max_retries": 0, "max_stream_retries": 0}}
COOLDOWN_S = 30
FULL = Overloaded("full")


def spec(name: str, **fields: Any) -> ModelSpec:
    return ModelSpec(id=name, provider_id=name, upstream_model=f"up-{name}", **fields)


def members(*names: str, **fields: Any) -> tuple[PoolMember, ...]:
    return tuple(PoolMember(model_id=name, **fields) for name in names)


class World:
    """A runtime with an agent on a pool whose models are scripted; `a` is the home of thread t."""

    def __init__(
        self,
        scripts: dict[str, Iterable[Entry]],
        config: dict[str, Any] | None = None,
        specs: dict[str, ModelSpec] | None = None,
        **pool: Any,
    ) -> None:
        self.models = {name: ScriptedModel(script, cycle=True) for name, script in scripts.items()}
        wanted = {"members": members(*scripts), **pool}
        agent = Agent("x", model=ModelPool(id="pool", **wanted), config=config or ONCE)
        self.runtime = AgentRuntime(
            [agent],
            models=[(specs or {}).get(name) or spec(name) for name in scripts],
            providers=self.models,
            clock=LoopClock(),
        )

    async def say(self, thread_id: str = "t", **options: Any) -> str:
        """The answer, or the code of the failure."""
        try:
            return (await self.runtime.run("x", "hi", thread_id=thread_id, **options)).text
        except RunFailed as failed:
            return failed.result.termination.code

    def asked(self) -> dict[str, int]:
        return {name: len(model.requests) for name, model in self.models.items()}


def played(world: Callable[[], World], story: Callable[[World], Coroutine[Any, Any, Any]]) -> Any:
    async def scenario() -> Any:
        made = world()
        async with made.runtime:
            return await story(made)

    return simulated(scenario)


def backup(*names: str) -> tuple[PoolMember, ...]:
    """The first is the home of every thread, the others stand in for it in their order."""
    first, *others = names
    return (*members(first), *members(*others, role=PoolRole.FAILOVER_ONLY))


PAIR = backup("a", "b")


@pytest.mark.parametrize(
    "error",
    [
        QuotaExceeded("broke"),
        Unauthorized("no key"),
        ModelNotFound("gone"),
        ProviderUnusable("extra"),
        FULL,
        StreamInterrupted("reset"),
    ],
)
def test_another_model_answers_when_the_first_cannot(error: ModelError) -> None:
    async def story(world: World) -> None:
        assert await world.say() == "from b"
        assert world.asked() == {"a": 1, "b": 1}

    played(lambda: World({"a": [error], "b": ["from b"]}, members=PAIR), story)


@pytest.mark.parametrize(
    "error", [InvalidRequest("bad"), ContextOverflow("long"), ContentFiltered("no")]
)
def test_no_other_model_is_asked_what_no_model_would_answer(error: ModelError) -> None:
    async def story(world: World) -> None:
        assert await world.say() == error.code
        assert world.asked() == {"a": 1, "b": 0}

    played(lambda: World({"a": [error], "b": ["from b"]}, members=PAIR), story)


def test_each_model_is_asked_by_its_own_name_with_its_own_options_and_limits() -> None:
    specs = {
        "a": spec("a", options={"tier": "flex"}, max_output_tokens=50),
        "b": spec("b", options={"safe": False}),
    }

    async def story(world: World) -> None:
        assert await world.say(overrides=InferenceOverride(max_tokens=80)) == "from b"
        (first,), (second,) = (model.requests for model in world.models.values())
        assert (first.upstream_model, second.upstream_model) == ("up-a", "up-b")
        assert first.overrides == InferenceOverride(
            max_tokens=50, provider_options={"tier": "flex"}
        )
        assert second.overrides == InferenceOverride(
            max_tokens=80, provider_options={"safe": False}
        )

    scripts: dict[str, Iterable[Entry]] = {"a": [FULL], "b": ["from b"]}
    played(lambda: World(scripts, members=PAIR, specs=specs), story)


def test_the_event_of_an_inference_names_the_model_that_answered() -> None:
    async def story(world: World) -> None:
        events = [event async for event in world.runtime.stream("x", "hi", thread_id="t")]
        (done,) = [event for event in events if isinstance(event, InferenceComplete)]
        assert done.model == "up-b"

    played(lambda: World({"a": [FULL], "b": ["from b"]}, members=PAIR), story)


def test_an_answer_that_breaks_off_goes_on_at_another_model_and_nothing_is_said_twice() -> None:
    async def story(world: World) -> None:
        assert await world.say() == "Once upon a time."
        (request,) = world.models["b"].requests
        assert any("Once upon" in message.text for message in request.messages)

    broken = Turn(text="Once upon", error=StreamInterrupted("reset"))
    played(lambda: World({"a": [broken], "b": [" a time."]}, members=PAIR), story)


def test_switches_are_bounded() -> None:
    async def story(world: World) -> None:
        assert await world.say() == "overloaded"
        assert world.asked() == {"a": 1, "b": 1, "c": 1, "d": 0}

    scripts: dict[str, Iterable[Entry]] = {name: [FULL] for name in "abc"}
    scripts["d"] = ["from d"]
    played(lambda: World(scripts, members=backup(*"abcd"), max_switches=2), story)


def test_retries_come_before_another_model_and_begin_anew_there() -> None:
    async def story(world: World) -> None:
        assert await world.say() == "overloaded"
        assert world.asked() == {"a": 3, "b": 3}

    def world() -> World:
        return World({"a": [FULL], "b": [FULL]}, {"retry": {"max_retries": 2}}, members=PAIR)

    played(world, story)


def test_a_model_that_failed_too_often_is_left_alone_until_it_has_cooled_down() -> None:
    async def story(world: World) -> None:
        for _ in range(7):
            assert await world.say() == "from b"
        assert world.asked() == {"a": 5, "b": 7}
        await asyncio.sleep(COOLDOWN_S)
        assert await world.say() == "from a"
        assert await world.say() == "from a"
        assert world.asked() == {"a": 7, "b": 7}

    script: list[Entry] = [FULL] * 5 + ["from a", "from a"]
    played(lambda: World({"a": script, "b": ["from b"]}, members=PAIR), story)


def test_of_many_runs_one_probes_a_model_that_may_be_back() -> None:
    async def story(world: World) -> None:
        for _ in range(5):
            await world.say()
        await asyncio.sleep(COOLDOWN_S)
        said = await asyncio.gather(*(world.say(f"t{number}") for number in range(20)))
        assert set(said) == {"from b"}
        assert world.asked()["a"] == 6
        await asyncio.sleep(COOLDOWN_S)
        await asyncio.gather(*(world.say(f"t{number}") for number in range(20)))
        assert world.asked()["a"] == 7

    slow = Turn(delay_ms=1_000, error=FULL)
    played(lambda: World({"a": [FULL] * 5 + [slow] * 9, "b": ["from b"]}, members=PAIR), story)


def test_a_run_that_is_cancelled_gives_its_probe_back() -> None:
    async def story(world: World) -> None:
        for _ in range(5):
            await world.say()
        await asyncio.sleep(COOLDOWN_S)
        handle = await world.runtime.start("x", "hi", thread_id="t")
        await asyncio.sleep(1)
        assert world.asked()["a"] == 6
        assert await world.runtime.cancel_and_wait(handle.run_id)
        assert await world.say() == "from a"

    slow = Turn(text="late", delay_ms=60_000)
    script: list[Entry] = [FULL] * 5 + [slow, "from a"]
    played(lambda: World({"a": script, "b": ["from b"]}, members=PAIR), story)


def test_when_every_breaker_is_open_the_run_says_so_and_nobody_is_asked() -> None:
    async def story(world: World) -> None:
        for _ in range(5):
            await world.say()
        before = world.asked()
        with pytest.raises(RunFailed) as failed:
            await world.runtime.run("x", "hi", thread_id="t")
        text = str(failed.value)
        assert "all_models_unavailable" in text
        assert "'a'" in text
        assert "'b'" in text
        assert world.asked() == before

    played(lambda: World({"a": [FULL], "b": [FULL]}, members=PAIR), story)


@pytest.mark.parametrize(
    ("dear", "limit", "answer"),
    [
        (1_000.0, 0.01, "from b"),
        (1_000.0, 1_000.0, "from a"),
        (0.001, 0.01, "from a"),
        (1_000.0, 0.0, "all_models_unavailable"),
    ],
)
def test_a_model_whose_call_may_cost_too_much_is_passed_over_for_a_cheaper_one(
    dear: float, limit: float, answer: str
) -> None:
    specs = {
        name: spec(name, max_output_tokens=100, prices=ModelPrices(input=price, output=price))
        for name, price in (("a", dear), ("b", 0.001))
    }

    async def story(world: World) -> None:
        assert await world.say() == answer

    scripts: dict[str, Iterable[Entry]] = {"a": ["from a"], "b": ["from b"]}
    played(lambda: World(scripts, members=PAIR, specs=specs, max_call_usd=limit), story)


def test_a_thread_stays_with_its_model_and_threads_are_spread() -> None:
    async def story(world: World) -> None:
        homes = {await world.say(f"t{number}") for number in range(20)}
        assert homes == {"from a", "from b"}
        once = await world.say("t")
        assert {await world.say("t") for _ in range(5)} == {once}

    played(lambda: World({"a": ["from a"], "b": ["from b"]}), story)


def test_round_robin_takes_turns() -> None:
    async def story(world: World) -> None:
        said = [await world.say("t") for _ in range(4)]
        assert said in (["from a", "from b"] * 2, ["from b", "from a"] * 2)

    def world() -> World:
        return World({"a": ["from a"], "b": ["from b"]}, routing=PoolRouting.ROUND_ROBIN)

    played(world, story)


def test_a_model_that_failed_too_often_in_one_process_is_not_asked_by_another(
    tmp_path: Path,
) -> None:
    clock = FakeClock()

    def node(script: list[Entry]) -> tuple[AgentRuntime, dict[str, ScriptedModel]]:
        models = {
            "a": ScriptedModel(script, cycle=True),
            "b": ScriptedModel(["from b"], cycle=True),
        }
        runtime = AgentRuntime(
            [Agent("x", model=ModelPool(id="pool", members=PAIR), config=ONCE)],
            models=[spec("a"), spec("b")],
            providers=models,
            store=f"sqlite:///{tmp_path / 'awaken.db'}",
            clock=clock,
            has_worker=False,
        )
        return runtime, models

    async def said(runtime: AgentRuntime, thread_id: str) -> str:
        try:
            return (await runtime.run("x", "hi", thread_id=thread_id)).text
        except AwakenError as error:
            return error.code

    async def scenario() -> None:
        (one, ones), (other, others) = node([FULL]), node(["from a"])
        async with one, other:
            assert await said(other, "t1") == "from a"
            for _ in range(5):
                assert await said(one, "t2") == "from b"
            await one._engine.services.health.close()
            clock.advance(REFRESH_MS)
            assert await said(other, "t1") == "from b"
            assert (len(ones["a"].requests), len(others["a"].requests)) == (5, 1)
            clock.advance(COOLDOWN_S * 1000)
            assert await said(other, "t1") == "from a"
            await other._engine.services.health.close()
            assert await said(one, "t2") == "from b"
            assert len(ones["a"].requests) == 6, "one hears that it is closed, and asks it"

    asyncio.run(asyncio.wait_for(scenario(), 50))
