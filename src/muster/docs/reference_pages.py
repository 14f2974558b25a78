"""The pages on commands, plugins and actions, configuration, reason codes and metrics, as the code tells them."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import typer
from typer.core import TyperGroup

from muster.cli.commands import app
from muster.cli.plugins import PartInfo, inventory
from muster.docs.markdown import code, page, table
from muster.framework import Reason, all_reasons
from muster.framework.config import DEFAULT_YAML
from muster.framework.points import HIERARCHY_FLAG, OTHER_FLAGS, POINTS
from muster.framework.registry import NOT_YET_ACTIONS, NOT_YET_PLUGINS
from muster.scheduler import builtin_registry
from muster.server.metric_table import ALERTS, FAMILIES, VOLCANO, Family

_WIDTH = 100
_EXIT_CODES = (
    ("0", "done"),
    ("1", "the cluster or the disk did not answer, a check found errors, or a bug in muster"),
    ("2", "the input is wrong: a file, an option, a configuration"),
    ("130", "interrupted"),
    ("141", "nobody reads the output any more"),
)


def command_names() -> list[str]:
    """Every command as one types it, without the program's name."""
    return [name for name, _ in _helps()]


def cli_page() -> str:
    """Return the page."""
    sections = [f"## muster {name}".rstrip() + "\n\n" + code(text) for name, text in _helps()]
    return page(
        "Command line",
        "The same texts as `muster COMMAND --help` prints. Errors go to the standard error stream as one line.",
        table(("exit code", "meaning"), _EXIT_CODES),
        *sections,
    )


def _helps() -> Iterator[tuple[str, str]]:
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    yield "", _help(group, "muster")
    for name, command in group.commands.items():
        yield name, _help(command, f"muster {name}")
        if isinstance(command, TyperGroup):
            for inner, leaf in command.commands.items():
                yield f"{name} {inner}", _help(leaf, f"muster {name} {inner}")


def _help(command: object, name: str) -> str:
    context_class = getattr(command, "context_class")  # noqa: B009  # typer types its commands loosely
    context = context_class(
        command, info_name=name, terminal_width=_WIDTH, max_content_width=_WIDTH, help_option_names=["-h", "--help"]
    )
    text: str = context.get_help()
    return "\n".join(line.rstrip() for line in text.splitlines())


def builtin_parts() -> list[PartInfo]:
    """Describe what Muster ships; what else is installed here is nobody else's business."""
    return inventory(builtin_registry(third_party=False))


def plugin_page() -> str:
    """Return the page on plugins, actions and extension points."""
    parts = builtin_parts()
    plugins = [part for part in parts if part.kind == "plugin"]
    actions = [part for part in parts if part.kind == "action"]
    return page(
        "Plugins and actions",
        "`muster plugins` prints the same, with the plugins of packages that are installed beside muster. "
        "Arguments are given in the [configuration](configuration.md). "
        "How to write one: [write a plugin](../how-to/write-a-plugin.md).",
        "## Plugins",
        *[_part(part) for part in plugins],
        "## Actions",
        *[_part(part) for part in actions],
        "## Extension points",
        "What the session asks plugins, and what the answers cause. A plugin is asked only what it implements.",
        table(
            ("extension point", "question", "answer", "answers combine", "flag"),
            [
                (
                    f"`{point.name}`",
                    point.question.replace("\n", " "),
                    point.answer.words,
                    point.rule.words,
                    f"`{point.flag}`" if point.flag else "always on",
                )
                for point in POINTS
            ],
        ),
        "## Not supported yet",
        "A configuration that names one of these is refused with a message that says so.",
        f"Plugins: {_names(NOT_YET_PLUGINS)}.\n\nActions: {_names(NOT_YET_ACTIONS)}.",
    )


