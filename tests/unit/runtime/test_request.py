"""Building a request: where context messages go, which tools are offered, who overrides what."""

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from awaken import PluginRegistrar, StateCommand, tool
from awaken.contracts.messages.content import Text
from awaken.contracts.messages.context_messages import (
    ContextMessage,
    ContextTarget,
    conversation_context,
    session_context,
    suffix_context,
    system_context,
)
from awaken.contracts.messages.message import Message, Role, Visibility, user
from awaken.contracts.models.inference import (
    ContextWindowPolicy,
    Effort,
    InferenceOverride,
    InferenceRequest,
    ModelTool,
)
from awaken.contracts.phases import Phase
from awaken.contracts.plugins.loop_state import (
    ADD_CONTEXT_MESSAGE,
    CONTEXT_MESSAGES,
    CONTEXT_THROTTLE,
    SET_INFERENCE_OVERRIDE,
    STEP_OVERRIDE,
    TOOL_FILTER,
    ContextEmitted,
    RemoveContext,
    Throttled,
    ToolFilter,
    UpsertContext,
)
from awaken.contracts.plugins.plugin import PhaseContext
from awaken.contracts.state.keys import ScheduledActionSpec
from awaken.runtime.inference.request import build_request
from awaken.runtime.phases.commands import submit
from awaken.runtime.run import Run
from awaken.testing.scripted_model import ScriptedModel, ToolCalls

from .worlds import Made, play, runtime_of, with_run


def named_tools(*names: str) -> list[Any]:
    async def call() -> str:
        return "x"

    return [tool(id=name, description="d", effect="none")(call) for name in names]


def adding(*messages: ContextMessage) -> StateCommand:
    command = StateCommand()
    for message in messages:
        command = command.schedule(ADD_CONTEXT_MESSAGE, message)
    return command


def said(request: InferenceRequest) -> list[str]:
    return [message.text for message in request.messages]


@pytest.mark.parametrize("prompt", ["Be brief.", ""])
@pytest.mark.parametrize("history", [(), (user("one"), user("two"))])
def test_without_context_messages_the_transcript_itself_is_sent(
    prompt: str, history: tuple[Message, ...]
) -> None:
    async def use(run: Run) -> None:
        request = build_request(run)
        assert request.messages is run.messages
        assert request.system == ((prompt,) if prompt else ())
        assert (request.tools, request.overrides) == ((), None)

    with_run(use, instructions=prompt, messages=history)


@pytest.mark.parametrize("prompt", ["prompt", ""])
@pytest.mark.parametrize("history", [(), (user("h1"), user("h2"))])
def test_every_target_has_its_place_around_prompt_and_history(
    prompt: str, history: tuple[Message, ...]
) -> None:
    command = adding(
        suffix_context("z2", "last"),
        conversation_context("c", Role.USER, "talk"),
        session_context("s", Role.ASSISTANT, "session"),
        system_context("b", "rule b"),
        system_context("a", "rule a"),
        ContextMessage(
            key="z1", target=ContextTarget.SYSTEM, content=(Text(text="rule 0"),), priority=-1
        ),
    )

    async def use(run: Run) -> InferenceRequest:
        await submit(run, command)
        await play(run, Phase.BEFORE_INFERENCE)
        return build_request(run)

    request = with_run(use, instructions=prompt, messages=history)
    assert request.system == (*([prompt] if prompt else []), "rule 0", "rule a", "rule b")
    texts = [message.text for message in history]
    assert said(request) == ["session", "talk", *texts, "last"]
    ends = [request.messages[index] for index in (0, 1, -1)]
    assert [message.role for message in ends] == [Role.ASSISTANT, Role.USER, Role.SYSTEM]
    hidden = Visibility.INTERNAL
    assert [message.visibility for message in ends] == [hidden, Visibility.ALL, hidden]


contexts = st.builds(
    ContextMessage,
    key=st.sampled_from(["a", "a.b", "b"]),
    persistent=st.booleans(),
    consume_after_emit=st.booleans(),
    content=st.sampled_from([(Text(text="x"),), (Text(text="y"),)]),
)
updates = st.one_of(
    st.builds(UpsertContext, message=contexts),
    st.builds(RemoveContext, key=st.sampled_from(["a", "b", "c"]), is_prefix=st.booleans()),
    st.just(ContextEmitted()),
)


