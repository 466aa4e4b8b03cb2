"""Skills: instructions in folders, code or on servers that a model activates when it needs them.

`SkillsPlugin` shows a catalog and offers the tools `skill`, `load_skill_resource` and, where it
is configured, `skill_script`. Belongs here: SKILL.md and its rules, the files of skills, and the
execution of their scripts. Does not: who may call a tool, and sources that speak a protocol; those
implement `contracts.specs.skills.SkillSource`.
"""

from awaken.contracts.specs.skills import Skill, SkillArgument, SkillContext, SkillSource

from .config import ScriptsConfig, SkillsConfig
from .plugin import SkillsPlugin
from .problems import DocumentError, InvalidSkill, SkillProblem
from .static_skills import StaticSkills

__all__ = [
    "DocumentError",
    "InvalidSkill",
    "ScriptsConfig",
    "Skill",
    "SkillArgument",
    "SkillContext",
    "SkillProblem",
    "SkillSource",
    "SkillsConfig",
    "SkillsPlugin",
    "StaticSkills",
]
