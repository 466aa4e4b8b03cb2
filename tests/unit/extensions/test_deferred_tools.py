"""Runs of an agent that has far more tools than stand in its requests."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import msgspec
import pytest

from awaken import Agent, AgentRuntime, Phase, Plugin, PluginRegistrar, StateCommand, tool
from awaken.contracts.errors import InvalidSpec, RunFailed
from awaken.contracts.models.inference import InferenceRequest
from awaken.contracts.plugins.loop_state import TOOL_FILTER, ToolFilter
from awaken.contracts.plugins.plugin import Block, GateDecision, PhaseContext, ToolGateContext
from awaken.contracts.state.profile import ProfileEntry, agent_type_scope
from awaken.contracts.suspension.permissions import WANTED_TOOLS
from awaken.contracts.tools.tool import Tool
from awaken.extensions.deferred_tools import DeferredToolsPlugin
from awaken.stores.memory.profiles import MemoryProfileStore
from awaken.stores.sqlite import SqliteStore
from awaken.testing import ScriptedModel, ToolCalls

EAGER = [{"tool": "clock", "mode": "eager"}]
SECTION = {"enabled": True, "rules": EAGER, "disc_beta": {"gamma": 400}}


def crm_tool(number: int, calls: list[str]) -> Tool:
    """One of many tools, with a schema of some size."""

    @tool(id=f"crm_{number:02}", effect="none")
    async def crm(
        customer: str = "", first_year: int = 2000, last_year: int = 2030, remark: str = ""
    ) -> str:
        """Look something up in the CRM."""
        calls.append(f"crm_{number:02}")
        return "found"

    return crm


@tool(effect="none")
async def clock() -> str:
    """Tell the time."""
    return "noon"


class World:
    """An agent with twenty deferred tools, and what its model was sent."""

    def __init__(
        self, script: list[Any], *plugins: Plugin, store: Any = None, **config: Any
    ) -> None:
        self.calls: list[str] = []
        self.model = ScriptedModel(script)
        self.agent = Agent(
            "a",
            model=self.model,
            tools=[clock, *(crm_tool(number, self.calls) for number in range(20))],
            plugins=[DeferredToolsPlugin(), *plugins],
            config={"deferred_tools": {**SECTION, **config}},
        )
        self.options: dict[str, Any] = {"store": store} if store is not None else {}

    async def talk(self, *texts: str, thread_id: str = "t") -> None:
        """One run after another on a thread."""
        async with AgentRuntime([self.agent], **self.options) as runtime:
            for text in texts:
                await runtime.run("a", text, thread_id=thread_id)

    def offered(self) -> list[list[str]]:
        """The tools of each request."""
        return [[tool.id for tool in request.tools] for request in self.model.requests]

    def loaded(self) -> list[list[str]]:
        """The deferred tools that stood in each request."""
        return [[name for name in names if name.startswith("crm")] for names in self.offered()]


def search(query: str, **more: Any) -> ToolCalls:
    """The model searches."""
    return ToolCalls([("ToolSearch", {"query": query, **more})])


def idle(turns: int) -> list[ToolCalls]:
    """Turns that call none of the deferred tools."""
    return [ToolCalls([("clock", {})]) for _ in range(turns)]


def play(scenario: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(scenario, 20))


def prefix(request: InferenceRequest) -> bytes:
    """What stands before the conversation."""
    return msgspec.json.encode([request.system, request.tools])


def test_a_request_has_the_eager_tools_and_a_sorted_list_of_the_others() -> None:
    world = World(["Hello."])
    play(world.talk("Hi."))
    assert world.offered() == [["ToolSearch", "clock"]]
    (text,) = world.model.requests[0].system
    header, listed = text.split("\n")
    assert header == "The following deferred tools are available via ToolSearch:"
    assert listed.split(", ") == [f"crm_{number:02}" for number in range(20)]


def test_what_a_search_finds_can_be_called_from_the_next_step_on() -> None:
    script = [search("select:crm_07,crm_02"), ToolCalls([("crm_07", {})]), "Done."]
    world = World(script)
    play(world.talk("Go."))
    loaded = ["ToolSearch", "clock", "crm_02", "crm_07"]
    assert world.offered() == [["ToolSearch", "clock"], loaded, loaded]
    assert world.calls == ["crm_07"]
    (result,) = [it for it in world.model.requests[1].messages if it.tool_call_id]
    assert '"loaded":["crm_07","crm_02"]' in result.text
    assert "first_year" in result.text


def test_searches_side_by_side_all_count() -> None:
    calls = [("ToolSearch", {"query": f"select:crm_{number:02}"}) for number in (9, 3, 5)]
    world = World([ToolCalls(calls), "Done."])
    play(world.talk("Go."))
    assert world.loaded()[-1] == ["crm_03", "crm_05", "crm_09"]


def test_a_search_loads_no_more_than_it_is_asked_for() -> None:
    world = World([search("crm", max_results=2), search("+zebra crm"), "Done."])
    play(world.talk("Go."))
    assert world.loaded() == [[], ["crm_00", "crm_01"], ["crm_00", "crm_01"]]


def test_the_beginning_of_a_prompt_stays_the_same_while_nothing_is_loaded_or_deferred() -> None:
    world = World([*idle(3), search("select:crm_04"), *idle(3), "Done.", "And again."])
    play(world.talk("Go.", "Again."))
    prefixes = [prefix(request) for request in world.model.requests]
    assert len(set(prefixes[:4])) == 1
    assert len(set(prefixes[4:])) == 1
    # The list is no part of what changes: it has all tools that can be searched.
    assert len({request.system for request in world.model.requests}) == 1


def test_loaded_tools_belong_to_the_conversation() -> None:
    world = World([search("select:crm_04"), "Done.", "Yes.", "No."])

    async def scenario() -> None:
        async with AgentRuntime([world.agent]) as runtime:
            await runtime.run("a", "Go.", thread_id="t1")
            await runtime.run("a", "Still there?", thread_id="t1")
            await runtime.run("a", "And here?", thread_id="t2")

    play(scenario())
    assert world.loaded() == [[], ["crm_04"], ["crm_04"], []]


def test_a_loaded_tool_that_nobody_calls_is_deferred_again_and_one_that_is_called_stays() -> None:
    use = ToolCalls([("crm_02", {})])
    world = World([search("select:crm_01,crm_02"), use, *idle(6), "Done."])
    play(world.talk("Go."))
    both, used = ["crm_01", "crm_02"], ["crm_02"]
    # Five turns pass without a call; the request of the sixth is the first without the tool.
    assert world.loaded() == [[], *[both] * 5, *[used] * 3]


def test_a_tool_that_was_deferred_again_stays_so_in_the_next_run() -> None:
    """A run begins with the prior, by which alone the tool would not be deferred."""
    world = World([search("select:crm_01"), *idle(6), "Done.", "Yes."], disc_beta={"gamma": 500})
    play(world.talk("Go.", "Still deferred?"))
    assert world.loaded() == [[], *[["crm_01"]] * 5, [], [], []]


def test_a_tool_that_was_deferred_again_can_be_loaded_again() -> None:
    again = search("select:crm_01")
    world = World([again, *idle(5), again, "Done."])
    play(world.talk("Go."))
    assert world.loaded() == [[], *[["crm_01"]] * 5, [], ["crm_01"]]


def test_two_runs_of_one_script_defer_in_the_same_turns() -> None:
    script = [search("crm", max_results=3), *idle(7), "Done."]
    worlds = [World(script), World(script)]
    for world in worlds:
        play(world.talk("Go."))
    assert worlds[0].offered() == worlds[1].offered()


def test_a_tool_that_is_called_without_having_been_loaded_runs_and_is_loaded() -> None:
    world = World([ToolCalls([("crm_11", {})]), "Done."])
    play(world.talk("Go."))
    assert world.calls == ["crm_11"]
    assert world.loaded() == [[], ["crm_11"]]


class Stern(Plugin):
    """Refuses one tool; hides it too, if told so."""

    name = "stern"

    def __init__(self, *, hides: bool = False) -> None:
        self._hides = hides

    def register(self, registrar: PluginRegistrar) -> None:
        registrar.gate(self.gate)
        if self._hides:
            registrar.hook(Phase.BEFORE_INFERENCE, self.hide)

    async def gate(self, context: ToolGateContext) -> GateDecision | None:
        return Block(reason="never") if context.call.name == "crm_11" else None

    async def hide(self, context: PhaseContext) -> StateCommand:
        return StateCommand().update(TOOL_FILTER, ToolFilter(excluded=("crm_11",)))


def test_a_gate_decides_about_deferred_tools_as_about_all_others() -> None:
    world = World([ToolCalls([("crm_11", {})]), "Done."], Stern())
    play(world.talk("Go.", "Still alive?"))
    assert world.calls == []
    assert world.loaded() == [[], []]


def test_a_tool_that_another_plugin_hides_is_neither_listed_nor_found_nor_offered() -> None:
    world = World([search("select:crm_11,crm_12"), "Done."], Stern(hides=True))
    play(world.talk("Go."))
    assert world.loaded() == [[], ["crm_12"]]
    for request in world.model.requests:
        assert "crm_11" not in request.system[0]
        assert "crm_12" in request.system[0]
    (result,) = [it for it in world.model.requests[1].messages if it.tool_call_id]
    assert "crm_11" not in result.text


class Skilled(Plugin):
    """Says in the second step which tools the run needs."""

    name = "skilled"

    def __init__(self, *patterns: str) -> None:
        self._patterns = patterns

    def register(self, registrar: PluginRegistrar) -> None:
        registrar.hook(Phase.BEFORE_INFERENCE, self.want)

    async def want(self, context: PhaseContext) -> StateCommand | None:
        is_second = context.step == 2
        return StateCommand().update(WANTED_TOOLS, self._patterns) if is_second else None


def test_wanted_tools_are_loaded_and_stay_for_the_run() -> None:
    world = World([*idle(9), "Done.", "Again."], Skilled("crm_1*", "crm_03", "broken\\"))
    play(world.talk("Go.", "Go on."))
    wanted = ["crm_03", *(f"crm_1{number}" for number in range(10))]
    assert world.loaded() == [[], *[wanted] * 9, []]


def test_without_need_nothing_is_deferred_and_there_is_no_search() -> None:
    world = World(["Hello."], enabled=None, beta_overhead=1e6)
    play(world.talk("Hi."))
    assert world.offered() == [["clock", *(f"crm_{number:02}" for number in range(20))]]
    assert world.model.requests[0].system == ()


def test_a_section_that_is_wrong_is_refused_with_the_agent() -> None:
    for wrong in ({"rules": [{"tool": "x\\", "mode": "eager"}]}, {"disc_beta": {"omega": 0}}):
        with pytest.raises(InvalidSpec, match="deferred_tools"):
            AgentRuntime([World([], **wrong).agent])


# What is learned


def learned(store: SqliteStore) -> Any:
    """What the store knows of the agent's use of tools."""

    async def scenario() -> Any:
        async with AgentRuntime([Agent("x", model=ScriptedModel([]))], store=store):
            entry = await store.find_entry(agent_type_scope("a"), "deferred_tools.learned")
            return None if entry is None else entry.value

    return play(scenario())


