"""A2UI: what is rendered, what is refused and why, judged beside a2ui-core."""

import asyncio
import copy
import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from a2ui.core.basic_catalog import v0_8, v0_9, v1_0
from a2ui.core.exceptions import A2uiError
from a2ui.core.schema.v0_8 import A2uiMessageListWrapper as Messages08
from a2ui.core.schema.v0_9 import A2uiMessageListWrapper as Messages09
from a2ui.core.schema.v1_0 import AgentToRendererMessageListWrapper as Messages10
from a2ui.core.state.component_model import ComponentModel
from a2ui.core.state.validation_helpers import analyze_topology, validate_component_integrity
from a2ui.core.validation import PayloadValidator
from a2ui.core.validation.payload_validator import ValidationConfig
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.sampling import choose_size, sampled
from tests.unit.extensions.generative_ui_corpus import (
    CATALOGS,
    Case,
    invalid_cases,
    shown,
    text8,
    valid_cases,
)

from awaken.contracts.events import ActivitySnapshot, AgentEvent
from awaken.contracts.identity import RunIdentity
from awaken.contracts.messages.message import ToolCall
from awaken.contracts.specs.agents import AgentSpec
from awaken.contracts.state.keys import Snapshot
from awaken.contracts.tools.context import ToolContext
from awaken.contracts.tools.sub_runs import SubRuns
from awaken.contracts.tools.tool import InvalidArguments, ToolDenied
from awaken.extensions.generative_ui.state import (
    DELETED_MAX,
    SURFACES,
    SURFACES_MAX,
    Surface,
    Surfaces,
    forget_old_surfaces,
)
from awaken.extensions.generative_ui.tools import RenderA2uiTool

TOOL = RenderA2uiTool()
CASES = [*valid_cases(), *invalid_cases()]


class Screen:
    """What a call shows; it can start nothing."""

    is_cancelled = False

    def __init__(self) -> None:
        self.events: list[AgentEvent] = []

    def emit(self, event: AgentEvent) -> None:
        self.events.append(event)

    @property
    def sub_runs(self) -> SubRuns:
        raise NotImplementedError


class Thread:
    """The surfaces of one thread, and the calls that change them."""

    def __init__(self, version: str = "v0.8", **section: Any) -> None:
        sections = {"generative_ui": {"version": version, **section}}
        self.agent = AgentSpec(id="painter", model_id="m", sections=sections)
        self.surfaces: Surfaces = {}
        self.screen = Screen()

    def render(self, arguments: Any) -> Any:
        call = ToolCall(id="c1", name="render_a2ui", arguments=arguments)
        context = ToolContext(
            run=RunIdentity(thread_id="t", run_id="r", agent_id="painter"),
            agent=self.agent,
            call=call,
            snapshot=Snapshot(1, {SURFACES.name: self.surfaces}),
            channel=self.screen,
        )
        output = asyncio.run(TOOL.execute(TOOL.validate(arguments), context))
        self.surfaces = context.state.get(SURFACES)
        assert output.command == context.command
        return output.result.data

    def refused(self, arguments: Any) -> str:
        before, shown_before = self.surfaces, len(self.screen.events)
        with pytest.raises(InvalidArguments) as refusal:
            self.render(arguments)
        assert (self.surfaces, len(self.screen.events)) == (before, shown_before)
        return str(refusal.value).removeprefix("Invalid arguments: ")

    def operations(self) -> list[Any]:
        event = self.screen.events[-1]
        assert isinstance(event, ActivitySnapshot)
        assert event.activity_type == "a2ui-surface"
        return event.content["a2ui_operations"]


def named(case: Case) -> str:
    return f"{case.version} {case.name}"


@cache
def catalog_of(version: str) -> Any:
    return {"v0.8": v0_8, "v0.9": v0_9, "v1.0": v1_0}[version].BasicCatalog()


