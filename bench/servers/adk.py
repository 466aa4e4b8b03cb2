"""google-adk's API server with sessions in memory."""

import tempfile

from google.adk.agents import LlmAgent
from google.adk.cli.fast_api import get_fast_api_app
from google.adk.cli.utils.base_agent_loader import BaseAgentLoader

from adapters.adk import Scripted
from common import SYSTEM, TOOLS
from servers.listening import listen

agent = LlmAgent(name="bench", model=Scripted(), instruction=SYSTEM, tools=list(TOOLS))


class OneAgent(BaseAgentLoader):
    def load_agent(self, agent_name):
        return agent

    def list_agents(self):
        return ["bench"]


if __name__ == "__main__":
    listen(
        get_fast_api_app(
            agents_dir=tempfile.mkdtemp(dir="."),
            agent_loader=OneAgent(),
            session_service_uri="memory://",
            artifact_service_uri="memory://",
            memory_service_uri="memory://",
            use_local_storage=False,
            web=False,
            auto_create_session=True,
        )
    )
