"""An agent that shows a form and updates it, and two interfaces that another agent writes.

The events are what a client gets: it applies each snapshot and each patch, and draws the outcome.
"""

import asyncio
from typing import Any

from awaken import Agent, AgentRuntime
from awaken.events import ActivityDelta, ActivitySnapshot
from awaken.extensions.generative_ui import GenerativeUiPlugin
from awaken.testing import Chunks, ScriptedModel, ToolCalls

FORM = [
    {"id": "root", "component": {"Column": {"children": {"explicitList": ["name", "send"]}}}},
    {"id": "name", "component": {"TextField": {"label": {"literalString": "Your name"}}}},
    {"id": "send", "component": {"Button": {"child": "label", "action": {"name": "send"}}}},
    {"id": "label", "component": {"Text": {"text": {"path": "/label"}}}},
]
SHOW = [
    {"surfaceUpdate": {"surfaceId": "form", "components": FORM}},
    {"beginRendering": {"surfaceId": "form", "root": "root"}},
]
CONTENTS = [{"key": "label", "valueString": "Send it"}]
UPDATE = {"dataModelUpdate": {"surfaceId": "form", "contents": CONTENTS}}
WRONG = {"dataModelUpdate": {"surfaceId": "from", "contents": CONTENTS}}
"""A mistake, as models make them; the answer says which surfaces there are."""

SPEC_LINES = [
    '{"op": "add", "path": "/root", "value": "report"}\n',
    '{"op": "add", "path": "/elements/report", "value": {"type": "Card", "children": []}}\n',
    '{"op": "add", "path": "/elements/total", "value": {"type": "Text"}}\n',
    '{"op": "add", "path": "/elements/report/children/-", "value": "total"}\n',
]
PROGRAM = 'root = Card([title, go], "Report")\ntitle = Text("42 sales")\ngo = Button("Refresh")\n'


def painter() -> Agent:
    """Shows the form, makes a mistake, mends it, and has two reports written."""
    script = [
        ToolCalls([("render_a2ui", {"messages": SHOW})]),
        ToolCalls([("render_a2ui", WRONG)]),
        ToolCalls([("render_a2ui", UPDATE)]),
        ToolCalls([("render_json_ui", {"prompt": "A report: 42 sales."})]),
        ToolCalls([("render_openui", {"prompt": "A report: 42 sales."})]),
        "Here is everything.",
    ]
    components = {
        "Card": ["children: any[]", "title?: string"],
        "Text": ["text: string"],
        "Button": ["label: string"],
    }
    return Agent(
        "painter",
        model=ScriptedModel(script),
        delegates=["writer"],
        plugins=[GenerativeUiPlugin()],
        config={
            "generative_ui": {
                "json_render": {"agent": "writer"},
                "openui": {"agent": "writer", "components": components, "root": "Card"},
            }
        },
    )


async def main() -> None:
    writer = Agent("writer", model=ScriptedModel([Chunks(SPEC_LINES), Chunks([PROGRAM])]))
    shown: list[Any] = []
    async with AgentRuntime([painter(), writer]) as runtime:
        async for event in runtime.stream("painter", "The form, and a report.", thread_id="t"):
            if isinstance(event, ActivitySnapshot | ActivityDelta):
                shown.append(event)
        messages = [it.message for it in await runtime.messages("t")]
    results = [it.text for it in messages if it.role == "tool"]

    for event in shown:
        what = event.content if isinstance(event, ActivitySnapshot) else event.patch
        print(event.activity_type, what)
    for result in results:
        print(result)

    assert "there is no surface 'from'; there is: 'form'" in results[1]
    assert results[2] == '{"rendered":true,"count":1}'
    assert sum(isinstance(event, ActivityDelta) for event in shown) >= len(SPEC_LINES)


if __name__ == "__main__":
    asyncio.run(main())