def theirs(case: Case) -> bool:
    """What a2ui-core says: its message models, its payload validator, its checks of trees."""
    catalog = catalog_of(case.version)
    models = {"v0.8": Messages08, "v0.9": Messages09, "v1.0": Messages10}
    validator = PayloadValidator(catalog)
    try:
        models[case.version].model_validate({"messages": case.messages})
        tree: dict[str, ComponentModel] = {}
        root = "root"
        for message in case.messages:
            for theme in filter(None, (_bodies(message).get(it) for it in ("styles", "theme"))):
                validator.validate_theme(theme)
            for component in _flat(_bodies(message).get("components") or []):
                validator.validate_component(component)
                properties = {
                    it: value for it, value in component.items() if it not in ("id", "component")
                }
                tree[component["id"]] = ComponentModel(
                    component["id"], component["component"], catalog, properties
                )
            root = _bodies(message).get("root", root)
        if tree:
            validate_component_integrity(tree, root)
            analyze_topology(tree, root, ValidationConfig(allow_orphan_components=True))
    except (ValidationError, A2uiError):
        return False
    return True


def _bodies(message: dict[str, Any]) -> dict[str, Any]:
    return next(value for name, value in message.items() if name != "version")


def _flat(components: list[Any]) -> Iterator[dict[str, Any]]:
    """Components in the one form that the payload validator takes."""
    for component in components:
        if isinstance(component["component"], str):
            yield component
        else:
            if len(component["component"]) != 1:
                raise A2uiError("A component has one type.")
            ((type_, properties),) = component["component"].items()
            yield {"id": component["id"], "component": type_, **properties}


