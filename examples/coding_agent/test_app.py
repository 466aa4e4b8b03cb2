"""The agent as an editor sees it, over ACP, and the walls around its file server."""

import os
import subprocess
import sys
import tempfile
import unittest
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from unittest import mock

import file_server
from acp import spawn_agent_process, text_block
from acp.schema import AllowedOutcome, RequestPermissionResponse
from sandbox import INSIDE, isolate
from scripted_coder import DOCSTRING

HERE = Path(__file__).parent
SOURCE = 'print("hello")\n'
PROBE = """
import os, sys
print(*sorted(os.listdir(sys.argv[1])))
print(not os.path.exists("/etc/passwd") and not os.path.exists("/home"))
"""


class Editor:
    """A client that answers every permission request with one kind of option."""

    def __init__(self, choice: str) -> None:
        self.choice = choice
        self.said = ""
        self.asked: list[Any] = []

    def on_connect(self, connection: Any) -> None:
        """Nothing to do."""

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        if update.session_update == "agent_message_chunk":
            self.said += update.content.text

    async def request_permission(
        self, session_id: str, tool_call: Any, options: Any, **_: Any
    ) -> RequestPermissionResponse:
        self.asked.append(tool_call.raw_input)
        (chosen,) = [it for it in options if it.kind == self.choice]
        outcome = AllowedOutcome(outcome="selected", option_id=chosen.option_id)
        return RequestPermissionResponse(outcome=outcome)


class CodingAgentTest(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.file = self.folder / "hello.py"
        self.file.write_text(SOURCE, encoding="utf-8")

    async def ask(self, editor: Editor, *texts: str) -> list[str]:
        """Start the agent as an editor does, and prompt it; why each turn stopped."""
        program = (sys.executable, "-m", "awaken", "acp", str(HERE / "app.py"))
        environment = {**os.environ, "AGENT_FOLDER": str(self.folder)}
        async with AsyncExitStack() as stack:
            client: Any = editor
            start = spawn_agent_process(client, *program, "--store", "memory://", env=environment)
            agent, _ = await stack.enter_async_context(start)
            await agent.initialize(protocol_version=1)
            session = await agent.new_session(cwd=str(self.folder))
            turns = [await agent.prompt(session.session_id, [text_block(it)]) for it in texts]
            return [turn.stop_reason for turn in turns]

    async def test_a_write_asks_once_and_a_read_does_not(self) -> None:
        editor = Editor("allow_always")
        asked = "Document hello.py."
        stopped = await self.ask(editor, "Which files are there?", asked, asked)
        self.assertEqual(stopped, ["end_turn"] * 3)
        self.assertIn("These are the files: hello.py", editor.said)
        self.assertEqual(editor.said.count("I added a docstring to hello.py."), 2)
        self.assertEqual(editor.asked, [{"path": "hello.py", "text": DOCSTRING + SOURCE}])
        self.assertEqual(self.file.read_text(encoding="utf-8"), DOCSTRING * 2 + SOURCE)

    async def test_without_a_yes_nothing_is_written(self) -> None:
        editor = Editor("reject_once")
        await self.ask(editor, "Document hello.py.")
        self.assertIn("Nothing changed", editor.said)
        self.assertEqual(self.file.read_text(encoding="utf-8"), SOURCE)

    def test_no_path_leads_out_of_the_folder(self) -> None:
        (self.folder / "link.py").symlink_to(HERE / "app.py")
        with mock.patch.object(file_server, "ROOT", self.folder):
            self.assertEqual(file_server.read_file("hello.py"), SOURCE)
            self.assertEqual(file_server.list_files(), "hello.py")
            for path in ("../x.py", "link.py", str(HERE / "app.py")):
                with self.assertRaisesRegex(ValueError, "outside of the folder"):
                    file_server.write_file(path, "")

    def test_in_the_sandbox_there_is_nothing_but_the_folder(self) -> None:
        probe = self.folder / "probe.py"
        probe.write_text(PROBE, encoding="utf-8")
        command = isolate(probe, self.folder)
        shown = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        listed, is_alone = shown.stdout.splitlines()
        self.assertEqual(listed, "hello.py probe.py")
        # Without bubblewrap there are no walls, and the argument is the folder itself.
        self.assertEqual(is_alone, str(command[-1] == INSIDE))


if __name__ == "__main__":
    unittest.main()
