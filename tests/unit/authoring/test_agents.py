"""Agents as code declares them."""

from typing import Any

import msgspec
import pydantic
import pytest

from awaken.authoring.agents import Agent
from awaken.authoring.functions import tool
from awaken.contracts.errors import DuplicateRegistration, InvalidSpec
from awaken.contracts.models.inference import ContextWindowPolicy, Effort, EffortBudget
from awaken.contracts.models.model_specs import ModelSpec
from awaken.contracts.plugins.plugin import Plugin
from awaken.contracts.specs.agents import AgentSpec, MaxRounds, Timeout


class Named(Plugin):
    def __init__(self, name: str) -> None:
        self.name = name


class Unnamed(Plugin): ...


class Client:
    name = "client"

    def stream(self, request: Any) -> Any:
        raise NotImplementedError


class Rules(msgspec.Struct):
    allow: list[str]


class Limits(pydantic.BaseModel):
    tokens: int


async def add(a: int, b: int) -> int:
    return a + b


@tool(effect="none")
async def look(at: str) -> str:
    return at


def test_a_minimal_agent_has_the_specs_defaults() -> None:
    agent = Agent("assistant", model="scripted")
    assert agent.spec == AgentSpec(id="assistant", model_id="scripted")
    assert (agent.own_tools, agent.output, agent.tools) == ({}, None, ())
    assert repr(agent) == "Agent('assistant')"


def test_a_whole_agent_becomes_a_whole_spec() -> None:
    stop = [MaxRounds(rounds=3), Timeout(seconds=5)]
    agent = Agent(
        "assistant",
        model=ModelSpec(id="fast", provider_id="p", upstream_model="u"),
        instructions="Be brief.",
        tools=[add, look],
        plugins=[Named("one"), Named("two")],
        output_type=dict[str, int],
        description="Helps.",
        max_rounds=4,
        stop=stop,
        parallel_tools=False,
        allowed_tools=["a*"],
        excluded_tools=("b",),
        delegates=["other"],
        config={"rules": Rules(allow=["x"]), "limits": Limits(tokens=3), "plain": {"k": [1]}},
        reasoning_effort="low",
        context_policy=ContextWindowPolicy(max_context_tokens=5),
        max_continuation_retries=0,
    )
    assert agent.spec == AgentSpec(
        id="assistant",
        model_id="fast",
        system_prompt="Be brief.",
        description="Helps.",
        max_rounds=4,
        max_continuation_retries=0,
        context_policy=ContextWindowPolicy(max_context_tokens=5),
        reasoning_effort=Effort.LOW,
        plugin_ids=("one", "two"),
        allowed_tools=("a*",),
        excluded_tools=("b",),
        stop_conditions=tuple(stop),
        parallel_tools=False,
        delegates=("other",),
        sections={"rules": {"allow": ["x"]}, "limits": {"tokens": 3}, "plain": {"k": [1]}},
    )
    assert msgspec.json.decode(msgspec.json.encode(agent.spec), type=AgentSpec) == agent.spec
    assert list(agent.own_tools) == ["add", "look"]
    assert agent.tools == (agent.own_tools["add"], look)
    assert agent.output is not None
    assert agent.output.decode('{"a": 1}') == {"a": 1}


def test_a_client_of_its_own_gives_the_agent_a_private_model_id() -> None:
    assert Agent("x", model=Client()).spec.model_id == "x:model"
    assert Agent("x", model="m", reasoning_effort=EffortBudget(budget=9)).spec.reasoning_effort == (
        EffortBudget(budget=9)
    )


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ({"tools": [add, add]}, "Agent 'x': tool"),
        ({"tools": [look, tool(id="look")(add)]}, "Agent 'x': tool"),
        ({"plugins": [Named("p"), Named("p")]}, "Agent 'x': plugin"),
    ],
)
def test_two_of_one_name_are_refused(values: dict[str, Any], kind: str) -> None:
    with pytest.raises(DuplicateRegistration) as caught:
        Agent("x", **{"model": "m", **values})
    assert caught.value.fields["kind"] == kind


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("model", ""),
        ("model", 5),
        ("model", Client),
        ("instructions", None),
        ("tools", add),
        ("tools", "add"),
        ("tools", [5]),
        ("tools", [lambda a: a]),
        ("plugins", ["permission"]),
        ("plugins", [Plugin()]),
        ("description", 5),
        ("max_rounds", -1),
        ("max_rounds", True),
        ("max_rounds", "16"),
        ("max_continuation_retries", -1),
        ("stop", [5]),
        ("stop", [object()]),
        ("stop", MaxRounds(rounds=1)),
        ("parallel_tools", 1),
        ("allowed_tools", "add"),
        ("excluded_tools", [5]),
        ("delegates", "other"),
        ("config", [1]),
        ("config", {"s": object()}),
        ("reasoning_effort", "huge"),
        ("context_policy", 5),
        ("output_type", object),
    ],
)
def test_a_bad_value_is_refused_with_agent_and_field(field: str, value: Any) -> None:
    with pytest.raises(InvalidSpec) as caught:
        Agent("x", **{"model": "m", field: value})
    assert f"agent 'x': field '{field}' is invalid: " in str(caught.value)


@pytest.mark.parametrize(
    ("plugin", "problem"),
    [
        (Unnamed(), "give class Unnamed a `name`"),
        (Unnamed, r"pass an object: plugins=\[Unnamed\(\)\]"),
        ("permission", "'permission' is not a plugin"),
    ],
)
def test_a_plugin_that_cannot_be_used_is_refused_with_the_way_out(
    plugin: Any, problem: str
) -> None:
    with pytest.raises(InvalidSpec, match=problem):
        Agent("x", model="m", plugins=[plugin])


@pytest.mark.parametrize("agent_id", ["", " ", " x", 5, None])
def test_a_bad_id_is_refused(agent_id: Any) -> None:
    with pytest.raises(InvalidSpec, match=r"^agent .* is invalid: "):
        Agent(agent_id, model="m")


def test_an_agent_cannot_be_changed_and_does_not_follow_the_lists_it_was_given() -> None:
    tools: list[Any] = [add]
    agent = Agent("x", model="m", tools=tools)
    tools.append(look)
    assert [declared.descriptor.id for declared in agent.own_tools.values()] == ["add"]
    with pytest.raises(AttributeError):
        agent.id = "y"  # type: ignore[misc]
