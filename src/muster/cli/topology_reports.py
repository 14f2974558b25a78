"""`muster topology show`, `generate` and `check`: load objects, ask `muster.topology`, print."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

import typer
import yaml
from msgspec import structs
from rich.text import Text
from rich.tree import Tree

from muster.api import KubeObject, Loaded, Node, Pod, UserError, encode, load_files
from muster.cli.screen import make_console, print_document
from muster.cli.sources import ObjectSource, read
from muster.simulate import simulate
from muster.topology.check import Finding, check_topology
from muster.topology.drawings import Line, dot_text, outline, text_lines, view_document
from muster.topology.generate import Plan, generate
from muster.topology.svg import svg_text
from muster.topology.view import Objects, TopologyView, make_view, prune

STDIN = "-"
_MAX_NAMES = 5
_LINE_STYLES = {"domain": "bold", "node": "", "folded": "italic", "fault": "red"}
_LEVEL_STYLES = {"error": "red", "warning": "yellow", "note": "dim"}


@dataclass(frozen=True, slots=True)
class ShowOptions:
    """What the options of `show` say."""

    output: str = "tree"
    tier: int | None = None
    resource: str = ""
    everything: bool = False
    run: bool = False


def print_topology(source: ObjectSource, options: ShowOptions) -> None:
    """Draw the tree of some files, of the standard input or of a live cluster."""
    if not source.cluster and not source.files:
        if sys.stdin.isatty():
            raise UserError("expected files with nodes and HyperNodes, or the same on standard input, or --cluster")
        source = replace(source, files=[STDIN])
    view = look_at(source, options)
    if print_document(view_document(view), options.output):
        return
    if options.output == "dot":
        typer.echo(dot_text(view, everything=options.everything), nl=False)
    elif options.output == "svg":
        typer.echo(svg_text(view), nl=False)
    else:
        _print_tree(view, everything=options.everything)


def look_at(source: ObjectSource, options: ShowOptions) -> TopologyView:
    """Return the tree of a source, as the options want to see it. Raises MusterError."""
    objects = Objects.of(_objects(source, run=options.run))
    _check_resource(options.resource, objects)
    view = make_view(objects, options.resource)
    return view if options.tier is None else prune(view, options.tier)


def _objects(source: ObjectSource, *, run: bool) -> list[KubeObject]:
    objects = [thing.object if isinstance(thing, Loaded) else thing for thing in read(source)]
    if not run:
        return objects
    nodes = simulate(objects).nodes
    placed = {pod: name for name, report in nodes.items() for pod in report.pods}
    return [_placed(thing, placed) if isinstance(thing, Pod) else thing for thing in objects]


def _placed(pod: Pod, nodes: dict[str, str]) -> Pod:
    node = nodes.get(pod.key, "")
    phase = "Running" if node else "Pending"
    spec = structs.replace(pod.spec, node_name=node)
    return structs.replace(pod, spec=spec, status=structs.replace(pod.status, phase=phase))


def _check_resource(resource: str, objects: Objects) -> None:
    known = sorted({name for node in objects.nodes.values() for name in node.status.allocatable})
    if resource and resource not in known:
        raise UserError(f'--resource: no node has "{resource}"; there is {", ".join(known) or "nothing"}')


def _print_tree(view: TopologyView, *, everything: bool) -> None:
    console = make_console()
    line = outline(view, everything=everything)
    if console.is_terminal:
        console.print(_branch(line, None))
    else:
        # Written as it is: a line that is too long for a terminal is no problem for a file.
        for text in text_lines(line):
            typer.echo(text)


def _branch(line: Line, above: Tree | None) -> Tree:
    label = _label(line)
    branch = Tree(label, guide_style="dim") if above is None else above.add(label)
    for inner in line.inner:
        _branch(inner, branch)
    return branch


def _label(line: Line) -> Text:
    if line.kind == "fault":
        return Text(f"✗ {line.name}", style="red")
    parts = [(line.name, _LINE_STYLES[line.kind]), (line.bar, "blue"), (line.detail, "dim"), (line.note, "red")]
    return Text("  ").join(Text(text, style=style) for text, style in parts if text)


def print_generated(files: Sequence[str], plan: Plan) -> None:
    """Write HyperNodes as YAML, and say on the standard error stream what is left out."""
    nodes = [thing for thing in load_files(files).objects if isinstance(thing, Node)]
    if not nodes:
        raise UserError("there is no node in the input")
    made = generate(nodes, plan)
    for key, names in made.lacking.items():
        shown = ", ".join(names[:_MAX_NAMES]) + (f" and {len(names) - _MAX_NAMES} more" if names[_MAX_NAMES:] else "")
        sys.stderr.write(f"note: {len(names)} of {len(nodes)} nodes without label {key}: {shown}\n")
    if not made.hyper_nodes:
        raise UserError(f"no node has any of the labels {', '.join(plan.keys)}")
    documents = [encode(hyper_node) for hyper_node in made.hyper_nodes]
    typer.echo(yaml.safe_dump_all(documents, sort_keys=False, allow_unicode=True), nl=False)


def print_findings(source: ObjectSource, output: str) -> bool:
    """Report what is wrong; return whether any of it is an error."""
    findings = check_topology(read(source, checked=False))
    counts = {level: sum(found.level == level for found in findings) for level in _LEVEL_STYLES}
    document = {"findings": [found.to_json() for found in findings], **{f"{k}s": n for k, n in counts.items()}}
    if not print_document(document, output):
        _print_text(findings, counts)
    return counts["error"] > 0


def _print_text(findings: Sequence[Finding], counts: dict[str, int]) -> None:
    console = make_console()
    for found in findings:
        where = " ".join(part for part in (f"{found.place}:" if found.place else "", found.subject) if part)
        line = Text.assemble((found.level, _LEVEL_STYLES[found.level]), ": ", f"{where}: " if where else "", found.text)
        console.print(line, soft_wrap=True)
    summary = ", ".join(f"{n} {level}{'' if n == 1 else 's'}" for level, n in counts.items())
    console.print(Text(summary if findings else "nothing wrong"))
