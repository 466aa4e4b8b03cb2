"""The Dockerfile of a new project: its steps, executed one by one in a folder, without an engine.

What an engine would add is not tested here: the base image, the user and the isolation.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tomllib
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.server.processes import clean_environment

from awaken import __version__
from awaken.cli.listen_address import DEFAULT

from .conftest import Call

ROOT = Path(__file__).parents[3]
WAIT_S = 120
TOKEN = "a-token-of-the-test-that-is-long-enough"
KNOWN = {"FROM", "WORKDIR", "COPY", "RUN", "USER", "ENV", "VOLUME", "EXPOSE", "HEALTHCHECK", "CMD"}


def read_steps(text: str) -> Iterator[tuple[str, str]]:
    for line in text.replace("\\\n", " ").splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            word, _, rest = line.strip().partition(" ")
            yield word, rest


class Image:
    """A folder that stands for the root of an image, and a virtual environment for its Python."""

    def __init__(self, root: Path, context: Path) -> None:
        self.root, self.context = root, context
        self.work, self.user = root, "root"
        self.command: list[str] = []
        self.health: list[str] = []
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", root / "usr"], check=True)
        site = next((root / "usr" / "lib").glob("python*/site-packages"))
        # Dependencies come from the environment of the tests, awaken itself from its wheel.
        known = next(it for it in map(Path, sys.path) if it.name == "site-packages")
        (site / "known.pth").write_text(str(known), encoding="utf-8")
        self.site, self.bin = site, root / "usr" / "bin"
        for name in ("useradd", "chown"):
            self._fake(name, "exit 0")
        self._fake("pip", f'exec "{self.bin}/python" -m pip --disable-pip-version-check "$@"')
        self.environment = {
            **{name: it for name, it in clean_environment().items() if name != "PYTHONPATH"},
            "PATH": f"{self.bin}:{os.environ['PATH']}",
            "PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PIP_IGNORE_INSTALLED": "1",
        }  # fmt: skip

    def _fake(self, name: str, script: str) -> None:
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        path.chmod(0o755)

    def place(self, path: str) -> Path:
        return self.root / path.lstrip("/") if path.startswith("/") else self.work / path

    def take(self, word: str, rest: str) -> None:
        match word:
            case "WORKDIR":
                self.work = self.place(rest)
                self.work.mkdir(parents=True, exist_ok=True)
            case "COPY":
                *sources, target = rest.split()
                for source in sources:
                    found = self.context / source
                    assert found.exists(), f"{source} is not in the project"
                    goal = self.place(target)
                    goal.mkdir(parents=True, exist_ok=True)
                    tail = "/." if found.is_dir() else ""
                    subprocess.run(["cp", "-r", f"{found}{tail}", goal], check=True)
            case "RUN":
                shell = re.sub(r"(?<![\w.])/data\b", str(self.root / "data"), rest)
                done = subprocess.run(
                    ["/bin/sh", "-ec", shell], cwd=self.work, env=self.environment,
                    capture_output=True, text=True, timeout=WAIT_S, check=False,
                )  # fmt: skip
                assert done.returncode == 0, f"{rest}\n{done.stderr}"
            case "ENV":
                name, _, value = rest.partition("=")
                self.environment[name] = str(self.place(value))
            case "USER":
                self.user = rest
            case "CMD":
                self.command = json.loads(rest)
            case "HEALTHCHECK":
                self.health = json.loads(rest.partition("CMD ")[2])


@pytest.fixture
def project(call: Call, tmp_path: Path) -> Path:
    assert call("init", "shop").code == 0
    return tmp_path / "shop"


def test_the_image_is_of_a_python_that_awaken_supports(project: Path) -> None:
    steps = list(read_steps((project / "Dockerfile").read_text(encoding="utf-8")))
    assert {word for word, _ in steps} <= KNOWN
    (image,) = [rest for word, rest in steps if word == "FROM"]
    found = re.fullmatch(r"python:3\.(\d+)-slim", image)
    assert found is not None
    project_file = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    least = re.fullmatch(r">=3\.(\d+)", project_file["project"]["requires-python"])
    assert least is not None
    assert int(least[1]) <= int(found[1]) <= 14
    words = [word for word, _ in steps]
    # It does not run as root, and what is installed is cached before the code is copied.
    assert words.index("USER") < words.index("CMD")
    assert ("EXPOSE", str(DEFAULT.port)) in steps


def test_each_step_works_and_the_command_serves(project: Path, tmp_path: Path) -> None:
    wheels = project / "wheels"
    wheels.mkdir()
    build = "import sys, flit_core.buildapi as it; it.build_wheel(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, str(wheels)], cwd=ROOT, check=True, timeout=WAIT_S)
    (tmp_path / "image").mkdir()
    image = Image(tmp_path / "image", project)
    for word, rest in read_steps((project / "Dockerfile").read_text(encoding="utf-8")):
        image.take(word, rest)
    assert (image.site / "awaken" / "__init__.py").exists()
    assert image.user == "agent"
    environment = {
        **image.environment,
        "AWAKEN_HTTP_ADDR": "127.0.0.1:0",
        "AWAKEN_ADMIN_API_BEARER_TOKEN": TOKEN,
    }
    with subprocess.Popen(
        [image.bin / image.command[0], *image.command[1:], "--json"],
        cwd=image.work, env=environment, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            ready = json.loads(process.stdout.readline())
            port = int(ready["url"].rpartition(":")[2])
            asked = [it.replace(str(DEFAULT.port), str(port)) for it in image.health]
            healthy = [image.bin / asked[0], *asked[1:]]
            assert subprocess.run(healthy, check=False, timeout=WAIT_S).returncode == 0
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=WAIT_S) as it:
                assert it.status == 200
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=WAIT_S)
    assert list((tmp_path / "image" / "data").glob("awaken.db*"))
    assert __version__ in (project / "Dockerfile").read_text(encoding="utf-8")
