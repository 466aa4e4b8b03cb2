"""Pictures and documents in a message.

Input is text, a content block, or a list of both. The model gets the blocks as they are, and so
does the store.
"""

import asyncio
import base64

from awaken import Agent, AgentRuntime
from awaken.messages import Base64Source, Document, Image, Text, UrlSource
from awaken.models import InferenceRequest
from awaken.testing import ScriptedModel

PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()


def describe(request: InferenceRequest) -> str:
    """Answer with what the model was given."""
    kinds = [str(block.__struct_config__.tag) for block in request.messages[-1].content]
    return f"I got: {', '.join(kinds)}."


async def main() -> None:
    agent = Agent("viewer", model=ScriptedModel([describe, describe]))
    async with AgentRuntime([agent]) as runtime:
        picture = Image(source=Base64Source(media_type="image/png", data=PIXEL))
        report = Document(source=UrlSource(url="https://example.com/q3.pdf"), title="Q3")

        first = await runtime.run("viewer", ["Compare these:", picture, report], thread_id="t1")
        second = await runtime.run("viewer", picture, thread_id="t1")
        stored = (await runtime.messages("t1"))[0].message

    print(first.text)
    print(second.text)
    assert first.text == "I got: text, image, document."
    assert second.text == "I got: image."
    assert stored.content == (Text(text="Compare these:"), picture, report)


if __name__ == "__main__":
    asyncio.run(main())
