"""A2UI payloads of every version: each component whole, and what is wrong with many of them.

A payload is a list of messages. Where a2ui-core judges otherwise than we do, the case says why.
"""

import copy
from typing import Any, NamedTuple

VERSIONS = ("v0.8", "v0.9", "v1.0")
CATALOGS = {
    "v0.8": "https://a2ui.org/specification/v0_8/standard_catalog_definition.json",
    "v0.9": "https://a2ui.org/specification/v0_9/catalogs/basic/catalog.json",
    "v1.0": "https://a2ui.org/specification/v1_0/catalogs/basic/catalog.json",
}


class Case(NamedTuple):
    name: str
    version: str
    messages: list[Any]
    is_valid: bool
    difference: str = ""
    """Why a2ui-core says the opposite; empty when it agrees."""


def text8(text: str) -> dict[str, Any]:
    return {"literalString": text}


WHOLE_8: dict[str, dict[str, Any]] = {
    "Text": {"text": {"literalString": "Hi", "path": "/a"}, "usageHint": "h1"},
    "Image": {"url": {"path": "/u"}, "altText": text8("x"), "fit": "cover", "usageHint": "icon"},
    "Icon": {"name": {"literalString": "home"}},
    "Video": {"url": text8("https://a")},
    "AudioPlayer": {"url": text8("https://a"), "description": text8("d")},
    "Row": {
        "children": {"explicitList": ["leaf"]},
        "distribution": "spaceBetween",
        "alignment": "center",
    },
    "Column": {"children": {"template": {"componentId": "leaf", "dataBinding": "/items"}}},
    "List": {"children": {"explicitList": []}, "direction": "vertical", "alignment": "end"},
    "Card": {"child": "leaf"},
    "Tabs": {"tabItems": [{"title": text8("One"), "child": "leaf"}]},
    "Divider": {"axis": "horizontal"},
    "Modal": {"entryPointChild": "leaf", "contentChild": "leaf"},
    "Button": {
        "child": "leaf",
        "primary": True,
        "action": {"name": "go", "context": [{"key": "k", "value": {"literalNumber": 2}}]},
    },
    "CheckBox": {"label": text8("l"), "value": {"literalBoolean": True}},
    "TextField": {
        "label": text8("l"),
        "text": {"path": "/t"},
        "textFieldType": "shortText",
        "validationRegexp": ".*",
    },
    "DateTimeInput": {"value": text8("2026-01-01"), "enableDate": True, "enableTime": False},
    "MultipleChoice": {
        "selections": {"literalArray": ["a"]},
        "options": [{"label": text8("A"), "value": "a"}],
        "maxAllowedSelections": 1,
        "variant": "chips",
        "filterable": True,
    },
    "Slider": {"value": {"literalNumber": 1.5}, "label": text8("l"), "minValue": 0, "maxValue": 9},
}


def whole_later(mark: str) -> dict[str, dict[str, Any]]:
    """Every component of a later version with everything that it can have."""
    path, call = f"{mark}path", f"{mark}call"
    checks = [{"condition": {call: "required", "args": {"value": {path: "/a"}}}, "message": "m"}]
    formatted = {call: "formatString", "args": {"value": "${/a}"}}
    return {
        "Text": {"text": formatted, "variant": "caption", "weight": 2},
        "Image": {"url": {path: "/u"}, "description": "d", "fit": "scaleDown", "variant": "icon"},
        "Icon": {"name": "play", "accessibility": {"label": "Play", "description": {path: "/d"}}},
        "Video": {"url": "https://a"},
        "AudioPlayer": {"url": "https://a", "description": "d"},
        "Row": {"children": ["leaf"], "justify": "stretch", "align": "center"},
        "Column": {"children": {"componentId": "leaf", "path": "/items"}, "justify": "end"},
        "List": {"children": [], "direction": "horizontal", "align": "stretch"},
        "Card": {"child": "leaf"},
        "Tabs": {"tabs": [{"title": {path: "/t"}, "child": "leaf"}]},
        "Modal": {"trigger": "leaf", "content": "leaf"},
        "Divider": {"axis": "vertical"},
        "Button": {
            "child": "leaf",
            "variant": "primary",
            "action": {"event": {"name": "go", "context": {"id": 7, "at": {path: "/a"}}}},
            "checks": checks,
        },
        "TextField": {"label": "l", "value": {path: "/v"}, "variant": "number", "checks": checks},
        "CheckBox": {"label": "l", "value": {call: "not", "args": {"value": True}}},
        "ChoicePicker": {
            "options": [{"label": "A", "value": "a"}],
            "value": ["a"],
            "label": "l",
            "variant": "multipleSelection",
            "displayStyle": "chips",
            "filterable": False,
        },
        "Slider": {"value": 3, "max": 10, "min": 1.5, "label": "l"},
        "DateTimeInput": {"value": "", "enableDate": True, "min": "2026-01-01", "label": "l"},
    }


