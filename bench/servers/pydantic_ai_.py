"""pydantic-ai's AG-UI adapter in a Starlette app, as its documentation shows it."""

from pydantic_ai import Agent
from pydantic_ai.ui.ag_ui import AGUIAdapter
from starlette.applications import Starlette
from starlette.routing import Route

from adapters.pydantic_ai_ import Scripted
from common import SYSTEM, TOOLS
from servers.listening import listen

agent = Agent(Scripted(), instructions=SYSTEM, tools=list(TOOLS))


async def run(request):
    return await AGUIAdapter.dispatch_request(request, agent=agent)


if __name__ == "__main__":
    listen(Starlette(routes=[Route("/", run, methods=["POST"])]))
