"""The team without a key: who does what, and what may not be claimed."""

import dataclasses
import json
import unittest

from app import Finding, Report, checker, lead, researcher
from library import LIBRARY

from awaken import AgentRuntime
from awaken.testing import ScriptedModel, ToolCalls

QUESTION = "How long are the Rhine and the Elbe?"


class ResearchTeamTest(unittest.IsolatedAsyncioTestCase):
    async def test_the_report_has_what_was_checked(self) -> None:
        async with AgentRuntime([lead, researcher, checker], deps=LIBRARY) as runtime:
            result = await runtime.run(lead, QUESTION, thread_id="rivers")
            tasks = await runtime.tasks("rivers")
            runs = await runtime.list_runs()

        assert isinstance(result.output, Report)
        self.assertEqual([it.source for it in result.output.findings], ["geo/rhine"])
        self.assertEqual([it.source for it in result.output.rejected], ["blog/elbe"])
        self.assertEqual(
            {it.name: it.status for it in tasks}, dict.fromkeys(("rhine", "elbe"), "completed")
        )
        agents = sorted(run.agent_id for run in runs)
        self.assertEqual(agents, ["checker"] * 2 + ["lead"] + ["researcher"] * 2)

    async def test_an_invented_source_is_sent_back(self) -> None:
        invented = json.dumps({"claim": "It is long.", "source": "geo/nowhere"})
        real = json.dumps({"claim": "It is long.", "source": "geo/rhine"})
        model = ScriptedModel([ToolCalls([("search", {"words": "rhine"})]), invented, real])
        result = await dataclasses.replace(researcher, model=model).run("rhine", deps=LIBRARY)
        self.assertEqual(result.output, Finding("It is long.", "geo/rhine"))
        self.assertIn("there is no page geo/nowhere", model.requests[-1].messages[-1].text)

    async def test_a_report_without_findings_is_sent_back(self) -> None:
        empty = json.dumps({"summary": "Nothing.", "findings": []})
        finding = {"claim": "It is long.", "source": "geo/rhine"}
        full = json.dumps({"summary": "It is long.", "findings": [finding]})
        model = ScriptedModel([empty, full])
        team = [dataclasses.replace(lead, model=model), researcher, checker]
        async with AgentRuntime(team, deps=LIBRARY) as runtime:
            result = await runtime.run("lead", QUESTION)
        self.assertEqual(result.output.findings, [Finding("It is long.", "geo/rhine")])


if __name__ == "__main__":
    unittest.main()