def shown(version: str, type_: str, properties: dict[str, Any], **envelope: Any) -> list[Any]:
    """Messages that show one component, with a leaf that it may refer to."""
    if version == "v0.8":
        leaf = {"id": "leaf", "component": {"Divider": {}}}
        top = {"id": "root", "component": {type_: properties}, **envelope}
        components = [top, leaf]
        return [
            {"surfaceUpdate": {"surfaceId": "s", "components": components}},
            {"beginRendering": {"surfaceId": "s", "root": "root"}},
        ]
    top = {"id": "root", "component": type_, **properties, **envelope}
    components = [top, {"id": "leaf", "component": "Divider"}]
    return [
        {"version": version, "createSurface": {"surfaceId": "s", "catalogId": CATALOGS[version]}},
        {"version": version, "updateComponents": {"surfaceId": "s", "components": components}},
    ]


def valid_cases() -> list[Case]:
    """Every component of every version, whole; and every message."""
    cases = [
        Case(f"{it} whole", "v0.8", shown("v0.8", it, has), True) for it, has in WHOLE_8.items()
    ]
    for version in ("v0.9", "v1.0"):
        whole = whole_later("@" if version == "v1.0" else "")
        cases += [
            Case(f"{it} whole", version, shown(version, it, has), True) for it, has in whole.items()
        ]
    text = shown("v0.8", "Text", {"text": text8("x")}, weight=1.5)
    styles = {"font": "Inter", "primaryColor": "#00BFFF"}
    begin = {"surfaceId": "s", "root": "root", "styles": styles, "catalogId": CATALOGS["v0.8"]}
    entries = [
        {"key": "a", "valueString": "x"},
        {"key": "b", "valueNumber": 1},
        {"key": "c", "valueBoolean": False},
        {"key": "d", "valueMap": [{"key": "e", "valueString": "y"}]},
    ]
    data = {"dataModelUpdate": {"surfaceId": "s", "path": "/user", "contents": entries}}
    delete = {"deleteSurface": {"surfaceId": "s"}}
    cases += [
        Case("weight", "v0.8", text, True),
        Case("styles", "v0.8", [text[0], {"beginRendering": begin}], True),
        Case("data", "v0.8", [*text, data], True),
        Case("delete", "v0.8", [*text, delete], True),
    ]
    for version in ("v0.9", "v1.0"):
        base = shown(version, "Text", {"text": "x"})
        value = {"surfaceId": "s", "path": "/a", "value": {"b": [1, None]}}
        gone = {"version": version, **delete}
        cases += [
            Case("data", version, [*base, {"version": version, "updateDataModel": value}], True),
            Case("delete", version, [*base, gone], True),
            Case("made again", version, [*base, gone, *base], True),
        ]
    theme = {"surfaceId": "s", "catalogId": CATALOGS["v0.9"], "theme": {"primaryColor": "#00BFFF"}}
    at_once = {
        "surfaceId": "s",
        "catalogId": CATALOGS["v1.0"],
        "components": [{"id": "root", "component": "Text", "text": "x"}],
        "dataModel": {"a": 1},
        "sendDataModel": True,
        "metadata": {"extensions": {"mine": 1}},
    }
    latest = {"catalogId": CATALOGS["v1.0"], "metadata": {"extensions": {"x": {}}}}
    heard = {"accessibility": {"live": "polite", "hidden": {"@path": "/h"}}}
    opened = {"functionCall": {"@call": "openUrl", "args": {"url": "https://a"}}}
    numbered = {"@call": "@index", "args": {"offset": 1}}
    either = {"@call": "or", "args": {"values": [True, {"@path": "/b"}]}}
    long_enough = {"@call": "length", "args": {"value": {"@path": "/t"}, "min": 2}}
    cases += [
        Case("theme", "v0.9", [{"version": "v0.9", "createSurface": theme}], True),
        Case("heading", "v0.9", shown("v0.9", "Text", {"text": "x", "variant": "h1"}), True),
        Case(
            "returns",
            "v0.9",
            shown(
                "v0.9",
                "Text",
                {"text": {"call": "formatString", "args": {"value": "x"}, "returnType": "string"}},
            ),
            True,
        ),
        Case("at once", "v1.0", [{"version": "v1.0", "createSurface": at_once}], True),
        Case("envelope", "v1.0", shown("v1.0", "Text", {"text": "x"}, **latest), True),
        Case("accessibility", "v1.0", shown("v1.0", "Text", {"text": "x"}, **heard), True),
        Case(
            "open url", "v1.0", shown("v1.0", "Button", {"child": "leaf", "action": opened}), True
        ),
        Case(
            "index",
            "v1.0",
            shown("v1.0", "Text", {"text": {"@call": "formatNumber", "args": {"value": numbered}}}),
            True,
        ),
        Case("or", "v1.0", shown("v1.0", "CheckBox", {"label": "l", "value": either}), True),
        Case(
            "length",
            "v1.0",
            shown("v1.0", "TextField", {"label": "l", "checks": [{"condition": long_enough}]}),
            True,
        ),
        Case(
            "poster",
            "v1.0",
            shown("v1.0", "Video", {"url": "u", "posterUrl": {"@path": "/p"}}),
            True,
        ),
        Case("drawn", "v1.0", shown("v1.0", "Icon", {"name": {"svgPath": "M0 0"}}), True),
        Case("steps", "v1.0", shown("v1.0", "Slider", {"value": 1, "max": 3, "steps": 3}), True),
    ]
    return cases


