"""Where the objects of a command come from, files or a live cluster that is read once; and how they are saved.

Whatever the source, the commands run the same way afterwards, on the embedded cluster.

A saved snapshot has one document per object, without what scheduling does not read. The types of `muster.api` hold
only fields that bear on it, so commands, environments and the like never get here. What is taken out besides:
annotations of others (which may quote whole objects), texts of statuses, parameters of storage classes, names of
images. A file appears under its name only when it is whole, and only its owner may read it: what runs in a cluster,
and where, is nobody else's business.
"""

# ruff: noqa: PLC0415  # commands on files must not wait for the client of a cluster

from __future__ import annotations

import gzip
import io
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

import typer
import yaml
from msgspec.structs import replace
from rich.console import Console

from muster.api import (
    BackendError,
    Condition,
    KubeObject,
    Loaded,
    LoadedFiles,
    ObjectMeta,
    Pod,
    StorageClass,
    UserError,
    encode,
    load_files,
)
from muster.api.fields import did_you_mean
from muster.api.names import KAI_GROUP_NAME, KAI_SCHEDULER, SLA_WAITING_TIME
from muster.api.objects.workloads import ForeignWorkload
from muster.api.reading.load import GZIP
from muster.explain.words import counted
from muster.simulate.notes import notes_on

if TYPE_CHECKING:
    from muster.cluster.kubernetes.client.commands import Listing
    from muster.cluster.kubernetes.client.shards import Target

#: The name that Volcano's users write into their pods, and that `muster run` serves by default.
SCHEDULER_NAMES = ("volcano",)
#: Names that pods have which are meant for Muster, or for those in whose place it stands.
_OURS: Final = frozenset({*SCHEDULER_NAMES, "muster", KAI_SCHEDULER})
#: Their kinds have no templates: pods that name a scheduler name them.
_GANGS_OF_KUBERNETES: Final = "scheduling.k8s.io/"
_MAX_NAMED = 5
_MAX_NOTES = 20
_LINES: Final = frozenset({".json", ".jsonl"})
_YAML: Final = frozenset({".yaml", ".yml"})
#: Whose annotations schedulers read, by the end of the part before the slash.
_DOMAINS: Final = ("volcano.sh", "muster.sh", "kai.scheduler", "run.ai", "kubernetes.io", "k8s.io")
_PLAIN_KEYS: Final = frozenset({KAI_GROUP_NAME, SLA_WAITING_TIME})
#: Quotes the whole object, as it was applied.
_QUOTING: Final = frozenset({"kubectl.kubernetes.io"})


@dataclass(frozen=True, slots=True)
class ObjectSource:
    """What the options of a command say, as given."""

    files: Sequence[str] = ()
    cluster: bool = False
    kubeconfig: Path | None = None
    context: str | None = None
    #: Whose pods are scheduled; none: as the source says.
    scheduler_names: tuple[str, ...] = ()
    #: Fields of files that nobody knows are noted, not refused.
    allow_unknown: bool = False


def read(source: ObjectSource, *, checked: bool = True) -> Sequence[KubeObject | Loaded]:
    """Return the objects, and say on the standard error stream what was left out. Raises MusterError."""
    _check(source)
    if source.cluster:
        from muster.cluster.kubernetes.client.shards import Target

        names = source.scheduler_names or SCHEDULER_NAMES
        return read_cluster(Target(source.kubeconfig, source.context, scheduler_names=names)).objects
    with progress_line("reading files ...") as say:
        loaded = load_files(
            source.files,
            checked=checked,
            allow_unknown=source.allow_unknown,
            progress=lambda count: say(f"reading files: {count:,} objects"),
        )
    if not loaded and not loaded.left_out:
        raise UserError("expected nodes, queues and pods, got no object at all", place=", ".join(source.files))
    loaded.notes += [*(notes_on(loaded) if checked else ()), *_unused(source.scheduler_names, loaded)]
    for note in loaded.notes[:_MAX_NOTES]:
        sys.stderr.write(f"note: {note}\n")
    if len(loaded.notes) > _MAX_NOTES:
        sys.stderr.write(f"note: and {len(loaded.notes) - _MAX_NOTES} more notes\n")
    return loaded


@contextmanager
def progress_line(text: str) -> Iterator[Callable[[str], None]]:
    """A line on the terminal that says how far long work is, and goes away; nothing where there is no terminal."""
    if not sys.stderr.isatty():
        yield lambda _text: None
        return
    with Console(stderr=True, highlight=False).status(text) as status:
        yield status.update


def _unused(scheduler_names: Sequence[str], loaded: LoadedFiles) -> Iterator[str]:
    """Say which schedulers are named that no pod asks for: their pods would silently be nobody's."""
    of_pods = {each.object.spec.scheduler_name for each in loaded if isinstance(each.object, Pod)}
    of_workloads = [names for each in loaded if (names := _named_by(each.object)) is not None]
    used = of_pods.union(*of_workloads)
    others = [names for names in of_workloads if not names & _OURS]
    if others and not scheduler_names:
        name = ", ".join(sorted(set().union(*others) - {""})) or "no scheduler"
        yield (
            f"{counted(len(others), 'workload')} of others: pods that name {name} are placed here with all others; "
            "--scheduler-name leaves out those that do not name one of the schedulers given"
        )
    for name in scheduler_names:
        if name not in used:
            named = ", ".join(sorted(used - {""})) or "no scheduler"
            yield f"--scheduler-name: no pod asks for {name}, pods ask for {named}{did_you_mean(name, used)}"


