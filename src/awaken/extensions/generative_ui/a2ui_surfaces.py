"""Applies a call's messages to a thread's surfaces, and validates their trees."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from .a2ui_language import Language, Properties
from .a2ui_messages import (
    COMPONENTS_MAX,
    DEPTH_MAX,
    Component,
    Fields,
    component_problems,
    components_of,
    message_problems,
    references_of,
)
from .state import REMEMBERED_MAX, SURFACES_MAX, Surface, Surfaces

_CREATING = ("createSurface", "surfaceUpdate")
_USUAL: Properties = {"child": "child", "children": "children"}
"""The properties with children in components of unknown catalogs."""


class Rendering:
    """Applies one call's messages in order; `problems` lists the problems so far."""

    def __init__(self, language: Language, surfaces: Surfaces, catalog_id: str | None) -> None:
        self.surfaces = dict(surfaces)
        self.problems: list[str] = []
        self._language = language
        self._catalog_id = catalog_id or language.catalog_id
        self._is_own = self._catalog_id == language.catalog_id
        self._paths: dict[tuple[str, str], str] = {}
        """Where the components of this call are, by surface and id."""
        self._touched: dict[str, str] = {}

    def apply_message(self, message: Any, path: str) -> None:
        """Apply a message; a malformed one changes nothing."""
        wrong = list(message_problems(self._language, message, path))
        if wrong:
            self.problems += wrong
            return
        ((name, body),) = ((it, value) for it, value in message.items() if it != "version")
        place = f"{path}.{name}"
        components = self._components(body, place)
        if body.get("catalogId", self._catalog_id) != self._catalog_id:
            self.problems.append(f"{place}.catalogId: it must be {self._catalog_id!r}")
        problem = self._change(name, body, components)
        if problem is not None:
            self.problems.append(f"{place}.surfaceId: {problem}")
        self._touched[body["surfaceId"]] = place

    def finish(self) -> None:
        """Validate the trees that the call has changed."""
        live = [it for it in self.surfaces.values() if not it.is_deleted]
        if len(live) > SURFACES_MAX or sum(len(it.children) for it in live) > REMEMBERED_MAX:
            self.problems.append(
                f"$: a conversation has at most {SURFACES_MAX} surfaces with {REMEMBERED_MAX} "
                "components; delete one with deleteSurface first"
            )
        for surface_id, place in self._touched.items():
            surface = self.surfaces.get(surface_id)
            if surface is not None and not surface.is_deleted:
                self.problems += self._tree_problems(surface_id, surface, place)

    def _components(self, body: Fields, place: str) -> list[Component]:
        components, wrong = components_of(self._language, body, place)
        self.problems += wrong
        for component in components:
            self._paths[body["surfaceId"], component.id] = component.path
            if component.catalog_id not in (None, self._catalog_id):
                problem = f"{component.path}.catalogId: it must be {self._catalog_id!r}"
                self.problems.append(problem)
            elif self._is_own:
                self.problems += component_problems(self._language, component)
        return components

    def _change(self, name: str, body: Fields, components: list[Component]) -> str | None:
        """Change the surface of a message; return the problem if that is not possible."""
        surface_id = body["surfaceId"]
        surface = self.surfaces.get(surface_id)
        problem = self._surface_problem(name, surface_id, surface)
        if problem is not None:
            return problem
        if name == "deleteSurface":
            gone = Surface(version=self._language.version, is_deleted=True)
            del self.surfaces[surface_id]
            self.surfaces[surface_id] = gone
            return None
        if surface is None or surface.is_deleted:
            root = None if self._language.is_nested else "root"
            surface = Surface(version=self._language.version, root=root)
        children = dict(surface.children)
        for component in components:
            kinds = self._language.components.get(component.type) if self._is_own else _USUAL
            children[component.id] = references_of(component, kinds or {})
        root = body["root"] if name == "beginRendering" else surface.root
        self.surfaces[surface_id] = msgspec.structs.replace(surface, children=children, root=root)
        return None

    def _surface_problem(self, name: str, surface_id: str, surface: Surface | None) -> str | None:
        shown, is_new = repr(surface_id[:80]), name == "createSurface"
        if surface is None:
            return None if name in _CREATING else self._unknown(shown)
        if surface.is_deleted and not is_new:
            return f"surface {shown} was deleted; begin a new one under another id"
        if is_new and not surface.is_deleted:
            return f"surface {shown} exists; update it, or delete it first"
        if surface.version != self._language.version and not surface.is_deleted:
            return f"surface {shown} is of {surface.version}; begin a new one under another id"
        return None

    def _unknown(self, shown: str) -> str:
        known = [repr(it[:80]) for it, its in self.surfaces.items() if not its.is_deleted]
        begin = "surfaceUpdate" if self._language.is_nested else "createSurface"
        there = ", ".join(known) or "none"
        return f"there is no surface {shown}; there is: {there}. Begin one with {begin}"

    def _tree_problems(self, surface_id: str, surface: Surface, place: str) -> Iterator[str]:
        children, root = surface.children, surface.root
        if len(children) > COMPONENTS_MAX:
            yield f"{place}: a surface has at most {COMPONENTS_MAX} components"
        if root is not None and children and root not in children:
            yield f"{place}: the root component {root[:80]!r} does not exist; send it as well"
        for component_id, referred in children.items():
            at = self._paths.get((surface_id, component_id), f"component {component_id[:80]!r}")
            for missing in (it for it in referred if it not in children and root is not None):
                yield f"{at}: it refers to {missing[:80]!r}, which does not exist; send it as well"
        if (looped := _too_deep(children)) is not None:
            at = self._paths.get((surface_id, looped), f"component {looped[:80]!r}")
            yield f"{at}: it contains itself, or more than {DEPTH_MAX} levels of components"


def _too_deep(children: Mapping[str, tuple[str, ...]]) -> str | None:
    """A component that contains itself or too many levels, if there is one."""
    height: dict[str, int] = {}
    for first in children:
        stack = [(first, False)]
        while stack:
            current, is_done = stack.pop()
            below = [it for it in children.get(current, ()) if it in children]
            if is_done:
                height[current] = 1 + max((height[it] for it in below), default=0)
                if height[current] > DEPTH_MAX:
                    return current
            elif height.get(current) == 0:
                return current
            elif current not in height:
                height[current] = 0
                stack.append((current, True))
                stack += [(it, False) for it in below if height.get(it, 0) == 0]
    return None
