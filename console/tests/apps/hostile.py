"""An agent whose model says what a hostile or a very fast one would: for tests of the chat."""

from awaken import Agent, tool
from awaken.messages import Role
from awaken.models import InferenceRequest
from awaken.testing import Answer, Chunks, ScriptedModel, ToolCalls, Turn

HOSTILE = """\
# Not a heading of the page
<script>window.hacked = 1</script><img src=x onerror="window.hacked = 2">
<iframe src="https://evil.example/frame"></iframe>

[click](javascript:window.hacked=3) [data](data:text/html,<script>window.hacked=4</script>) [good](https://good.example/page)
[local](/v1/runs) <javascript:window.hacked=5> [ref]

![remote](https://evil.example/pixel.png) ![data](data:image/svg+xml;base64,PHN2Zz48L3N2Zz4=)

- [ ] a task

| a | b |
| - | - |
| 1 | 2 |

\u001b[31mred\u001b[0m \u202egnp.exe\u202c end

[ref]: javascript:window.hacked=6
"""


@tool(effect="none")
async def echo(text: str) -> str:
    """Give back a text."""
    return text


ANSWERS: dict[str, Answer] = {
    "LONG": "x" * 1_000_000,
    "FAST": Chunks([f"w{number} " for number in range(2_000)], delay_ms=2),
    "SLOW": Chunks([f"w{number} " for number in range(100)], delay_ms=40),
    "TOOL": ToolCalls([("echo", {"text": HOSTILE})]),
    "THINK": Turn(text="Thought.", reasoning=HOSTILE),
    "FAIL": RuntimeError("the model is gone"),
}


def answer(request: InferenceRequest) -> Answer:
    """Answer by the last message: what a person asks for, or a result."""
    last = request.messages[-1]
    if last.role is Role.TOOL:
        return "The tool has answered."
    return ANSWERS.get(last.text, HOSTILE)


hostile = Agent(
    "hostile",
    model=ScriptedModel([answer], cycle=True),
    tools=[echo],
    config={"retry": {"max_retries": 0}},
)