def test_a_run_teaches_how_often_tools_are_called(tmp_path: Path) -> None:
    use = ToolCalls([("crm_02", {}), ("crm_02", {})])
    world = World([use, *idle(2), "Done."], store=SqliteStore(tmp_path / "a.db"))
    play(world.talk("Go."))
    value = learned(SqliteStore(tmp_path / "a.db"))
    assert value == {"runs": 1, "presence": {"crm_02": 0.25}}


def test_each_run_of_a_thread_teaches_by_its_own_turns(tmp_path: Path) -> None:
    use = ToolCalls([("crm_02", {})])
    world = World([use, *idle(1), "Done.", use, "Done."], store=SqliteStore(tmp_path / "a.db"))
    play(world.talk("Go.", "Again."))
    value = learned(SqliteStore(tmp_path / "a.db"))
    assert value["presence"]["crm_02"] == pytest.approx((1 / 3 + 1 / 2) / 2)


class CountedReads(MemoryProfileStore):
    """Counts how often it is read."""

    reads = 0

    async def find_entry(self, owner: str, key: str) -> ProfileEntry | None:
        self.reads += key == "deferred_tools.learned"
        return await super().find_entry(owner, key)


def test_what_was_learned_is_read_once_in_a_run() -> None:
    world = World([*idle(4), "Done."])
    world.options["profile"] = profile = CountedReads()
    play(world.talk("Go."))
    assert profile.reads == 1


