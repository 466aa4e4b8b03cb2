"""agent-framework's AG-UI endpoint on FastAPI."""

from agent_framework import Agent
from agent_framework_ag_ui import add_agent_framework_fastapi_endpoint
from fastapi import FastAPI

from adapters.maf import Scripted
from common import SYSTEM, TOOLS
from servers.listening import listen

agent = Agent(client=Scripted(), instructions=SYSTEM, tools=list(TOOLS), name="bench")
app = FastAPI()
add_agent_framework_fastapi_endpoint(app, agent, "/", single_user=True)

if __name__ == "__main__":
    listen(app)
