"""The welcome page in a real browser: chat, live events, approval, drops, stop, reload, token."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.server.processes import Shop

from awaken.protocols import welcome

HERE = Path(__file__).parent / "welcome"
SNIPPETS = Path(welcome.__file__).with_name("snippets.js")
NODE = Path(sys.executable).with_name("node")
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
WAIT_S = 50

pytestmark = pytest.mark.skipif(
    not Path(CHROMIUM).exists(), reason=f"there is no browser at {CHROMIUM}; set CHROMIUM"
)


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(tmp_path)
    yield shop
    shop.close()


def browsing(script: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(NODE), str(HERE / script), CHROMIUM, *arguments],
        cwd=HERE,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def free_port() -> str:
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        return str(free.getsockname()[1])


def seen_by(process: subprocess.Popen[str]) -> Any:
    try:
        out, complaints = process.communicate("go on\n", timeout=WAIT_S)
    finally:
        process.kill()
    assert process.returncode == 0, complaints
    return json.loads(out.splitlines()[-1])


def test_a_person_chats_approves_stops_and_goes_on_after_a_reload_and_a_restart(
    shop: Shop,
) -> None:
    port = free_port()
    first = shop.serve("--port", port, "--drain-ms", "0")
    process = browsing("chat.mjs", first.url, os.environ.get("AWAKEN_PICTURES", ""))
    assert process.stdout is not None
    assert process.stdout.readline() == "restart\n", process.communicate()[1]
    code, logged = first.ended()
    assert code == 0
    # The page asks on while the server stops.
    assert all("server_stopping" in line for line in logged.splitlines()), logged
    shop.serve("--port", port)
    seen = seen_by(process)
    assert (seen["problems"], seen["strangers"]) == ([], [])
    assert seen["agents"] == first.ready["agents"]
    assert "sqlite" in seen["about"]
    assert seen["events"][0] == "1run_start"
    assert any(event == "·text_delta" for event in seen["events"])
    assert seen["restored"] == ["Hello!", "RUN_DELETE_TOOL"]
    assert seen["approved"] == seen["approvedAfterReload"] == "succeeded"
    assert (seen["formsAfterReload"], seen["declinedAfterReload"]) == (0, "declined")
    assert (seen["elsewhere"], seen["formsAfterElsewhere"]) == (202, 0)
    assert "deleted" not in "".join(seen["declined"])
    assert seen["color"] == "lavender"
    assert (seen["turnsAfterDrop"], seen["toolsAfterDrop"]) == (7, 1)
    assert seen["canSayMore"]
    assert seen["turnsOfNewThread"] == 0
    snippets = seen["snippets"]
    assert list(snippets) == ["curl", "AI SDK", "AG-UI", "A2A", "MCP", "ACP", "OpenAI"]
    assert all(first.url in text for name, text in snippets.items() if name != "ACP")


def test_the_snippet_for_a_shell_works_as_it_is(shop: Shop) -> None:
    served = shop.serve()
    script = f"""
        import {{ snippets }} from "{SNIPPETS}";
        console.log(snippets("{served.url}", "default", false).curl);
    """
    made = subprocess.run(
        [str(NODE), "--input-type=module", "-e", script],
        capture_output=True, text=True, check=True, timeout=WAIT_S,
    )  # fmt: skip
    done = subprocess.run(
        ["sh", "-c", f"{made.stdout.strip()} --silent --max-time 20"],
        capture_output=True, text=True, check=True, timeout=WAIT_S,
    )  # fmt: skip
    assert "Scripted response to: Hello" in done.stdout


def test_a_server_that_asks_for_a_token_gets_it_from_the_page(shop: Shop) -> None:
    served = shop.serve("--token", "open-sesame")
    seen = seen_by(browsing("login.mjs", served.url, "open-sesame"))
    assert (seen["agentsBefore"], seen["isAskedAgain"]) == (0, False)
    assert "Authorization: Bearer TOKEN" in seen["snippet"]
    assert "open-sesame" not in seen["snippet"]
