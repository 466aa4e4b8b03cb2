"""Which program the coding agent is, where it works, and how much of its output is read."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, TypeGuard

import msgspec

from awaken.contracts.backends import errors as errors
from awaken.contracts.clock import Clock
from awaken.contracts.identity import derive_id
from awaken.contracts.record import Record
from awaken.contracts.secrets import (
    RedactedString,
    SecretReference,
    SecretUnresolved,
    decode_secret,
    to_builtins_with_secrets,
)
from awaken.contracts.specs.agents import RemoteEndpoint

NAME = "acp"
BASE_URL = "stdio:"
_INHERITED = ("PATH", "HOME")
_FORMS = "command is a list of arguments, cwd an absolute path, env has texts by name"


class AcpLimits(Record, frozen=True, kw_only=True):
    """How much of an agent's output is read, and how long the backend waits for it to stop."""

    line_bytes: int = 8 * 1024 * 1024
    total_bytes: int = 128 * 1024 * 1024
    """How much an agent may write in one run."""
    answer_chars: int = 1_000_000
    question_bytes: int = 256 * 1024
    """How large a request for permission may be; a larger one is refused."""
    open_requests: int = 32
    """How many requests of the agent may be unanswered at the same time."""
    stderr_bytes: int = 2000
    """How much of the end of stderr an error shows."""
    progress_ms: int = 200
    """How long updates are collected before an event shows them."""
    cancel_ms: int = 5000
    """How long a cancelled prompt may take to return."""
    exit_ms: int = 500
    """How long the process may take to exit after its stdin is closed."""
    term_ms: int = 2000
    """How long it may take to exit after SIGTERM."""


class Program(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of an endpoint."""

    command: tuple[str, ...]
    cwd: str
    env: dict[str, RedactedString | None] = {}  # noqa: RUF012 - msgspec copies it

    @property
    def name(self) -> str:
        """The name of the program, for messages."""
        return Path(self.command[0]).name

    @property
    def target(self) -> str:
        """The key of its checkpoint in the thread's state; it reveals nothing of the command."""
        return f"{NAME}:{derive_id(self.cwd, *self.command)}"

    def environment(self, own: Mapping[str, str]) -> dict[str, str]:
        """The environment variables of the process.

        Raises:
            BackendExecutionFailed: A variable that it inherits is not set, or a secret cannot be
                read.
        """
        seen = {name: own[name] for name in _INHERITED if name in own}
        for name, value in self.env.items():
            if value is None and name not in own:
                problem = f"the variable {name} of '{self.name}' is not set; set it for the server"
                raise errors.BackendExecutionFailed(problem=problem)
            try:
                seen[name] = own[name] if value is None else value.reveal()
            except SecretUnresolved as error:
                raise errors.BackendExecutionFailed(problem=str(error)) from None
            if "\0" in seen[name]:
                problem = f"the variable {name} of '{self.name}' has a NUL character"
                raise errors.BackendExecutionFailed(problem=problem)
        return seen


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What every run of one endpoint uses."""

    program: Program
    timeout_ms: int
    limits: AcpLimits
    clock: Clock


def program_of(endpoint: RemoteEndpoint) -> Program:
    """The program that an endpoint names.

    `RemoteEndpoint(backend="acp", base_url="stdio:", options={"command": ["coder", "--acp"],
    "cwd": "/srv/project", "env": {"LOG": "info", "API_KEY": None}})` starts a program without a
    shell. It gets PATH, HOME and the variables in `env`; a variable that is None there is copied
    from this process. `timeout_ms` covers the whole run, including the time that decisions take.

    Raises:
        InvalidBackendConfig: It names no program, or has an unknown or invalid option.
    """
    if endpoint.backend != NAME:
        _refuse(f"backend '{endpoint.backend}' is not '{NAME}'")
    if endpoint.base_url != BASE_URL:
        _refuse(f"base_url must be '{BASE_URL}'; name the program in options.command")
    if endpoint.auth is not None or endpoint.target is not None:
        _refuse("it takes neither auth nor target; give the program its keys in options.env")
    if endpoint.timeout_ms <= 0:
        _refuse("timeout_ms must be positive")
    for name in endpoint.options:
        if name not in Program.__struct_fields__:
            _refuse(f"option '{name}' is unknown; use {', '.join(Program.__struct_fields__)}")
    try:
        options = to_builtins_with_secrets(endpoint.options)
        program = msgspec.convert(options, Program, dec_hook=decode_secret)
    except (msgspec.ValidationError, TypeError) as error:
        raise errors.InvalidBackendConfig(backend=NAME, problem=f"{error}; {_FORMS}") from error
    _check(program)
    return program


def _check(program: Program) -> None:
    values = (
        *program.command,
        program.cwd,
        *program.env,
        *(it.reveal() for it in program.env.values() if _is_given(it)),
    )
    if not program.command or not program.command[0].strip():
        _refuse("option 'command' is empty; name the program and its arguments")
    if not os.path.isabs(program.cwd):
        _refuse("option 'cwd' is not an absolute path; name the folder that the agent works in")
    if any("\0" in value for value in values):
        _refuse("an option holds a NUL character; leave it out")
    if any(not name or "=" in name for name in program.env):
        _refuse("option 'env' has a blank name or one with '='; use plain names")


def _is_given(value: RedactedString | None) -> TypeGuard[RedactedString]:
    """Whether a value is known now: a reference is only resolved when the program starts."""
    return value is not None and not isinstance(value, SecretReference)


def _refuse(problem: str) -> NoReturn:
    raise errors.InvalidBackendConfig(backend=NAME, problem=problem)
