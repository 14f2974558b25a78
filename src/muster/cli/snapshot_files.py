"""Saved snapshots: one document per object, without what scheduling does not read.

The types of `muster.api` hold only fields that bear on scheduling, so commands, environments and the like never get
here. What is taken out besides: annotations of others (which may quote whole objects), texts of statuses, parameters
of storage classes, names of images. A file appears under its name only when it is whole, and only its owner may read
it: what runs in a cluster, and where, is nobody else's business.
"""

from __future__ import annotations

import gzip
import io
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

import typer
import yaml
from msgspec.structs import replace

from muster.api import BackendError, Condition, KubeObject, ObjectMeta, Pod, StorageClass, UserError, encode
from muster.api.load import GZIP
from muster.api.names import KAI_GROUP_NAME, SLA_WAITING_TIME
from muster.cli.sources import read_cluster
from muster.cluster.kubernetes.client.shards import Target
from muster.explain.words import counted

_LINES: Final = frozenset({".json", ".jsonl"})
_YAML: Final = frozenset({".yaml", ".yml"})
#: Whose annotations schedulers read, by the end of the part before the slash.
_DOMAINS: Final = ("volcano.sh", "muster.sh", "kai.scheduler", "run.ai", "kubernetes.io", "k8s.io")
_PLAIN_KEYS: Final = frozenset({KAI_GROUP_NAME, SLA_WAITING_TIME})
#: Quotes the whole object, as it was applied.
_QUOTING: Final = frozenset({"kubectl.kubernetes.io"})


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