@given(st.lists(updates, max_size=10))
def test_the_store_of_context_messages_keeps_exactly_what_it_should(updates: list[Any]) -> None:
    value = CONTEXT_MESSAGES.default
    expected: dict[str, ContextMessage] = {}
    for update in updates:
        value = CONTEXT_MESSAGES.apply_update(value, update)
        match update:
            case UpsertContext(message=message):
                expected[message.key] = message
            case RemoveContext(key=key, is_prefix=is_prefix):
                gone = [k for k in expected if (k.startswith(key) if is_prefix else k == key)]
                for name in gone:
                    del expected[name]
            case ContextEmitted():
                for name in [
                    k for k, m in expected.items() if not m.persistent or m.consume_after_emit
                ]:
                    del expected[name]
        assert value == expected
    assert CONTEXT_MESSAGES.decode(CONTEXT_MESSAGES.encode(value)) == expected
    assert CONTEXT_MESSAGES.default == {}


def spoken(message: ContextMessage, steps: int, changes_at: int | None = None) -> list[bool]:
    """In which of a run's steps a message that is added in each one reaches the model."""
    model = ScriptedModel([ToolCalls([("t", {})])] * (steps - 1) + ["done"])

    async def hook(context: PhaseContext) -> StateCommand:
        text = "new" if changes_at is not None and context.step >= changes_at else "old"
        content = (Text(text=text),)
        return adding(ContextMessage(**{**fields, "content": content}))

    fields = {name: getattr(message, name) for name in message.__struct_fields__}

    def declare(registrar: PluginRegistrar) -> None:
        registrar.hook(Phase.BEFORE_INFERENCE, hook)

    runtime = runtime_of(Made("p", declare), model=model, tools=named_tools("t"))
    asyncio.run(runtime.run("a", "hi"))
    return [bool(request.system) for request in model.requests]


@pytest.mark.parametrize(
    ("cooldown", "changes_at", "expected"),
    [
        (0, None, "xxxxxx"),
        (1, None, "xxxxxx"),
        (2, None, "x.x.x."),
        (3, None, "x..x.."),
        (9, None, "x....."),
        (9, 3, "x.x..."),
        (3, 3, "x.x..x"),
    ],
)
def test_a_message_that_cools_down_is_left_out_unless_it_says_something_new(
    cooldown: int, changes_at: int | None, expected: str
) -> None:
    message = ContextMessage(key="k", cooldown_turns=cooldown)
    seen = spoken(message, len(expected), changes_at)
    assert "".join("x" if is_said else "." for is_said in seen) == expected


def test_throttling_remembers_each_message_by_itself() -> None:
    first, second = Throttled(step=1, content_hash="a"), Throttled(step=2, content_hash="b")
    value = CONTEXT_THROTTLE.apply_update({}, ("k", first))
    value = CONTEXT_THROTTLE.apply_update(value, ("l", first))
    value = CONTEXT_THROTTLE.apply_update(value, ("k", second))
    assert value == {"k": second, "l": first}
    assert CONTEXT_THROTTLE.decode(CONTEXT_THROTTLE.encode(value)) == value


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (ContextMessage(key="k"), "x.."),
        (ContextMessage(key="k", persistent=True), "xxx"),
        (ContextMessage(key="k", persistent=True, consume_after_emit=True), "x.."),
        (ContextMessage(key="k", consume_after_emit=True), "x.."),
    ],
)
def test_a_message_added_once_stays_as_long_as_it_should(
    message: ContextMessage, expected: str
) -> None:
    async def use(run: Run) -> str:
        shown = ContextMessage(
            key="k",
            content=(Text(text="hi"),),
            persistent=message.persistent,
            consume_after_emit=message.consume_after_emit,
        )
        await submit(run, adding(shown))
        await play(run, Phase.BEFORE_INFERENCE)
        return "".join(["x" if build_request(run).system else "." for _ in range(3)])

    assert with_run(use) == expected


ALL = ("t1", "t2", "t3", "t4")
tool_lists = st.lists(st.sampled_from([*ALL, "unknown"]), max_size=3)


@given(tool_lists, st.lists(tool_lists, max_size=2))
@settings(max_examples=40, deadline=None)
def test_the_tools_of_a_step_are_the_union_of_the_allowed_without_the_excluded(
    excluded: list[str], allowed: list[list[str]]
) -> None:
    command = StateCommand()
    for name in excluded:
        command = command.update(TOOL_FILTER, ToolFilter(excluded=(name,)))
    for names in allowed:
        command = command.update(TOOL_FILTER, ToolFilter(include_only=(tuple(names),)))

    async def use(run: Run) -> tuple[list[str], list[str]]:
        await submit(run, command)
        await play(run, Phase.BEFORE_INFERENCE)
        first, second = build_request(run), build_request(run)
        assert not run.state.has(TOOL_FILTER)
        return [t.id for t in first.tools], [t.id for t in second.tools]

    wanted = {name for names in allowed for name in names} if allowed else set(ALL)
    expected = [name for name in ALL if name in wanted and name not in excluded]
    assert with_run(use, tools=named_tools(*reversed(ALL))) == (expected, list(ALL))