def configuration_page() -> str:
    """Return the page on the configuration file."""
    return page(
        "Configuration",
        "Volcano's scheduler configuration file, read as it is, also from a ConfigMap or from Helm values; KAI's "
        "`SchedulingShard` is mapped to the profile `kai`. `muster config check FILE` prints what it was "
        "understood to say; `muster config show` prints the default, which is:",
        code(DEFAULT_YAML, "yaml"),
        table(
            ("field", "meaning"),
            (
                ("`actions`", "the steps of a cycle, in order, separated by commas; each at most once"),
                ("`tiers`", "groups of plugins; a later tier decides only what the earlier ones left open"),
                ("`tiers[].plugins[].name`", "a plugin; each at most once in the file"),
                ("`tiers[].plugins[].arguments`", "its arguments: see [plugins and actions](plugins.md)"),
                ("`tiers[].plugins[].enable…`", "flags: turn single extension points of the plugin off"),
                ("`configurations[].name`", "an action"),
                ("`configurations[].arguments`", "its arguments"),
                ("`metrics`", "accepted, without effect"),
                (
                    "`grouping[]`",
                    "rows that say [which pods belong together](../how-to/grouping.md), by the kind of what owns them",
                ),
            ),
        ),
        'Numbers and truth values may be written as text (`"10"`, `"true"`). An argument without a value has '
        "its default. Names that nobody knows are errors.",
        "## Flags",
        "Each is `true` unless the file says `false`, except those marked.",
        table(("flag", "turns off"), _flag_rows()),
    )


def _part(part: PartInfo) -> str:
    blocks = [f"### {part.name}", part.summary]
    if part.points:
        blocks.append(f"Answers {', '.join(f'`{point}`' for point in part.points)}.")
    if part.arguments:
        rows = [(f"`{a.name}`", a.type, f"`{a.default}`", a.meaning) for a in part.arguments]
        blocks.append(table(("argument", "type", "default", "meaning"), rows))
    else:
        blocks.append("No arguments.")
    return "\n\n".join(blocks)


def _flag_rows() -> list[tuple[str, str]]:
    points: dict[str, list[str]] = {}
    for point in POINTS:
        points.setdefault(point.flag, []).append(f"`{point.name}`")
    rows = [(f"`{flag}`", ", ".join(points[flag])) for flag in sorted(points) if flag]
    rows.append((f"`{HIERARCHY_FLAG}`", "nothing: changes how the plugin works, off unless set"))
    rows += [(f"`{flag}`", "nothing: accepted, without effect") for flag in sorted(OTHER_FLAGS)]
    return rows


def _names(names: frozenset[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))


def reason_page() -> str:
    """Return the page; importing the built-in plugins declares their reasons."""
    builtin_registry(third_party=False)
    rows = [
        (f"`{known.code}`", known.text, "yes" if known.eviction_helps else "no", known.remedy)
        for known in _shipped_reasons()
    ]
    return page(
        "Reason codes",
        "Codes are stable: they stand in JSON, in events and in the `reason` of a job. Texts may be reworded; "
        'they complete "3 nodes ..." or "the job waits: ...". Other packages\' plugins add codes of their own.',
        table(("code", "text", "could evicting pods help?", "what to do"), rows),
    )


def _shipped_reasons() -> list[Reason]:
    """Reasons that our own modules hold: a process may know more, of plugins that are installed beside."""
    own = {
        known.number
        for name, module in sorted(sys.modules.items())
        if name.startswith("muster.")
        for known in vars(module).values()
        if isinstance(known, Reason)
    }
    return [known for known in all_reasons() if known.number in own]


def metrics_page() -> str:
    """Return the page on metrics and alerts."""
    rows = dict.fromkeys(family.row for family in FAMILIES.values())
    sections = [
        f"## {row}\n\n"
        + table(("metric", "kind", "meaning"), (_metric(family) for family in FAMILIES.values() if family.row == row))
        for row in rows
        if row != VOLCANO
    ]
    return page(
        "Metrics and alerts",
        "What `muster run` answers under `/metrics`, in Prometheus's text format. A star: of the last cycle, so it"
        " stands still on a replica that does not lead; ask for it with `and on (instance) muster_leader == 1`."
        " Volcano's names are served as well: [coming from Volcano](../coming-from-volcano.md).",
        *sections,
        "## Alerts",
        "The rules of `deploy/manifests/alerts.yaml`, and of the chart with `alerts.enabled`;"
        " [health](../how-to/health.md) says how to install them, with a dashboard of everything above.",
        table(
            ("alert", "when", "for", "severity", "what to do"),
            ((f"`{each.name}`", f"`{each.when}`", each.lasts, each.severity, each.remedy) for each in ALERTS),
        ),
    )


def _metric(family: Family) -> tuple[str, str, str]:
    labels = f"{{{','.join(family.labels)}}}" if family.labels else ""
    return f"`{family.name}{labels}`{' *' if family.of_leader else ''}", family.kind, family.text
