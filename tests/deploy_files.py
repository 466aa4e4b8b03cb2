"""What the files in `deploy/` start and stop: read out of them, for tests that do the same."""

import configparser
import json
import re
import shlex
from pathlib import Path
from typing import Any, NamedTuple

import yaml

DEPLOY = Path(__file__).parents[1] / "deploy"
KUBERNETES = sorted((DEPLOY / "k8s").glob("**/*.yaml"))
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
DOCKERFILE = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")


class Launch(NamedTuple):
    """One process as a file describes it."""

    place: str
    command: list[str]
    environment: frozenset[str]
    """The variables that it gets."""
    port: int | None
    """Where others look for it; None: nowhere."""
    ready_path: str | None
    live_path: str | None
    stop_signal: str
    grace_s: float
    """How long after the signal it is killed."""
    is_notifying: bool = False

    @property
    def kind(self) -> str:
        return self.command[1]


def read_objects() -> list[dict[str, Any]]:
    """All objects of the manifests for Kubernetes."""
    texts = [path.read_text(encoding="utf-8") for path in KUBERNETES]
    return [it for text in texts for it in yaml.safe_load_all(text)]


def find_object(kind: str, name: str) -> dict[str, Any]:
    (found,) = (it for it in read_objects() if (it["kind"], it["metadata"]["name"]) == (kind, name))
    return found


def read_pod(name: str) -> Launch:
    spec = find_object("Deployment", name)["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    ports = {it["name"]: it["containerPort"] for it in container.get("ports", ())}
    before_s = container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
    probes = {
        name: container[name]["httpGet"]
        for name in ("readinessProbe", "livenessProbe")
        if name in container
    }
    assert {ports[it["port"]] for it in probes.values()} <= set(ports.values())
    return Launch(
        place=f"kubernetes {name}",
        command=container["command"],
        environment=frozenset(it["name"] for it in container["env"]),
        port=ports.get("http"),
        ready_path=probes.get("readinessProbe", {}).get("path"),
        live_path=probes.get("livenessProbe", {}).get("path"),
        stop_signal="SIGTERM",
        grace_s=spec["terminationGracePeriodSeconds"] - before_s,
    )


def read_compose(name: str = "compose.yaml") -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / name).read_text(encoding="utf-8"))
    return found


def read_compose_with_nats(name: str) -> Launch:
    """A service as both files together describe it."""
    more = read_compose("compose.nats.yaml")["services"][name]
    launch = read_compose_service(name)
    environment = launch.environment | more["environment"].keys()
    return launch._replace(place=f"compose with NATS {name}", environment=environment)


def read_compose_service(name: str) -> Launch:
    service = read_compose()["services"][name]
    check = " ".join(service.get("healthcheck", {}).get("test", ()))
    asked = re.search(r"http://127\.0\.0\.1:(\d+)(/[\w/]+)", check)
    return Launch(
        place=f"compose {name}",
        command=service["command"],
        environment=frozenset(service["environment"]),
        port=None if asked is None else int(asked[1]),
        ready_path=None,
        live_path=None if asked is None else asked[2],
        stop_signal=read_stop_signal(),
        grace_s=float(service["stop_grace_period"].removesuffix("s")),
    )


def read_stop_signal() -> str:
    (found,) = re.findall(r"^STOPSIGNAL (\w+)$", DOCKERFILE, re.MULTILINE)
    return str(found)


def read_image() -> Launch:
    (line,) = re.findall(r"^CMD (.+)$", DOCKERFILE, re.MULTILINE)
    (port,) = re.findall(r"^EXPOSE (\d+)$", DOCKERFILE, re.MULTILINE)
    server = read_compose_service("server")
    return server._replace(place="image", command=json.loads(line), port=int(port))


def read_unit(path: Path) -> Launch:
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(path.read_text(encoding="utf-8"))
    service = parser["Service"]
    return Launch(
        place=f"systemd {path.name}",
        command=shlex.split(service["ExecStart"].replace("%i", "8000")),
        # Of its file; which variables that has is in the comment of the unit.
        environment=frozenset(re.findall(r"\bAWAKEN_\w+", path.read_text(encoding="utf-8"))),
        port=8000 if "%i" in service["ExecStart"] else None,
        ready_path=None,
        live_path=None,
        stop_signal=service["KillSignal"],
        grace_s=float(service["TimeoutStopSec"]),
        is_notifying=service["Type"] == "notify",
    )


LAUNCHES = {
    it.place: it
    for it in (
        read_pod("awaken-server"),
        read_pod("awaken-worker"),
        read_compose_service("server"),
        read_compose_service("worker"),
        read_compose_with_nats("server"),
        read_compose_with_nats("worker"),
        read_image(),
        *map(read_unit, UNITS),
    )
}