def _named_by(thing: KubeObject) -> frozenset[str] | None:
    """The schedulers that a workload of others names in its templates, "" where it names none; None: it is none."""
    if not isinstance(thing, ForeignWorkload) or thing.api_version.startswith(_GANGS_OF_KUBERNETES):
        return None
    return frozenset(_schedulers_in(thing.spec)) or frozenset({""})


def _schedulers_in(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in ("schedulerName", "batchScheduler") and isinstance(inner, str):
                yield inner
            else:
                yield from _schedulers_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _schedulers_in(inner)


def say_notes(notes: Iterable[str]) -> None:
    """Say what is worth knowing where it does not disturb the output."""
    for note in notes:
        sys.stderr.write(f"note: {note}\n")


def _check(source: ObjectSource) -> None:
    if source.cluster and source.files:
        raise UserError(f"--cluster and files exclude each other; leave out --cluster or {source.files[0]}")
    if not source.cluster and not source.files:
        raise UserError("expected a FILE with nodes, queues and pods, or --cluster for those of a live cluster")
    if not source.cluster and (source.kubeconfig is not None or source.context is not None):
        option = "--context" if source.kubeconfig is None else "--kubeconfig"
        raise UserError(f"{option} says which cluster to read; give --cluster as well, and no files")


def read_cluster(target: Target) -> Listing:
    """List a cluster, with a line on the terminal that says how far it is. Raises MusterError."""
    from muster.cluster.kubernetes.client.commands import list_cluster

    counts: dict[str, int] = {}
    with progress_line("connecting ...") as say:

        def progress(kind: str, count: int) -> None:
            counts[kind] = count
            say(f"reading the cluster: {sum(counts.values()):,} objects, {count:,} {kind}")

        listing = list_cluster(target, progress)
    for text in listing.left_out[:_MAX_NAMED]:
        sys.stderr.write(f"note: {text}\n")
    if more := len(listing.left_out) - _MAX_NAMED:
        sys.stderr.write(f"note: {more} more left out\n" if more > 0 else "")
    return listing


# -- saved snapshots -------------------------------------------------------------------------------------------


def save(file: Path, target: Target, *, all_annotations: bool = False) -> None:
    """List a cluster and write it to a file. Raises MusterError."""
    form = _form(file)
    objects = read_cluster(target).objects
    cleaned = (without_secrets(thing, all_annotations=all_annotations) for thing in objects)
    part = file.with_name(f"{file.name}.part")
    try:
        with _opened(part, packed=file.suffix == GZIP) as out:
            for line in _texts(cleaned, form):
                out.write(line)
        part.replace(file)
    except OSError as fault:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise BackendError(f"cannot write {file}: {fault.strerror}", retryable=False) from None
    # The head is no object of the cluster.
    typer.echo(f"{file}: {counted(len(objects) - 1, 'object')}", err=True)


def _form(file: Path) -> str:
    """What the file's name asks for. Raises UserError."""
    suffix = Path(file.stem).suffix if file.suffix == GZIP else file.suffix
    if suffix not in _LINES | _YAML:
        raise UserError(f'expected a name that ends in .jsonl, .json or .yaml, with or without .gz, got "{file.name}"')
    return suffix


def _opened(file: Path, *, packed: bool) -> IO[str]:
    file.unlink(missing_ok=True)  # what an earlier run left may have other rights
    raw: IO[bytes] = os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
    # Without a time or a name in it, so that the same objects make the same file.
    out = _Packed(raw) if packed else raw
    return io.TextIOWrapper(out, encoding="utf-8", newline="\n")


class _Packed(gzip.GzipFile):
    """A packed file that closes the file below it, which gzip leaves open."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw = raw
        super().__init__(filename="", mode="wb", fileobj=raw, mtime=0)

    def close(self) -> None:
        super().close()
        self._raw.close()


def _texts(objects: Iterable[KubeObject], form: str) -> Iterator[str]:
    for thing in objects:
        document = encode(thing)
        if form in _YAML:
            yield "---\n" + yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
        else:
            yield json.dumps(document, ensure_ascii=False, separators=(",", ":")) + "\n"


def without_secrets(thing: KubeObject, *, all_annotations: bool = False) -> KubeObject:
    """Return a copy that holds nothing that scheduling does not read and that may be private."""
    meta = thing.metadata if all_annotations else _plain_meta(thing.metadata)
    if isinstance(thing, Pod):
        return _plain_pod(replace(thing, metadata=meta))
    if isinstance(thing, StorageClass):
        return replace(thing, metadata=meta, parameters={})
    return replace(thing, metadata=meta)


def _plain_meta(meta: ObjectMeta) -> ObjectMeta:
    return replace(meta, annotations={key: text for key, text in meta.annotations.items() if _is_read(key)})


def _is_read(key: str) -> bool:
    domain, slash, _ = key.rpartition("/")
    if not slash:
        return key in _PLAIN_KEYS
    return domain not in _QUOTING and any(domain == end or domain.endswith(f".{end}") for end in _DOMAINS)


def _plain_pod(pod: Pod) -> Pod:
    spec = replace(
        pod.spec,
        containers=[replace(known, image="") for known in pod.spec.containers],
        init_containers=[replace(known, image="") for known in pod.spec.init_containers],
    )
    status = replace(pod.status, message="", conditions=[_plain_condition(known) for known in pod.status.conditions])
    return replace(pod, spec=spec, status=status)


def _plain_condition(condition: Condition) -> Condition:
    return replace(condition, message="")
