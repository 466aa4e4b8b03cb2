"""The generative UI plugin in whole runs: what is offered, told, shown while it is written."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from awaken import Agent, AgentRuntime, ToolContext, tool
from awaken.contracts.errors import AwakenError, InvalidPluginConfig, InvalidSpec
from awaken.contracts.events import (
    ActivityDelta,
    ActivitySnapshot,
    AgentEvent,
    RunFinish,
    ToolCallDone,
)
from awaken.contracts.lifecycle import Cancelled, NaturalEnd, Suspended
from awaken.contracts.models.errors import StreamInterrupted
from awaken.contracts.models.inference import InferenceRequest
from awaken.contracts.tool_results import ToolResult, ToolStatus
from awaken.extensions.generative_ui import GenerativeUiPlugin, json_render_rules
from awaken.extensions.generative_ui.json_patch import apply_operation
from awaken.protocols.ag_ui.encoder import AgUiEncoder
from awaken.protocols.ai_sdk.encoder import AiSdkEncoder
from awaken.testing import Chunks, ScriptedModel, ToolCalls, Turn

BOUND_S = 20
CARD = {"type": "Card", "children": []}
OPERATIONS = [
    {"op": "add", "path": "/root", "value": "page"},
    {"op": "add", "path": "/elements/page", "value": CARD},
    {"op": "add", "path": "/elements/text", "value": {"type": "Text"}},
    {"op": "add", "path": "/elements/page/children/-", "value": "text"},
]
LINES = [json.dumps(it) + "\n" for it in OPERATIONS]
SPEC = {
    "root": "page",
    "elements": {"page": {"type": "Card", "children": ["text"]}, "text": {"type": "Text"}},
}
PROGRAM = 'root = Card([title])\ntitle = Text("Hi")\n'
BOTH = {"json_render": {"agent": "writer"}, "openui": {"agent": "writer"}}
JSON_UI = ToolCalls([("render_json_ui", {"prompt": "a card"})])
OPENUI = ToolCalls([("render_openui", {"prompt": "a card"})])


def lead(*script: Any, section: Any = BOTH, **options: Any) -> Agent:
    return Agent(
        "lead",
        model=ScriptedModel([*script, "done"]),
        delegates=["writer"],
        plugins=[GenerativeUiPlugin(), *options.pop("plugins", ())],
        config={"generative_ui": section},
        **options,
    )


def writer(*script: Any, **options: Any) -> Agent:
    return Agent("writer", model=ScriptedModel(script), **options)


def played(*agents: Agent) -> list[AgentEvent]:
    async def scenario() -> list[AgentEvent]:
        async with asyncio.timeout(BOUND_S), AgentRuntime(list(agents)) as runtime:
            return [it async for it in runtime.stream("lead", "go", thread_id="t")]

    return asyncio.run(scenario())


def result_of(events: list[AgentEvent]) -> ToolResult:
    (done,) = (it for it in events if isinstance(it, ToolCallDone))
    return done.result


def activities(events: list[AgentEvent], type_: str) -> list[ActivitySnapshot | ActivityDelta]:
    found = [it for it in events if isinstance(it, ActivitySnapshot | ActivityDelta)]
    return [it for it in found if it.activity_type == type_]


def views(events: list[AgentEvent], type_: str) -> list[Any]:
    """What a client sees after each event."""
    seen: list[Any] = []
    for event in activities(events, type_):
        if isinstance(event, ActivitySnapshot):
            seen.append(event.content)
            continue
        view = seen[-1]
        for operation in event.patch:
            view = apply_operation(view, operation)
        seen.append(view)
    return seen


def test_a_spec_is_shown_line_by_line_and_given_back_whole() -> None:
    text = "".join(LINES)
    pieces = [text[at : at + 17] for at in range(0, len(text), 17)]
    events = played(lead(JSON_UI), writer(Chunks(["Here it is:\n", *pieces])))
    result = result_of(events)
    assert result.data == {"rendered": True, "spec": SPEC}
    assert result.usage is not None
    seen = views(events, "generative-ui.json-render")
    assert len(seen) == 1 + len(OPERATIONS) + 1
    assert seen[0] == {"root": "", "elements": {}}
    assert seen[1] == {"root": "page", "elements": {}}
    assert seen[-2] == seen[-1] == SPEC


def test_a_program_is_shown_statement_by_statement_and_given_back_whole() -> None:
    events = played(lead(OPENUI), writer(Chunks(list(PROGRAM))))
    assert result_of(events).data == {"rendered": True, "program": PROGRAM.strip()}
    first, second = PROGRAM.strip().split("\n")
    assert views(events, "generative-ui.openui-lang") == [
        {"statements": []},
        {"statements": [first]},
        {"statements": [first, second]},
    ]


def test_the_writer_is_told_how_to_write_and_what() -> None:
    section = {"json_render": {"agent": "writer", "components": {"Card": "A box."}}}
    model = ScriptedModel(["".join(LINES[:2])])
    events = played(lead(JSON_UI, section=section), Agent("writer", model=model))
    assert result_of(events).status is ToolStatus.SUCCESS
    (request,) = model.requests
    told = request.messages[-1].text
    assert told.startswith(json_render_rules({"Card": "A box."}))
    assert told.endswith("## What to show\n\na card")
    assert "- Card: A box." in told


def test_only_the_last_answer_of_the_writer_counts() -> None:
    @tool(effect="none")
    async def look() -> str:
        """Look something up."""
        return "found"

    script = [ToolCalls([("look", {})], text=LINES[0] + LINES[1]), "".join(LINES)]
    events = played(lead(JSON_UI), writer(*script, tools=[look]))
    assert result_of(events).data == {"rendered": True, "spec": SPEC}
    seen = views(events, "generative-ui.json-render")
    again = seen.index({"root": "", "elements": {}}, 1)
    assert seen[again - 1]["elements"] == {"page": CARD}
    assert seen[-1] == SPEC


def test_what_is_taken_back_in_the_middle_of_an_answer_is_not_shown_any_more() -> None:
    broken = Turn(text=Chunks([LINES[0], LINES[1]]), error=StreamInterrupted("gone"))
    events = played(lead(JSON_UI), writer(broken, "".join(LINES), "".join(LINES)))
    result = result_of(events)
    assert result.data == {"rendered": True, "spec": SPEC}
    assert views(events, "generative-ui.json-render")[-1] == SPEC


FAILURES: list[tuple[str, Any, str]] = [
    ("no spec", "I cannot draw.", "'root' must be the name of one of the 'elements'"),
    (
        "a child missing",
        LINES[0] + json.dumps({**OPERATIONS[1], "value": {"type": "C", "children": ["x"]}}),
        "child 'x'",
    ),
    ("a model that fails", ValueError("broken model"), "did not answer (failed"),
    ("a model that says nothing", "", "did not answer"),
]


@pytest.mark.parametrize(("name", "answer", "problem"), FAILURES, ids=[it[0] for it in FAILURES])
def test_what_cannot_be_shown_is_an_error_that_the_model_can_act_on(
    name: str, answer: Any, problem: str
) -> None:
    events = played(lead(JSON_UI), writer(answer))
    result = result_of(events)
    assert result.status is ToolStatus.ERROR
    if name != "a model that says nothing":
        assert problem in (result.message or "")
    assert isinstance(events[-1], RunFinish)
    assert events[-1].termination == NaturalEnd()


def test_left_out_lines_are_reported_with_the_result() -> None:
    wrong = json.dumps({"op": "remove", "path": "/elements/none"}) + "\n"
    data = result_of(played(lead(JSON_UI), writer(wrong + "".join(LINES)))).data
    assert data["spec"] == SPEC
    assert len(data["warnings"]) == 1


def test_whoever_cancels_the_run_cancels_the_writer() -> None:
    async def scenario() -> None:
        begun = asyncio.Event()

        async def forever(_: InferenceRequest) -> str:
            begun.set()
            await asyncio.Event().wait()
            return ""

        model = ScriptedModel([forever])
        agents = [lead(JSON_UI), Agent("writer", model=model)]
        async with asyncio.timeout(BOUND_S), AgentRuntime(agents) as runtime:
            run = asyncio.ensure_future(runtime.run("lead", "go", thread_id="t"))
            await begun.wait()
            await runtime.cancel("t")
            result = await run
            assert isinstance(result.termination, Cancelled)
            children = [it for it in await runtime.list_runs() if it.parent_run_id is not None]
            assert [type(it.termination) for it in children] == [Cancelled]
            assert model.open_streams == 0

    asyncio.run(scenario())


def test_a_writer_that_waits_for_somebody_makes_the_call_wait_and_goes_on() -> None:
    @tool(effect="idempotent")
    async def ask(ctx: ToolContext) -> Any:
        """Ask somebody."""
        if ctx.resume is None:
            return ctx.suspend("Which colour?")
        return ctx.resume.result

    async def scenario() -> None:
        script = [ToolCalls([("ask", {})]), "".join(LINES)]
        agents = [lead(JSON_UI), writer(*script, tools=[ask])]
        async with asyncio.timeout(BOUND_S), AgentRuntime(agents) as runtime:
            waiting = await runtime.run("lead", "go", thread_id="t")
            assert waiting.termination == Suspended()
            (ticket,) = waiting.tickets
            assert ticket.suspension.action == "agent_delegate:suspended"
            await runtime.decide(ticket.ticket_id, "resume", result="red")
            ended = await runtime.wait(waiting.run_id, timeout_ms=BOUND_S * 1000)
            assert ended.termination == NaturalEnd()
            results = [
                it.message for it in await runtime.messages("t") if it.message.role == "tool"
            ]
            assert json.loads(results[-1].text) == {"rendered": True, "spec": SPEC}
            assert len([it for it in await runtime.list_runs() if it.parent_run_id]) == 1

    asyncio.run(scenario())


def offered(section: Any, *calls: ToolCalls) -> tuple[list[str], str, list[AgentEvent]]:
    """The tools and the system text of the first request, and what happened."""
    agent = lead(*calls, section=section)
    events = played(agent, writer())
    assert isinstance(agent.model, ScriptedModel)
    request = agent.model.requests[0]
    ours = [it.id for it in request.tools if it.id.startswith("render_")]
    return ours, "\n".join(request.system), events


def test_an_agent_is_offered_and_told_what_its_config_asks_for() -> None:
    tools, system, _ = offered({})
    assert tools == ["render_a2ui"]
    assert "A2UI v0.8" in system
    assert "surfaceUpdate: surfaceId id, components components" in system
    assert "MultipleChoice" in system
    tools, system, _ = offered({"a2ui": False, **BOTH})
    assert tools == ["render_json_ui", "render_openui"]
    assert "A2UI" not in system
    section = {"version": "v1.0", "catalog_id": "mine", "examples": "EX", "instructions": "INS"}
    tools, system, _ = offered(section)
    assert "A2UI v1.0" in system
    assert "catalog mine" in system
    assert "ChoicePicker" not in system
    assert system.endswith("## Examples\n\nEX\n\nINS")


def test_what_an_agent_is_told_is_the_same_in_every_step_and_every_run() -> None:
    divider = {"id": "r", "component": {"Divider": {}}}
    update = {"surfaceUpdate": {"surfaceId": "s", "components": [divider]}}
    agents = [lead(ToolCalls([("render_a2ui", update)])) for _ in range(2)]
    texts = set()
    for agent in agents:
        played(agent, writer())
        assert isinstance(agent.model, ScriptedModel)
        for request in agent.model.requests:
            texts.add(request.system)
    ((text,),) = texts
    assert "A2UI v0.8" in text


@pytest.mark.parametrize("call", [JSON_UI, OPENUI], ids=["json", "openui"])
def test_a_tool_that_is_not_offered_is_denied_when_it_is_called_all_the_same(
    call: ToolCalls,
) -> None:
    _, _, events = offered({}, call)
    result = result_of(events)
    assert result.status is ToolStatus.ERROR
    assert (result.message or "").startswith("Denied: agent 'lead' may not use")


WRONG: list[tuple[str, Any, str]] = [
    ("a version that is none", {"version": "v0.7"}, "v0.7"),
    ("an unknown field", {"versions": "v0.8"}, "versions"),
    ("somebody who is no delegate", {"json_render": {"agent": "ghost"}}, "'ghost' must be among"),
    ("an openui writer who is none", {"openui": {"agent": "ghost"}}, "'ghost' must be among"),
    ("a small letter", {"openui": {"agent": "writer", "components": {"card": []}}}, "'card' is no"),
    (
        "a reserved name",
        {"openui": {"agent": "writer", "components": {"Query": []}}},
        "'Query' is no",
    ),
    (
        "an unknown root",
        {"openui": {"agent": "writer", "components": {"A": []}, "root": "B"}},
        "root 'B'",
    ),
    (
        "a needed argument late",
        {"openui": {"agent": "writer", "components": {"A": ["x?", "y"]}}},
        "come before",
    ),
]


@pytest.mark.parametrize(("name", "section", "problem"), WRONG, ids=[it[0] for it in WRONG])
def test_a_config_that_cannot_be_used_refuses_the_agent(
    name: str, section: Any, problem: str
) -> None:
    with pytest.raises(AwakenError) as refusal:
        played(lead(section=section), writer())
    assert isinstance(refusal.value, InvalidSpec | InvalidPluginConfig)
    if name != "a version that is none":
        assert problem in str(refusal.value)


def test_two_calls_of_one_step_do_not_lose_each_others_surfaces() -> None:
    def surface(name: str) -> tuple[str, Any]:
        divider = {"id": "r", "component": {"Divider": {}}}
        return "render_a2ui", {"surfaceUpdate": {"surfaceId": name, "components": [divider]}}

    begin = [("render_a2ui", {"beginRendering": {"surfaceId": it, "root": "r"}}) for it in "ab"]
    script = [ToolCalls([surface("a"), surface("b")]), ToolCalls(begin)]
    events = played(lead(*script, section={}), writer())
    results = [it.result for it in events if isinstance(it, ToolCallDone)]
    assert [it.data for it in results] == [{"rendered": True, "count": 1}] * 4


def frames(events: list[AgentEvent], encode: Callable[[AgentEvent], Any]) -> list[Any]:
    lines = [frame for event in events for frame in encode(event)]
    return [msgspec.json.decode(it.split(b"data: ", 1)[1]) for it in lines]


def test_ag_ui_and_ai_sdk_clients_are_shown_all_three() -> None:
    divider = {"id": "r", "component": {"Divider": {}}}
    update = {"surfaceUpdate": {"surfaceId": "s", "components": [divider]}}
    script = [ToolCalls([("render_a2ui", update)]), JSON_UI, OPENUI]
    events = played(lead(*script), writer("".join(LINES), PROGRAM))
    told = frames(events, AgUiEncoder().encode)
    shown = {it["activityType"]: it for it in told if it["type"] == "ACTIVITY_SNAPSHOT"}
    assert shown["a2ui-surface"]["content"] == {"a2ui_operations": [update]}
    assert shown["a2ui-surface"]["replace"] is True
    assert shown["generative-ui.json-render"]["content"] == SPEC
    assert shown["generative-ui.openui-lang"]["content"]["statements"]
    changed = {it["activityType"] for it in told if it["type"] == "ACTIVITY_DELTA"}
    assert changed == {"generative-ui.json-render", "generative-ui.openui-lang"}
    parts = frames(events, AiSdkEncoder().encode)
    whole = [it["data"] for it in parts if it["type"] == "data-activity-snapshot"]
    assert {it["activity_type"] for it in whole} >= shown.keys()
    pieces = [it["data"] for it in parts if it["type"] == "data-activity-delta"]
    assert {it["activity_type"] for it in pieces} == changed
