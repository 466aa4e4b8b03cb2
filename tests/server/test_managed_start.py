"""`awaken serve` with managed configuration: from a folder, pinned, off, and over two processes."""

import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.forked_python import run_python

from .processes import Shop, clean_environment, eventually

AGENT = "agents: [{id: support, model_id: scripted, system_prompt: One.}]"


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    made = Shop(tmp_path)
    (tmp_path / "conf").mkdir()
    made.write("conf/agents.yaml", AGENT)
    yield made
    made.close()


def call(url: str, body: Any = None) -> tuple[int, Any]:
    data = None if body is None else json.dumps(body).encode()
    headers = {"content-type": "application/json"}
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, data, headers), timeout=20
        ) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def command(shop: Shop, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_python("-m", "awaken", *arguments, cwd=shop.folder, env=clean_environment())


def test_a_folder_is_applied_once_by_all_processes_that_start_with_it(shop: Shop) -> None:
    first = shop.serve("app.py", "--config", "conf")
    assert first.ready["agents"] == ["slow", "support"]
    second = shop.serve("app.py", "--config", "conf")
    assert call(f"{second.url}/v1/config/head")[1]["publication"] == 1
    # A command publishes without a server, and both processes follow.
    shop.write("conf/agents.yaml", AGENT.replace("One", "Two"))
    assert command(shop, "config", "apply", "conf", "--yes", "--app", "app.py").returncode == 0
    for served in (first, second):

        def is_new(url: str = served.url) -> bool:
            workers = call(f"{url}/v1/config/head")[1]["workers"]
            return len(workers) == 2 and all(it["publication"] == 2 for it in workers)

        assert eventually(is_new)


def test_a_folder_with_problems_refuses_the_start(shop: Shop) -> None:
    shop.write("conf/bad.yaml", "agents: [{id: x, model_id: scripted, modle: 1}]")
    done = command(shop, "serve", "app.py", "--port", "0", "--config", "conf")
    assert done.returncode != 0
    assert "bad.yaml: agents/x/modle" in done.stderr
    assert "Ready" not in done.stdout


def test_a_process_that_stays_on_a_publication_only_reads(shop: Shop) -> None:
    shop.serve("app.py", "--config", "conf").ended()
    served = shop.serve("app.py", "--config-publication", "1")
    files = {"origin": "conf", "records": {"agents": {"b": {"model_id": "scripted"}}}}
    status, reply = call(f"{served.url}/v1/config/apply", {"files": files})
    assert (status, reply["code"]) == (409, "publish_refused")
    unknown = command(shop, "serve", "app.py", "--port", "0", "--config-publication", "9")
    assert unknown.returncode != 0
    assert "9" in unknown.stderr


def test_managed_configuration_can_be_off_and_says_when_it_is_lost(shop: Shop) -> None:
    served = shop.serve("app.py", "--no-managed")
    assert call(f"{served.url}/v1/config/head")[0] == 400
    both = command(shop, "serve", "app.py", "--no-managed", "--config", "conf")
    assert (both.returncode, "--no-managed" in both.stderr) == (2, True)
    memory = shop.serve("app.py", "--store", "memory://", "--config", "conf")
    assert memory.ready["agents"] == ["slow", "support"]