def test_there_are_enough_cases_of_both_kinds() -> None:
    for version in CATALOGS:
        valid = [it for it in CASES if it.version == version and it.is_valid]
        wrong = [it for it in CASES if it.version == version and not it.is_valid]
        assert len(valid) >= 20
        assert len(wrong) >= 25
    assert len(CASES) >= 120
    assert len({named(it) for it in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=named)
def test_a_payload_is_judged_as_a2ui_core_judges_it_unless_the_case_says_why(case: Case) -> None:
    thread = Thread(case.version)
    if case.is_valid:
        assert thread.render({"messages": case.messages}) == {
            "rendered": True,
            "count": len(case.messages),
        }
    else:
        assert "$.messages[" in thread.refused({"messages": case.messages})
    assert theirs(case) is (case.is_valid != bool(case.difference))


MENDS = [
    (
        "v0.8",
        shown("v0.8", "Text", {"text": "Hi"}),
        "$.messages[0].surfaceUpdate.components[0].component.Text.text: it must be an object like "
        "{literalString: 'Hello'} or {path: '/a/b'}",
    ),
    (
        "v0.8",
        shown("v0.8", "Tabs", {"tabItems": [{"title": text8("a"), "child": 1}]}),
        "(see $.messages[0].surfaceUpdate.components[0].component.Tabs.tabItems[0].child)",
    ),
    (
        "v0.8",
        shown("v0.8", "Text", {"text": text8("x"), "color": "red"}),
        "Text.color: Text has no such property; it takes text, usageHint?",
    ),
    ("v0.8", shown("v0.8", "Card", {}), "Card needs 'child', the id of one component, as a string"),
    (
        "v1.0",
        shown("v1.0", "Carousel", {}),
        "there is no component 'Carousel'; use one of Text, Im",
    ),
    (
        "v1.0",
        shown("v1.0", "Card", {"child": "gone"}),
        "$.messages[1].updateComponents.components[0]: it refers to 'gone', which does not exist",
    ),
    (
        "v1.0",
        shown("v1.0", "Text", {"text": {"@call": "shout"}}),
        "$.messages[1].updateComponents.components[0].text: there is no function 'shout'; use one",
    ),
    (
        "v1.0",
        [{"version": "v1.0", "updateDataModel": {"surfaceId": "x", "value": 1}}],
        "there is no surface 'x'; there is: none. Begin one with createSurface",
    ),
]


@pytest.mark.parametrize(("version", "messages", "mend"), MENDS, ids=[it[2][:50] for it in MENDS])
def test_a_refusal_says_where_and_how_to_mend_it(version: str, messages: Any, mend: str) -> None:
    assert mend in Thread(version).refused({"messages": messages})


def test_a_refusal_is_bounded_and_says_how_much_more_is_wrong() -> None:
    many = [{"id": f"c{it}", "component": {"Text": {"text": "x" * 900}}} for it in range(100)]
    message = Thread().refused({"surfaceUpdate": {"surfaceId": "s", "components": many}})
    assert message.endswith("and 92 more")
    assert len(message) < 8 * 620
    assert "xxxx" not in message


UPDATE = {"surfaceId": "s", "components": [{"id": "r", "component": {"Divider": {}}}]}
FLATTENED: list[tuple[str, str, Any]] = [
    ("one message", "v0.8", {"surfaceUpdate": UPDATE}),
    ("no wrapper", "v0.8", UPDATE),
    ("beside the wrapper", "v0.8", {"surfaceUpdate": {}, **UPDATE}),
    ("beside a null", "v0.8", {"surfaceUpdate": None, **UPDATE}),
    (
        "half inside",
        "v0.8",
        {"surfaceUpdate": {"surfaceId": "s"}, "components": UPDATE["components"]},
    ),
    ("as text", "v0.8", {"messages": json.dumps([{"surfaceUpdate": UPDATE}])}),
    (
        "components as text",
        "v0.8",
        {"surfaceUpdate": {**UPDATE, "components": json.dumps(UPDATE["components"])}},
    ),
    (
        "flat component",
        "v0.8",
        {"surfaceUpdate": {"surfaceId": "s", "components": [{"id": "r", "component": "Divider"}]}},
    ),
]


@pytest.mark.parametrize(
    ("name", "version", "arguments"), FLATTENED, ids=[it[0] for it in FLATTENED]
)
def test_what_is_meant_beyond_doubt_is_put_right(name: str, version: str, arguments: Any) -> None:
    thread = Thread(version)
    assert thread.render(arguments) == {"rendered": True, "count": 1}
    assert thread.operations() == [{"surfaceUpdate": UPDATE}]


def test_later_versions_get_their_version_and_flat_components() -> None:
    thread = Thread("v1.0")
    create = {"surfaceId": "s", "catalogId": CATALOGS["v1.0"]}
    nested = [{"id": "root", "component": {"Text": {"text": "x"}}}]
    thread.render(
        {"messages": [{"createSurface": create}, {"surfaceId": "s", "components": nested}]}
    )
    components = [{"id": "root", "component": "Text", "text": "x"}]
    assert thread.operations() == [
        {"version": "v1.0", "createSurface": create},
        {"version": "v1.0", "updateComponents": {"surfaceId": "s", "components": components}},
    ]


UNCLEAR: list[tuple[str, Any]] = [
    ("a surface alone, which could be deleted", {"surfaceId": "s"}),
    ("messages beside a message", {"messages": [{"surfaceUpdate": UPDATE}], "surfaceId": "s"}),
    ("no messages", {"messages": []}),
    ("too many messages", {"messages": [{"surfaceUpdate": UPDATE}] * 51}),
    ("broken text", {"messages": "[{]"}),
    ("nothing", {}),
    ("a list", [{"surfaceUpdate": UPDATE}]),
    ("two contents", {"surfaceUpdate": UPDATE, "dataModelUpdate": {"surfaceId": "s"}}),
    ("a component twice", {"surfaceUpdate": {**UPDATE, "components": UPDATE["components"] * 2}}),
    ("an empty surface id", {"surfaceUpdate": {**UPDATE, "surfaceId": ""}}),
    ("a long surface id", {"surfaceUpdate": {**UPDATE, "surfaceId": "s" * 129}}),
]


@pytest.mark.parametrize(("name", "arguments"), UNCLEAR, ids=[it[0] for it in UNCLEAR])
def test_what_could_mean_something_else_is_refused(name: str, arguments: Any) -> None:
    thread = Thread()
    thread.render({"surfaceUpdate": UPDATE})
    thread.refused(arguments)


def card(id_: str, child: str) -> dict[str, Any]:
    return {"id": id_, "component": {"Card": {"child": child}}}


def update(*components: Any, surface: str = "s") -> dict[str, Any]:
    return {"surfaceUpdate": {"surfaceId": surface, "components": list(components)}}


LEAF = {"id": "leaf", "component": {"Divider": {}}}
BEGIN = {"beginRendering": {"surfaceId": "s", "root": "root"}}


def test_a_surface_grows_over_several_calls_and_is_whole_when_it_is_shown() -> None:
    thread = Thread()
    thread.render(update(card("root", "leaf")))
    assert "'leaf', which does not exist" in thread.refused(BEGIN)
    thread.render(update(LEAF))
    thread.render(BEGIN)
    assert thread.surfaces["s"] == Surface(
        version="v0.8", root="root", children={"root": ("leaf",), "leaf": ()}
    )
    refusal = thread.refused(update(card("leaf", "root")))
    assert "contains itself" in refusal
    assert "'new', which does not exist" in thread.refused(update(card("leaf", "new")))


def test_a_component_of_an_earlier_call_is_named_by_its_id_when_it_breaks() -> None:
    thread = Thread()
    thread.render({"messages": [update(card("root", "leaf"), card("other", "root"), LEAF)]})
    refusal = thread.refused(update(card("leaf", "other")))
    assert "component 'root': it contains itself" in refusal or "Card: it contains" in refusal


def test_updates_of_unknown_and_of_deleted_surfaces_are_refused() -> None:
    thread = Thread()
    contents = [{"key": "a", "valueString": "x"}]
    data = {"dataModelUpdate": {"surfaceId": "s", "contents": contents}}
    assert "there is no surface 's'" in thread.refused(data)
    assert "there is no surface 's'" in thread.refused({"deleteSurface": {"surfaceId": "s"}})
    thread.render(update(LEAF))
    thread.render(data)
    thread.render({"deleteSurface": {"surfaceId": "s"}})
    for gone in (update(LEAF), data, BEGIN, {"deleteSurface": {"surfaceId": "s"}}):
        assert "was deleted" in thread.refused(gone)
    thread.render(update(LEAF, surface="s2"))
    assert "there is: 's2'" in thread.refused({"deleteSurface": {"surfaceId": "s3"}})


def test_a_surface_of_a_later_version_is_created_once_and_again_after_it_was_deleted() -> None:
    thread = Thread("v1.0")
    create = {"createSurface": {"surfaceId": "s", "catalogId": CATALOGS["v1.0"]}}
    thread.render(create)
    assert "exists; update it" in thread.refused(create)
    other = {
        "updateComponents": {"surfaceId": "s", "components": [{"id": "a", "component": "Divider"}]}
    }
    assert "the root component 'root' does not exist" in thread.refused(other)
    thread.render({"deleteSurface": {"surfaceId": "s"}})
    thread.render(create)
    assert thread.surfaces["s"] == Surface(version="v1.0", root="root")


def test_a_surface_is_not_continued_in_another_version() -> None:
    first, second = Thread("v0.8"), Thread("v1.0")
    first.render(update(LEAF))
    second.surfaces = first.surfaces
    component = {"id": "root", "component": "Divider"}
    message = {"updateComponents": {"surfaceId": "s", "components": [component]}}
    assert "is of v0.8" in second.refused(message)


def test_a_message_that_is_wrong_takes_the_whole_call_back() -> None:
    thread = Thread()
    thread.refused({"messages": [update(LEAF), {"deleteSurface": {"surfaceId": "other"}}]})
    assert thread.surfaces == {}


def test_surfaces_and_their_components_are_bounded() -> None:
    thread = Thread()
    for it in range(SURFACES_MAX):
        thread.render(update(LEAF, surface=f"s{it}"))
    assert "delete one with deleteSurface first" in thread.refused(update(LEAF, surface="more"))
    thread.render({"deleteSurface": {"surfaceId": "s0"}})
    thread.render(update(LEAF, surface="more"))
    many = [{"id": f"c{it}", "component": {"Divider": {}}} for it in range(301)]
    assert "1 to 300 components" in thread.refused(update(*many, surface="s1"))
    thread.render(update(*many[:299], surface="s2"))
    assert "at most 300 components" in thread.refused(update(many[300], surface="s2"))
    for it in range(3, 8):
        thread.render(update(*many[:299], surface=f"s{it}"))
    assert "2000 components" in thread.refused(update(*many[:299], surface="s8"))


def test_of_the_deleted_surfaces_only_the_latest_are_remembered() -> None:
    gone = {f"s{it}": Surface(version="v0.8", is_deleted=True) for it in range(DELETED_MAX + 5)}
    kept = forget_old_surfaces({**gone, "live": Surface(version="v0.8")})
    assert len(kept) == DELETED_MAX + 1
    assert "s4" not in kept
    assert {"s5", "live"} <= kept.keys()


def test_of_a_catalog_that_is_not_a2uis_own_only_the_tree_is_checked() -> None:
    thread = Thread("v1.0", catalog_id="mine")
    create = {"createSurface": {"surfaceId": "s", "catalogId": "mine"}}
    gauge = {"id": "root", "component": "Gauge", "children": ["needle"], "colour": "red"}
    body = {"surfaceId": "s", "components": [gauge]}
    assert "'needle', which does not exist" in thread.refused(
        {"messages": [create, {"updateComponents": body}]}
    )
    body["components"].append({"id": "needle", "component": "Needle"})
    thread.render({"messages": [create, {"updateComponents": body}]})
    assert "catalogId: it must be 'mine'" in thread.refused(
        {"createSurface": {"surfaceId": "s2", "catalogId": CATALOGS["v1.0"]}}
    )


def test_what_is_nested_too_deep_is_refused_and_nothing_breaks() -> None:
    value: Any = "x"
    for _ in range(200):
        value = [value]
    context = {"event": {"name": "go", "context": {"deep": value}}}
    messages = shown("v1.0", "Button", {"child": "leaf", "action": context})
    assert "more than 50 levels" in Thread("v1.0").refused({"messages": messages})


SCRAPS: list[Any] = [None, True, 5, -1.5, "", "x", "root", [], {}, ["leaf"], [[]], "{}", '["root"]']
CALLS: list[Any] = [
    {"path": 5},
    {"@call": "length"},
    {"call": "length", "args": 5},
    {"@call": "or", "args": {"values": 5}},
]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of everything inside of a value."""
    items = enumerate(value) if isinstance(value, list) else ()
    for key, item in value.items() if isinstance(value, dict) else items:
        yield (*path, key)
        yield from places(item, (*path, key))


@sampled
@settings(max_examples=choose_size(60, 300), deadline=None)
@given(st.sampled_from(CASES), st.data())
def test_whatever_is_broken_in_a_payload_is_refused_and_never_breaks_the_tool(
    case: Case, data: Any
) -> None:
    messages = copy.deepcopy(case.messages)
    path = data.draw(st.sampled_from(list(places(messages))))
    holder: Any = messages
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = data.draw(st.sampled_from([*SCRAPS, *CALLS]))
    thread = Thread(case.version)
    try:
        assert thread.render({"messages": messages})["rendered"] is True
    except InvalidArguments:
        assert thread.surfaces == {}


def test_an_agent_without_a2ui_cannot_call_it_all_the_same() -> None:
    with pytest.raises(ToolDenied):
        Thread(a2ui=False).render(update(LEAF))