def test_a_run_that_calls_no_deferred_tool_and_knows_of_none_writes_nothing(
    tmp_path: Path,
) -> None:
    world = World([*idle(2), "Done."], store=SqliteStore(tmp_path / "a.db"))
    play(world.talk("Go."))
    assert learned(SqliteStore(tmp_path / "a.db")) is None


def test_what_was_learned_is_applied_in_later_runs(tmp_path: Path) -> None:
    """The same idle turns defer a tool that is rarely called, and not one that often is."""
    use = ToolCalls([("crm_02", {})])
    lesson = World([use, use, "Done."], store=SqliteStore(tmp_path / "a.db"))
    play(lesson.talk("Go.", thread_id="before"))
    script = [search("select:crm_01,crm_02"), *idle(7), "Done."]
    world = World(script, store=SqliteStore(tmp_path / "a.db"))
    play(world.talk("Go."))
    both = ["crm_01", "crm_02"]
    assert world.loaded() == [[], *[both] * 5, *[["crm_02"]] * 3]


def test_configured_priors_hold_until_the_agent_has_learned_better(tmp_path: Path) -> None:
    script = [search("select:crm_01,crm_02"), *idle(7), "Done."]
    priors = {"agent_priors": {"crm_02": 0.6}}
    first = World(script, store=SqliteStore(tmp_path / "a.db"), **priors)
    play(first.talk("Go.", thread_id="t1"))
    assert first.loaded()[-1] == ["crm_02"]
    assert learned(SqliteStore(tmp_path / "a.db"))["presence"] == {"crm_02": 0.0}
    second = World(script, store=SqliteStore(tmp_path / "a.db"), **priors)
    play(second.talk("Go.", thread_id="t2"))
    assert second.loaded()[-1] == []


