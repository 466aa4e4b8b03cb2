"""The queries of `ToolSearch`, and which tools an agent defers."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from awaken.contracts.errors import InvalidPluginConfig
from awaken.contracts.specs.agents import AgentSpec
from awaken.contracts.tools.tool import ToolDescriptor
from awaken.extensions.deferred_tools.catalog import DeferredCatalog, catalog_of
from awaken.extensions.deferred_tools.search import (
    NOTHING_FOUND,
    SELECTED_MAX,
    Keywords,
    Select,
    find_tools,
    format_tools,
    parse_query,
)

SEARCH = ToolDescriptor(id="ToolSearch")
MAIL = (
    ToolDescriptor(id="mail_send", name="Send mail", description="Sends a LETTER to somebody."),
    ToolDescriptor(id="mail_list", description="Lists letters of a mailbox."),
    ToolDescriptor(id="calendar_list", description="Lists appointments."),
    ToolDescriptor(id="b_list", description="Lists appointments."),
)


def compiled(*tools: ToolDescriptor, agent_id: str = "a", **config: Any) -> DeferredCatalog:
    """What an agent with this section makes of the tools."""
    spec = AgentSpec(id=agent_id, model_id="m", sections={"deferred_tools": config})
    return catalog_of(spec, {tool.id: tool for tool in tools})


def ids(query: str, *, hidden: tuple[str, ...] = (), limit: int = 5) -> list[str]:
    """What a search among the mail tools finds."""
    tools = compiled(*MAIL, SEARCH, enabled=True).tools
    return [tool.id for tool in find_tools(parse_query(query), tools, hidden, limit)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("select:b, a,,b", Select(tool_ids=("b", "a"))),
        (" select: ", Select(tool_ids=())),
        ("Mail  LIST mail", Keywords(words=("mail", "list"))),
        ("+Mail list", Keywords(words=("mail", "list"), required=("mail",))),
        ("list +mail", Keywords(words=("list", "mail"), required=("mail",))),
        ("+ mail", Keywords(words=("mail",))),
        ("   ", Keywords(words=())),
    ],
)
def test_a_query_is_read(text: str, expected: Select | Keywords) -> None:
    assert parse_query(text) == expected


def test_tools_are_selected_by_id_in_the_order_named() -> None:
    assert ids("select:mail_list,nothing,b_list,mail_list") == ["mail_list", "b_list"]


def test_a_selection_is_not_cut_at_the_number_of_results_of_a_search() -> None:
    named = "select:" + ",".join(tool.id for tool in MAIL)
    assert len(ids(named, limit=1)) == 4


def test_a_selection_has_a_limit_of_its_own() -> None:
    many = [ToolDescriptor(id=f"t{i}") for i in range(SELECTED_MAX + 5)]
    tools = compiled(*many, SEARCH, enabled=True).tools
    query = Select(tool_ids=tuple(tool.id for tool in many))
    assert len(find_tools(query, tools, (), 5)) == SELECTED_MAX


def test_tools_with_more_of_the_words_come_first_and_equal_ones_by_id() -> None:
    assert ids("list mail") == ["mail_list", "b_list", "calendar_list", "mail_send"]


def test_id_name_and_description_are_searched_whatever_the_case() -> None:
    assert ids("SEND") == ["mail_send"]
    assert ids("letter") == ["mail_list", "mail_send"]
    assert ids("Appointments") == ["b_list", "calendar_list"]


def test_a_required_word_must_be_there() -> None:
    assert ids("+mail list") == ["mail_list", "mail_send"]
    assert ids("+nowhere mail") == []
    assert ids("+mail +box list") == ["mail_list"]


def test_at_most_so_many_are_found_as_were_asked_for() -> None:
    assert ids("list", limit=2) == ["b_list", "calendar_list"]


@pytest.mark.parametrize("query", ["", "select:", "+", "zebra"])
def test_nothing_is_found_by_a_query_that_fits_nothing(query: str) -> None:
    assert ids(query) == []


def test_tools_that_are_hidden_from_the_model_are_not_found() -> None:
    assert ids("list", hidden=("b_list",)) == ["calendar_list", "mail_list"]
    assert ids("select:b_list", hidden=("b_list",)) == []


@given(st.permutations(MAIL), st.sampled_from(["list mail", "letter", "+list appointments"]))
def test_the_order_does_not_depend_on_the_order_of_the_tools(
    tools: list[ToolDescriptor], query: str
) -> None:
    catalog = compiled(*tools, SEARCH, enabled=True)
    assert [it.id for it in find_tools(parse_query(query), catalog.tools, (), 5)] == ids(query)


def test_found_tools_are_shown_with_their_schemas() -> None:
    parameters = {"type": "object", "properties": {"to": {"type": "string"}}}
    text = format_tools([ToolDescriptor(id="x", description='Say "hi".', parameters=parameters)])
    assert text == (
        '<functions>\n<function>{"description":"Say \\"hi\\".","name":"x","parameters":'
        '{"type":"object","properties":{"to":{"type":"string"}}}}</function>\n</functions>'
    )
    assert format_tools([]) == NOTHING_FOUND


def test_the_first_rule_that_matches_decides_and_the_search_is_never_deferred() -> None:
    rules = [
        {"tool": "mail_send", "mode": "deferred"},
        {"tool": "mail_*", "mode": "eager"},
        {"tool": "*", "mode": "deferred"},
    ]
    catalog = compiled(*MAIL, SEARCH, enabled=True, rules=rules, default_mode="eager")
    assert list(catalog.tools) == ["b_list", "calendar_list", "mail_send"]


def test_tools_are_eager_that_no_rule_defers_if_that_is_the_default() -> None:
    rules = [{"tool": "b_list", "mode": "deferred"}]
    catalog = compiled(*MAIL, SEARCH, enabled=True, rules=rules, default_mode="eager")
    assert list(catalog.tools) == ["b_list"]


def test_a_tool_saves_its_schema_less_its_name() -> None:
    parameters = {"type": "object", "properties": {"a" * 368: {}}}
    tools = (ToolDescriptor(id="t", name="n" * 40, parameters=parameters), ToolDescriptor(id="u"))
    catalog = compiled(*tools, SEARCH, enabled=True)
    assert catalog.tools["t"].saving == len(msgspec.json.encode(parameters)) / 4 - 10
    assert catalog.tools["u"].saving == 10 - 1


@pytest.mark.parametrize(
    ("config", "is_on"),
    [
        ({"beta_overhead": 36}, False),
        ({"beta_overhead": 35}, True),
        ({"beta_overhead": 0, "enabled": False}, False),
        ({"beta_overhead": 1e9, "enabled": True}, True),
        ({"beta_overhead": 0, "default_mode": "eager"}, False),
    ],
)
def test_tools_are_deferred_when_that_saves_more_than_it_costs(
    config: dict[str, Any], is_on: bool
) -> None:
    tools = [ToolDescriptor(id=f"t{i}") for i in range(4)]  # each saves 10 - 1
    assert compiled(*tools, SEARCH, **config).is_on is is_on


def test_an_agent_that_may_not_search_defers_nothing() -> None:
    assert not compiled(*MAIL, beta_overhead=0).is_on


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"enabled": True}, "may not use 'ToolSearch'"),
        ({"rules": [{"tool": "a\\", "mode": "eager"}]}, "character"),
    ],
)
def test_a_section_that_cannot_work_is_refused(config: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidPluginConfig, match=problem) as caught:
        compiled(*MAIL, **config)
    assert (caught.value.section, caught.value.agent_id) == ("deferred_tools", "a")
