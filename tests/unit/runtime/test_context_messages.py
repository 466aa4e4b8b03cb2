"""Every property of a context message, in every target."""

import asyncio
from typing import Any

import pytest

from awaken import PluginRegistrar, StateCommand
from awaken.contracts.messages.context_messages import ContextMessage, ContextTarget, emit_once
from awaken.contracts.messages.message import Role, Visibility, as_blocks, user
from awaken.contracts.models.inference import InferenceRequest
from awaken.contracts.phases import Phase
from awaken.contracts.plugins.loop_state import ADD_CONTEXT_MESSAGE
from awaken.contracts.plugins.plugin import PhaseContext
from awaken.runtime.inference.request import build_request
from awaken.runtime.phases.commands import submit
from awaken.runtime.run import Run
from awaken.testing.scripted_model import ScriptedModel, ToolCalls

from .test_request import named_tools
from .worlds import Made, play, runtime_of, with_run

TARGETS = list(ContextTarget)


def message(key: str, **fields: Any) -> ContextMessage:
    return ContextMessage(key=key, content=as_blocks(key), **fields)


def request_with(*messages: ContextMessage) -> InferenceRequest:
    """A request with a history of one message, after these were added."""
    command = StateCommand()
    for each in messages:
        command = command.schedule(ADD_CONTEXT_MESSAGE, each)

    async def use(run: Run) -> InferenceRequest:
        await submit(run, command)
        await play(run, Phase.BEFORE_INFERENCE)
        return build_request(run)

    return with_run(use, instructions="", messages=(user("history"),))


def words(request: InferenceRequest) -> list[str]:
    return [*request.system, *(it.text for it in request.messages if it.text != "history")]


@pytest.mark.parametrize("target", TARGETS)
def test_the_lower_priority_goes_first_and_then_the_key(target: ContextTarget) -> None:
    given = [("b", 0), ("z", -1), ("a", 0), ("m", 5)]
    request = request_with(*(message(key, target=target, priority=it) for key, it in given))
    assert words(request) == ["z", "a", "b", "m"]


def test_targets_come_in_their_order_whatever_the_priority() -> None:
    given = zip(reversed(TARGETS), range(4), strict=True)
    request = request_with(*(message(it.value, target=it, priority=n) for it, n in given))
    assert words(request) == ["system", "session", "conversation", "suffix_system"]
    assert [it.text for it in request.messages].index("history") == 2


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("role", [Role.USER, Role.ASSISTANT])
@pytest.mark.parametrize("visibility", Visibility)
def test_other_roles_are_messages_with_the_visibility_they_were_given(
    target: ContextTarget, role: Role, visibility: Visibility
) -> None:
    request = request_with(message("k", target=target, role=role, visibility=visibility))
    found = next(it for it in request.messages if it.text == "k")
    assert (found.role, found.visibility, request.system) == (role, visibility, ())


@pytest.mark.parametrize("target", TARGETS)
def test_a_second_message_of_a_key_takes_the_place_of_the_first(target: ContextTarget) -> None:
    first = ContextMessage(key="k", content=as_blocks("old"), target=ContextTarget.SYSTEM)
    second = ContextMessage(key="k", content=as_blocks("new"), target=target)
    assert words(request_with(first, second)) == ["new"]


@pytest.mark.parametrize("target", TARGETS)
def test_a_message_added_after_a_result_reaches_the_next_request_and_leaves_with_it(
    target: ContextTarget,
) -> None:
    model = ScriptedModel([ToolCalls([("t", {})]), ToolCalls([("t", {})]), "done"])

    async def hook(context: PhaseContext) -> StateCommand | None:
        if context.step > 1:
            return None
        once = emit_once("once", "once", target=target)
        command = StateCommand().schedule(ADD_CONTEXT_MESSAGE, message("k", target=target))
        return command.schedule(ADD_CONTEXT_MESSAGE, once)

    def declare(registrar: PluginRegistrar) -> None:
        registrar.hook(Phase.AFTER_TOOL_EXECUTE, hook)

    runtime = runtime_of(Made("p", declare), model=model, tools=named_tools("t"))
    asyncio.run(runtime.run("a", "hi"))
    said = [{"k", "once"} & set(words(request)) for request in model.requests]
    assert said == [set(), {"k", "once"}, set()]