def test_runs_that_end_at_the_same_time_all_count(tmp_path: Path) -> None:
    use = ToolCalls([("crm_02", {})])
    runs = 12

    def answer(request: InferenceRequest) -> Any:
        return "Done." if any(it.tool_call_id for it in request.messages) else use

    world = World([answer] * (2 * runs), store=SqliteStore(tmp_path / "a.db"))

    async def scenario() -> None:
        async with AgentRuntime([world.agent], **world.options) as runtime:
            await asyncio.gather(
                *(runtime.run("a", "Go.", thread_id=f"t{number}") for number in range(runs))
            )

    play(scenario())
    value = learned(SqliteStore(tmp_path / "a.db"))
    assert value["runs"] == runs
    assert value["presence"]["crm_02"] == pytest.approx(0.5)


def test_what_was_learned_wrongly_is_told_by_the_name_of_the_key(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "a.db")
    world = World(["Hello."], store=store)

    async def scenario() -> None:
        async with AgentRuntime([world.agent], store=store) as runtime:
            entry = ProfileEntry(
                owner=agent_type_scope("a"), key="deferred_tools.learned", value={"runs": "many"}
            )
            await store.save_entry(entry)
            with pytest.raises(RunFailed, match=r"deferred_tools\.learned"):
                await runtime.run("a", "Hi.")

    play(scenario())


def test_loaded_tools_stand_behind_the_others_so_that_their_prompt_stays_the_same() -> None:
    async def scenario() -> None:
        model = ScriptedModel([ToolCalls([("ToolSearch", {"query": "select:aaa"})]), "done"])
        rules = [{"tool": "zzz", "mode": "eager"}]

        @tool(effect="none")
        async def aaa() -> str:
            """Comes first by its name."""
            return ""

        @tool(effect="none")
        async def zzz() -> str:
            """Comes last by its name."""
            return ""

        agent = Agent(
            "a",
            model=model,
            tools=[aaa, zzz],
            plugins=[DeferredToolsPlugin()],
            config={"deferred_tools": {"enabled": True, "rules": rules}},
        )
        async with AgentRuntime([agent]) as runtime:
            await runtime.run("a", "go")
        before, after = ([it.id for it in request.tools] for request in model.requests)
        assert before == ["ToolSearch", "zzz"]
        assert after == ["ToolSearch", "zzz", "aaa"]

    asyncio.run(scenario())
