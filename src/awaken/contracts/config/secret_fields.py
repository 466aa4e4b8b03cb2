"""Secrets in stored bodies: where they may stand, and how a text becomes a reference.

All functions are pure. A path names a field from the top of a body; `*` stands for every key of an
object, and `!type` for every key but `type`: `adapter_options/headers/*`, `endpoint/auth/!type`.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from posixpath import normpath
from typing import Any, TypeVar

import msgspec

from awaken.contracts.errors import InvalidSpec
from awaken.contracts.secrets import IN_CODE, SECRET_KEY, RedactedString, decode_secret

from .compiler import ConfigProblem

T = TypeVar("T")

ENV, FILE, STORE = "env:", "file:", "store:"
REF_CHARS_MAX = 1024
_ENV_NAME = re.compile(r"[A-Z_][A-Z0-9_]{0,254}")
_STORE_NAME = re.compile(r"[a-z][a-z0-9-]{0,63}/[A-Za-z0-9._:@-]{1,128}(/[!-.0-~]{1,128}){1,8}")
_OWN_PREFIX = "AWAKEN_"
_GONE = object()


def store_ref(namespace: str, record_id: str, path: str, suffix: str | None = None) -> str:
    """Return the reference under which the store keeps the secret of one field.

    A secret that was written in a draft has a name of its own: what is in use does not change.
    """
    place = f"{namespace}/{record_id}/{path}"
    return f"{STORE}{place}" if suffix is None else f"{STORE}{place}/{suffix}"


def check_ref(ref: object) -> str:
    """Say what is wrong with a reference; an empty text if it is well-formed."""
    if not isinstance(ref, str) or not ref or len(ref) > REF_CHARS_MAX:
        return "a reference is a text such as env:NAME, file:/path or store:namespace/id/field"
    if ref == IN_CODE:
        return "the secret is given in code, and was not exported; name it as env:NAME instead"
    if ref.startswith(ENV):
        return _env_problem(ref.removeprefix(ENV))
    if ref.startswith(FILE):
        path = ref.removeprefix(FILE)
        is_plain = path.isprintable() and path.startswith("/") and normpath(path) == path
        is_file = is_plain and len(path) > 1 and not path.startswith("//")
        return "" if is_file else "file: needs an absolute path without '.' and '..'"
    if ref.startswith(STORE):
        is_name = _STORE_NAME.fullmatch(ref.removeprefix(STORE)) is not None
        return "" if is_name else "store: needs namespace/id/field"
    return "a reference begins with env:, file: or store:"


def _env_problem(name: str) -> str:
    if _ENV_NAME.fullmatch(name) is None:
        return "env: needs the name of a variable in capital letters, digits and '_'"
    if name.startswith(_OWN_PREFIX):
        # These are the server's own: its keys, its tokens and the address of its store.
        return f"env: cannot name a variable of the server itself, {_OWN_PREFIX}…"
    return ""


def is_below(path: str, directories: Sequence[str]) -> bool:
    """Whether a path lies below one of some directories; all are absolute and normal."""
    return any(path.startswith(f"{it.rstrip('/')}/") for it in directories)


def list_references(body: Mapping[str, Any], paths: Sequence[str]) -> dict[str, str]:
    """Return the references of a body, by the path of their field."""
    return {
        path: value[SECRET_KEY]
        for path, value in _list_values(body, paths)
        if _is_reference(value) and isinstance(value[SECRET_KEY], str)
    }


def find_secret_problems(
    body: Mapping[str, Any], paths: Sequence[str], directories: Sequence[str] | None = None
) -> tuple[ConfigProblem, ...]:
    """List what is wrong with the secrets of a stored body; no value is repeated.

    A reference must be well-formed and stand in a secret field, and a secret field must hold a
    reference. With `directories`, a file must lie below one of them.
    """
    problems, allowed = [], dict(_list_values(body, paths))
    for path, value in allowed.items():
        if isinstance(value, str):
            message = "a secret is stored as a reference, never as a text"
            problems.append(_problem(path, "plain_secret", message))
        elif _is_reference(value):
            message = "a reference has no field but $secret" if len(value) > 1 else ""
            ref = value[SECRET_KEY]
            message = message or check_ref(ref)
            if not message and directories is not None and ref.startswith(FILE):
                is_allowed = is_below(ref.removeprefix(FILE), directories)
                message = "" if is_allowed else "the file is not below AWAKEN_SECRET_DIRS"
            if message:
                problems.append(_problem(path, "invalid_secret", message))
    for path in _find_references(body):
        if path not in allowed:
            message = "this field is not a secret, and takes no reference to one"
            problems.append(_problem(path, "not_a_secret", message))
    return tuple(problems)


def lift_literals(
    body: Mapping[str, Any], paths: Sequence[str], ref_of: Callable[[str], str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Replace the texts of secret fields by references; return the body and the texts by reference.

    An empty text removes its field, and so does null, except below a `*`, where null has a meaning
    of its own: a variable that a program inherits. `ref_of` returns the reference for a path.
    """
    texts: dict[str, str] = {}

    def lift(path: str, value: Any, *, is_listed: bool) -> Any:
        if isinstance(value, str) and value:
            texts[ref_of(path)] = value
            return {SECRET_KEY: ref_of(path)}
        is_cleared = value == "" if is_listed else value in ("", None)
        return _GONE if is_cleared else value

    return _change_values(body, paths, lift), texts