WRONG_8: dict[str, tuple[str, dict[str, Any]]] = {
    "plain text": ("Text", {"text": "Hi"}),
    "no text": ("Text", {}),
    "unknown hint": ("Text", {"text": text8("x"), "usageHint": "h9"}),
    "unknown property": ("Text", {"text": text8("x"), "colour": "red"}),
    "number as text": ("Text", {"text": {"literalString": 5}}),
    "no url": ("Image", {}),
    "unknown icon": ("Icon", {"name": {"literalString": "unicorn"}}),
    "list of children": ("Row", {"children": ["leaf"]}),
    "half a template": ("List", {"children": {"template": {"componentId": "leaf"}}}),
    "child as object": ("Card", {"child": {"id": "leaf"}}),
    "tab without child": ("Tabs", {"tabItems": [{"title": text8("x")}]}),
    "action as text": ("Button", {"child": "leaf", "action": "go"}),
    "action without name": ("Button", {"child": "leaf", "action": {}}),
    "context as object": ("Button", {"child": "leaf", "action": {"name": "a", "context": {}}}),
    "context without value": (
        "Button",
        {"child": "leaf", "action": {"name": "a", "context": [{"key": "k"}]}},
    ),
    "choices": ("MultipleChoice", {"choices": [], "selections": {"path": "/a"}}),
    "no selections": ("MultipleChoice", {"options": []}),
    "option label as text": (
        "MultipleChoice",
        {"selections": {"path": "/a"}, "options": [{"label": "A", "value": "a"}]},
    ),
    "no value": ("Slider", {"label": text8("l")}),
    "unknown component": ("Carousel", {}),
    "component of a later version": ("ChoicePicker", {"options": [], "value": []}),
}

WRONG_LATER: dict[str, tuple[str, dict[str, Any]]] = {
    "wrapped text": ("Text", {"text": {"literalString": "Hi"}}),
    "no text": ("Text", {}),
    "number as text": ("Text", {"text": 5}),
    "unknown variant": ("Text", {"text": "x", "variant": "huge"}),
    "unknown property": ("Text", {"text": "x", "colour": "red"}),
    "null": ("Image", {"url": "u", "description": None}),
    "unknown icon": ("Icon", {"name": "unicorn"}),
    "wrapped children": ("Row", {"children": {"explicitList": ["leaf"]}}),
    "child as list": ("Card", {"child": ["leaf"]}),
    "no tabs": ("Tabs", {"tabs": []}),
    "action of v0.8": ("Button", {"child": "leaf", "action": {"name": "go"}}),
    "event without name": ("Button", {"child": "leaf", "action": {"event": {}}}),
    "checks as object": ("CheckBox", {"label": "l", "value": True, "checks": {}}),
    "text for a flag": ("CheckBox", {"label": "l", "value": "yes"}),
    "option without value": ("ChoicePicker", {"options": [{"label": "A"}], "value": []}),
    "no max": ("Slider", {"value": 1}),
    "unknown component": ("Carousel", {}),
    "component of v0.8": ("MultipleChoice", {"options": [], "selections": {}}),
}


