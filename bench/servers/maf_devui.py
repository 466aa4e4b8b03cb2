"""agent-framework's DevUI server (OpenAI Responses API), its pages and its login off."""

import sys

from agent_framework import Agent
from agent_framework.devui import serve

from adapters.maf import Scripted
from common import SYSTEM, TOOLS

agent = Agent(client=Scripted(), instructions=SYSTEM, tools=list(TOOLS), name="bench", id="bench")

if __name__ == "__main__":
    serve(entities=[agent], port=int(sys.argv[1]), ui_enabled=False, auth_enabled=False)