def test_a_stored_action_that_hides_a_tool_still_does() -> None:
    # Nothing schedules them any more, and stores have runs that wait with them.
    command = (
        StateCommand()
        .schedule(ScheduledActionSpec("runtime.exclude_tool", Phase.BEFORE_INFERENCE), "t1")
        .schedule(
            ScheduledActionSpec("runtime.include_only_tools", Phase.BEFORE_INFERENCE), ("t1", "t2")
        )
    )

    async def use(run: Run) -> list[str]:
        await submit(run, command)
        await play(run, Phase.BEFORE_INFERENCE)
        return [tool.id for tool in build_request(run).tools]

    assert with_run(use, tools=named_tools(*ALL)) == ["t2"]


def test_overrides_come_from_agent_run_and_step_and_the_later_wins_for_one_step() -> None:
    model = ScriptedModel([ToolCalls([("t", {})]), "done"])

    async def first(context: PhaseContext) -> StateCommand | None:
        if context.step > 1:
            return None
        given_ = InferenceOverride(temperature=0.5, max_tokens=7, top_p=0.1)
        return StateCommand().schedule(SET_INFERENCE_OVERRIDE, given_)

    async def second(context: PhaseContext) -> StateCommand | None:
        if context.step > 1:
            return None
        given_ = InferenceOverride(max_tokens=9, upstream_model=" big ")
        return StateCommand().schedule(SET_INFERENCE_OVERRIDE, given_)

    def declare(registrar: PluginRegistrar) -> None:
        registrar.hook(Phase.BEFORE_INFERENCE, first)
        registrar.hook(Phase.BEFORE_INFERENCE, second)

    runtime = runtime_of(
        Made("p", declare), model=model, tools=named_tools("t"), reasoning_effort="low"
    )
    asked = InferenceOverride(temperature=0.9, reasoning_effort=Effort.HIGH)
    asyncio.run(runtime.run("a", "hi", overrides=asked))
    step1, step2 = model.requests
    assert (step1.upstream_model, step2.upstream_model) == ("big", "a:model")
    assert step1.overrides == InferenceOverride(
        temperature=0.5, max_tokens=9, top_p=0.1, reasoning_effort=Effort.HIGH
    )
    assert step2.overrides == asked


def test_step_overrides_add_up_and_clear() -> None:
    value = STEP_OVERRIDE.apply_update(STEP_OVERRIDE.default, InferenceOverride(top_p=0.5))
    value = STEP_OVERRIDE.apply_update(value, InferenceOverride(max_tokens=1))
    assert value == InferenceOverride(top_p=0.5, max_tokens=1)
    assert STEP_OVERRIDE.apply_update(value, None).is_empty


def test_transforms_are_chained_in_order_and_leave_the_transcript_alone() -> None:
    def adding_word(word: str) -> Any:
        def transform(messages: list[Message], tools: tuple[ModelTool, ...]) -> list[Message]:
            messages.append(user(f"{word} after {len(messages)}, {len(tools)} tools"))
            return messages

        return transform

    def declare(registrar: PluginRegistrar) -> None:
        registrar.transform(adding_word("first"))
        registrar.transform(adding_word("second"))

    async def use(run: Run) -> None:
        request = build_request(run)
        assert said(request) == ["hi", "first after 1, 1 tools", "second after 2, 1 tools"]
        assert [message.text for message in run.messages] == ["hi"]

    with_run(use, Made("p", declare), tools=named_tools("t"))


@pytest.mark.parametrize(
    ("policy", "cached"),
    [
        (None, True),
        (ContextWindowPolicy(), True),
        (ContextWindowPolicy(enable_prompt_cache=False), False),
    ],
)
def test_the_prompt_cache_follows_the_agents_policy(
    policy: ContextWindowPolicy | None, cached: bool
) -> None:
    async def use(run: Run) -> InferenceRequest:
        return build_request(run)

    request = with_run(use, context_policy=policy)
    assert request.enable_prompt_cache is cached