def invalid_cases() -> list[Case]:
    """What is wrong with components, messages and trees."""
    cases = [Case(n, "v0.8", shown("v0.8", t, p), False) for n, (t, p) in WRONG_8.items()]
    for version in ("v0.9", "v1.0"):
        cases += [
            Case(n, version, shown(version, t, p), False) for n, (t, p) in WRONG_LATER.items()
        ]
        cases += _wrong_calls(version)
        cases += _wrong_trees(version)
    cases += _wrong_trees("v0.8")
    cases += _wrong_messages()
    return cases


def _wrong_calls(version: str) -> list[Case]:
    mark = "@" if version == "v1.0" else ""
    path, call = f"{mark}path", f"{mark}call"
    wrong = {
        "unknown function": {call: "shout", "args": {"value": "x"}},
        "argument missing": {call: "formatDate", "args": {"value": "x"}},
        "argument unknown": {call: "formatString", "args": {"value": "x", "loud": True}},
        "argument of another kind": {call: "formatNumber", "args": {"value": "many"}},
        "nested wrong call": {call: "formatString", "args": {"value": {call: "shout", "args": {}}}},
        "path and call": {path: "/a", call: "formatString"},
        "arguments as a number": {call: "length", "args": 5},
    }
    cases = [
        Case(n, version, shown(version, "Text", {"text": it}), False) for n, it in wrong.items()
    ]
    neither = {call: "length", "args": {"value": "x"}}
    checks = [{"condition": neither, "message": "m"}]
    field = shown(version, "TextField", {"label": "l", "checks": checks})
    why = "The specification wants 'min' or 'max'; a2ui-core's models do not check it."
    return [*cases, Case("length of nothing", version, field, False, why)]


def _wrong_trees(version: str) -> list[Case]:
    name = "surfaceUpdate" if version == "v0.8" else "updateComponents"

    def tree(**children: str) -> list[Any]:
        messages = shown(version, "Card", {"child": "leaf"})
        body = next(it[name] for it in messages if name in it)
        card = (lambda it: {"Card": {"child": it}}) if version == "v0.8" else None
        body["components"] = [
            {"id": it, "component": card(to)}
            if card
            else {"id": it, "component": "Card", "child": to}
            for it, to in children.items()
        ]
        return messages

    deep = {f"c{it}": f"c{it + 1}" for it in range(60)}
    deep_tree = tree(root="c0", **deep)
    body = next(it[name] for it in deep_tree if name in it)
    end = {"Divider": {}} if version == "v0.8" else "Divider"
    body["components"].append({"id": "c60", "component": end})
    tab = {"title": text8("x") if version == "v0.8" else "x", "child": "gone"}
    tabs = shown(version, "Tabs", {"tabItems" if version == "v0.8" else "tabs": [tab]})
    return [
        Case("dangling tab", version, tabs, False),
        Case("dangling child", version, tree(root="gone"), False),
        Case("itself", version, tree(root="root"), False),
        Case("circle", version, tree(root="a", a="b", b="root"), False),
        Case("no root", version, tree(a="b", b="a"), False),
        Case("too deep", version, deep_tree, False),
    ]