def merge_secrets(
    new: Mapping[str, Any], old: Mapping[str, Any], paths: Sequence[str]
) -> dict[str, Any]:
    """Return a new body with those secrets of the old one that it does not mention.

    A field that is absent keeps what it was, and so does an absent object of secrets (`*`); one
    that is present replaces the old one as a whole. The object that holds the field must still be
    there, and be of the same type.
    """
    merged = dict(new)
    for path in paths:
        merged = _keep_absent(merged, old, path.split("/"))
    return merged


def bind_references(
    body: Mapping[str, Any], paths: Sequence[str], bind: Callable[[str], RedactedString]
) -> dict[str, Any]:
    """Replace each reference in a secret field by what `bind` returns for it.

    Raises:
        ValueError: A reference is malformed; repeats no value.
    """

    def resolve(path: str, value: Any, *, is_listed: bool) -> Any:
        del is_listed
        if not _is_reference(value):
            return value
        if problem := check_ref(value[SECRET_KEY]):
            message = f"{path}: {problem}"
            raise ValueError(message)
        return bind(value[SECRET_KEY])

    return _change_values(body, paths, resolve)


def decode_stored_spec(
    body: Mapping[str, Any],
    type_: type[T],
    paths: Sequence[str],
    bind: Callable[[str], RedactedString],
) -> T:
    """Decode a stored body; each reference becomes what `bind` returns for it.

    Raises:
        InvalidSpec: The body does not fit the type, or a secret is not a well-formed reference; the
            message repeats no value of a secret.
    """
    if problems := find_secret_problems(body, paths):
        first = problems[0]
        raise InvalidSpec(what=type_.__name__, problem=f"{first.path}: {first.message}")
    try:
        bound = bind_references(body, paths, bind)
        return msgspec.convert(bound, type_, dec_hook=decode_secret)
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError) as error:
        raise InvalidSpec(what=type_.__name__, problem=str(error)) from error


def _list_values(body: Mapping[str, Any], paths: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """List the values of the secret fields that a body has, by path."""
    found: dict[str, Any] = {}

    def see(path: str, value: Any, *, is_listed: bool) -> Any:
        del is_listed
        found[path] = value
        return value

    _change_values(body, paths, see)
    yield from found.items()


def _change_values(
    body: Mapping[str, Any], paths: Sequence[str], change: Callable[..., Any]
) -> dict[str, Any]:
    """Return a body in which each secret field is replaced by what `change` returns for it."""
    changed = dict(body)
    for path in paths:
        changed = _change_at(changed, path.split("/"), "", change)
    return changed


def _change_at(
    body: Mapping[str, Any], parts: Sequence[str], above: str, change: Callable[..., Any]
) -> dict[str, Any]:
    first, rest = parts[0], parts[1:]
    changed = dict(body)
    for name in _names(body, first):
        path, value = f"{above}{name}", body[name]
        if rest:
            if isinstance(value, Mapping) and not _is_reference(value):
                changed[name] = _change_at(value, rest, f"{path}/", change)
            continue
        after = change(path, value, is_listed=first[0] in "*!")
        if after is _GONE:
            del changed[name]
        else:
            changed[name] = after
    return changed


def _names(body: Mapping[str, Any], part: str) -> tuple[str, ...]:
    if part == "*" or part.startswith("!"):
        return tuple(name for name in body if name != part[1:])
    return (part,) if part in body else ()


def _keep_absent(
    new: Mapping[str, Any], old: Mapping[str, Any], parts: Sequence[str]
) -> dict[str, Any]:
    first, rest, merged = parts[0], parts[1:], dict(new)
    is_map = len(rest) == 1 and rest[0][0] in "*!" and first[0] not in "*!"
    for name in _names(old, first):
        if name not in new:
            # Beside other fields an absent secret is unmentioned; in an object of secrets, removed.
            if is_map or (not rest and first != "*"):
                merged[name] = old[name]
            continue
        below, before = new[name], old[name]
        if not rest or not isinstance(below, Mapping) or not isinstance(before, Mapping):
            continue
        if below.get("type") == before.get("type"):
            merged[name] = _keep_absent(below, before, rest)
    return merged


def _find_references(body: Mapping[str, Any]) -> Iterator[str]:
    """Find the path of every object that is written as a reference, wherever it stands."""
    unseen: list[tuple[str, Any]] = [("", body)]
    while unseen:
        path, value = unseen.pop()
        match value:
            case Mapping() if _is_reference(value):
                yield path.removesuffix("/")
            case Mapping():
                unseen += ((f"{path}{name}/", it) for name, it in value.items())
            case list() | tuple():
                unseen += ((f"{path}{at}/", it) for at, it in enumerate(value))


def _is_reference(value: Any) -> bool:
    return isinstance(value, Mapping) and SECRET_KEY in value


def _problem(path: str, code: str, message: str) -> ConfigProblem:
    return ConfigProblem(path=path, code=code, message=message)