def _wrong_messages() -> list[Case]:
    good = shown("v0.8", "Text", {"text": text8("x")})
    update, begin = good
    two = copy.deepcopy(update) | {"deleteSurface": {"surfaceId": "s"}}
    no_id = {"surfaceUpdate": {"surfaceId": "s", "components": [{"component": {"Divider": {}}}]}}
    both = {
        "surfaceUpdate": {
            "surfaceId": "s",
            "components": [{"id": "a", "component": {"Text": {"text": text8("x")}, "Divider": {}}}],
        }
    }
    entry: dict[str, Any] = {"key": "a", "valueString": "x", "valueNumber": 1}
    nested = {"key": "a", "valueMap": [{"key": "b", "valueMap": []}]}

    def data(*entries: Any, **more: Any) -> list[Any]:
        return [*good, {"dataModelUpdate": {"surfaceId": "s", "contents": list(entries), **more}}]

    latest = shown("v1.0", "Text", {"text": "x"})
    other = "The agent is set to one catalog; a2ui-core's models accept any id."
    one = "Values must have exactly one of the forms; a2ui-core's models do not count them."
    named = {"@call": "required", "args": {"value": {"@todo": 1}}}
    return [
        Case("two messages in one", "v0.8", [two], False),
        Case("unknown message", "v0.8", [{"explode": {"surfaceId": "s"}}], False),
        Case("text as message", "v0.8", ["surfaceUpdate"], False),
        Case("no surface id", "v0.8", [{"surfaceUpdate": {"components": []}}], False),
        Case("no components", "v0.8", [{"surfaceUpdate": {"surfaceId": "s"}}], False),
        Case("component without id", "v0.8", [no_id], False),
        Case("two types", "v0.8", [both], False),
        Case("no root named", "v0.8", [update, {"beginRendering": {"surfaceId": "s"}}], False),
        Case(
            "colour in words",
            "v0.8",
            [
                update,
                {"beginRendering": {**begin["beginRendering"], "styles": {"primaryColor": "blue"}}},
            ],
            False,
        ),
        Case("entry without key", "v0.8", data({"valueString": "x"}), False),
        Case("map in map", "v0.8", data(nested), False),
        Case("two values", "v0.8", data(entry), False, one),
        Case("no value at all", "v0.8", data({"key": "a"}), False, one),
        Case("nothing to say", "v0.8", shown("v0.8", "Text", {"text": {}}), False, one),
        Case(
            "other catalog",
            "v0.8",
            [update, {"beginRendering": {**begin["beginRendering"], "catalogId": "mine"}}],
            False,
            other,
        ),
        Case(
            "weight as text",
            "v0.8",
            shown("v0.8", "Text", {"text": text8("x")}, weight="1"),
            False,
            "a2ui-core's models turn texts into numbers.",
        ),
        Case("message of v0.8", "v1.0", [{"version": "v1.0", **update}], False),
        Case("other version", "v1.0", [{**latest[0], "version": "v0.9"}], False),
        Case(
            "id with blanks",
            "v1.0",
            [
                latest[0],
                {
                    "version": "v1.0",
                    "updateComponents": {
                        "surfaceId": "s",
                        "components": [{"id": "my root", "component": "Divider"}],
                    },
                },
            ],
            False,
        ),
        Case(
            "value missing",
            "v1.0",
            [*latest, {"version": "v1.0", "updateDataModel": {"surfaceId": "s"}}],
            False,
        ),
        Case("reserved name", "v1.0", shown("v1.0", "Text", {"text": named}), False),
        Case(
            "live as told",
            "v1.0",
            shown("v1.0", "Text", {"text": "x"}, accessibility={"live": "loud"}),
            False,
        ),
        Case("catalog as number", "v1.0", shown("v1.0", "Text", {"text": "x"}, catalogId=5), False),
        Case(
            "extra in create",
            "v1.0",
            [
                {
                    "version": "v1.0",
                    "createSurface": {"surfaceId": "s", "catalogId": CATALOGS["v1.0"], "theme": {}},
                }
            ],
            False,
        ),
        Case(
            "no catalog", "v0.9", [{"version": "v0.9", "createSurface": {"surfaceId": "s"}}], False
        ),
        Case(
            "no catalog",
            "v1.0",
            [{"version": "v1.0", "createSurface": {"surfaceId": "s"}}],
            False,
            "Without a catalog no component could be drawn, so we ask for it.",
        ),
        Case(
            "call of the renderer",
            "v1.0",
            [
                {
                    "version": "v1.0",
                    "callRendererFunction": {
                        "functionCallId": "1",
                        "callFunction": {
                            "@call": "openUrl",
                            "args": {"url": "https://a"},
                            "catalogId": CATALOGS["v1.0"],
                        },
                    },
                }
            ],
            False,
            "It renders nothing, and nobody would hear the answer.",
        ),
    ]
