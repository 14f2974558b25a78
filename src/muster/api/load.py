"""Objects from files: YAML and JSON, many documents each, directories, standard input.

Every problem is a `UserError` that names file, document, object, field
and what is expected; all problems of all files are collected before one error is raised, so that a
user fixes them in one go. Kinds that stand beside pods in users' files (ConfigMap, Service, …) are
skipped and listed. The result keeps the order of the files and of the documents in them.
Files may be compressed (.gz). What follows the head of a saved snapshot is not checked: see `saved`.
"""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from muster.api.documents import CUT, TextDocument, read_json, read_yaml
from muster.api.errors import UserError, describe_value
from muster.api.kinds import (
    ClusterSnapshot,
    Document,
    decode,
    is_beside,
    kind_of,
    list_item_kind,
    stub_of,
    subject_of,
    type_of,
)
from muster.api.objects.meta import KubeObject
from muster.api.validate import check

STDIN: Final = "-"
GZIP: Final = ".gz"
_JSON: Final = frozenset({".json", ".jsonl"})
_SUFFIXES: Final = _JSON | {".yaml", ".yml"}
_MAX_PROBLEMS: Final = 20


@dataclass(frozen=True, slots=True)
class Source:
    """Where an object was written: documents and items count from one, lines too."""

    file: str
    document_index: int
    line: int
    item: int | None = None

    def __str__(self) -> str:
        text = f"{self.file}: document {self.document_index}"
        return text if self.item is None else f"{text}, item {self.item}"


@dataclass(frozen=True, slots=True)
class Loaded:
    """An object and where it came from."""

    object: KubeObject
    source: Source


@dataclass(frozen=True, slots=True)
class Skipped:
    """An object that scheduling does not need."""

    api_version: str
    kind: str
    name: str
    source: Source


class LoadedFiles(list[Loaded]):
    """The objects of some files, and what was left out."""

    def __init__(self) -> None:
        super().__init__()
        self.skipped: list[Skipped] = []

    @property
    def objects(self) -> list[KubeObject]:
        """The objects without their sources."""
        return [loaded.object for loaded in self]


def load_files(paths: Iterable[str | Path], *, checked: bool = True) -> LoadedFiles:
    """Load all objects of files and directories ("-" is standard input). Raises UserError.

    With `checked` off, objects whose fields have the right types but no meaning are taken, for commands that
    report what is wrong with them: see `validate.problems`.
    """
    reader = _Reader(checked=checked)
    for path in paths:
        for file in _files_under(path):
            reader.read(_text_of(file), file)
    return reader.finish()


def load_text(text: str, file: str = "text") -> LoadedFiles:
    """Load all objects of a text, as if it were the content of a file. Raises UserError."""
    reader = _Reader()
    reader.read(text, file)
    return reader.finish()


def _files_under(path: str | Path) -> Iterator[str]:
    if str(path) == STDIN:
        yield STDIN
        return
    root = Path(path)
    if not root.is_dir():
        yield str(path)
        return
    found = sorted(file for file in root.rglob("*") if _suffix(file) in _SUFFIXES and file.is_file())
    if not found:
        raise UserError("the directory holds no .yaml, .yml, .json or .jsonl file", place=str(path))
    yield from map(str, found)


def _suffix(file: Path) -> str:
    """What the content is, however it is packed: ".yaml" for pods.yaml and for pods.yaml.gz."""
    return Path(file.stem).suffix if file.suffix == GZIP else file.suffix


def _bytes_of(file: str) -> bytes:
    if file == STDIN:
        return sys.stdin.buffer.read()
    data = Path(file).read_bytes()
    return gzip.decompress(data) if file.endswith(GZIP) else data


def _text_of(file: str) -> str:
    try:
        data = _bytes_of(file)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise UserError("expected a file that gzip has packed, whole", place=file) from None
    except OSError as error:
        reason = error.strerror or "cannot be opened"
        raise UserError(f"cannot read the file: {reason}", place=file) from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UserError("expected text in UTF-8", place=f"{file}:{line}") from None


def _documents(text: str, file: str) -> Iterator[TextDocument]:
    # JSON is read as such where it can be: far faster than as YAML, and with better messages.
    is_json = _suffix(Path(file)) in _JSON or (file == STDIN and text.lstrip().startswith("{"))
    return read_json(text, file) if is_json else read_yaml(text, file)


def _name_of(document: Document) -> str:
    metadata = document.get("metadata")
    return str(metadata.get("name", "")) if isinstance(metadata, dict) else ""


class _Reader:
    """Collects objects and problems over all files."""

    def __init__(self, *, checked: bool = True) -> None:
        self._checked = checked
        #: Whether what is read now came from a cluster.
        self._as_is = False
        self._result = LoadedFiles()
        self._problems: list[UserError] = []
        self._places: dict[tuple[str, str, str], Source] = {}

    def read(self, text: str, file: str) -> None:
        shown = "standard input" if file == STDIN else file
        self._as_is = False
        try:
            for index, document in enumerate(_documents(text, file), start=1):
                if document.fault and not self._as_is:
                    raise UserError(f"not JSON: {document.fault}", place=f"{shown}:{document.line}")  # noqa: TRY301  # caught below, as others
                if document.content is not None:
                    self._take(document.content, Source(shown, index, document.line), document.fault)
        except UserError as error:
            self._problems.append(error)

    def finish(self) -> LoadedFiles:
        if not self._problems:
            return self._result
        if len(self._problems) == 1:
            raise self._problems[0]
        lines = [str(problem) for problem in self._problems[:_MAX_PROBLEMS]]
        if len(self._problems) > _MAX_PROBLEMS:
            lines.append(f"and {len(self._problems) - _MAX_PROBLEMS} more")
        raise UserError("\n".join(lines))

    def _take(self, content: object, source: Source, fault: str = "") -> None:
        try:
            if not isinstance(content, dict):
                raise UserError(f"expected a mapping with apiVersion and kind, got {describe_value(content)}")  # noqa: TRY301  # caught below to add the place
            self._take_document(content, source, fault)
        except UserError as error:
            subject = subject_of(content) if isinstance(content, dict) and "kind" in content else ""
            self._problems.append(error.located(place=str(source), subject=subject))

    def _take_document(self, document: Document, source: Source, fault: str) -> None:
        api_version, kind = kind_of(document)
        item_kind = list_item_kind(api_version, kind)
        if item_kind is not None:
            self._take_list(document, item_kind, source, fault)
        elif is_beside(api_version, kind):
            self._result.skipped.append(Skipped(api_version, kind, _name_of(document), source))
        else:
            self._take_object(document, source, fault)

    def _take_list(self, document: Document, item_kind: tuple[str, str], source: Source, fault: str) -> None:
        items = document.get("items")
        if items is None:
            items = []
        if not isinstance(items, list):
            raise UserError(f"expected a list, got {describe_value(items)}", field="items")
        for number, item in enumerate(items, start=1):
            # Items of a typed list, as an API server sends them, do not repeat their kind.
            kind = {"apiVersion": item_kind[0], "kind": item_kind[1]} if item_kind[1] else {}
            content = {**kind, **item} if isinstance(item, dict) else item
            own = fault if CUT in str(content) else ""
            self._take(content, Source(source.file, source.document_index, source.line, number), own)

    def _take_object(self, document: Document, source: Source, fault: str) -> None:
        decoded = self._decoded(document, fault)
        self._as_is |= isinstance(decoded, ClusterSnapshot)
        if self._checked and not self._as_is:
            check(decoded)
        key = (decoded.api_version.rpartition("/")[0], decoded.kind, decoded.key)
        first = self._places.setdefault(key, source)
        if first is not source:
            raise UserError(f"the same object already stands in {first} (line {first.line}); remove one of them")
        self._result.append(Loaded(decoded, source))

    def _decoded(self, document: Document, fault: str) -> KubeObject:
        """The object of a document; of what a cluster holds and nobody can read at least the name."""
        wanted = type_of(document)
        if fault:
            return stub_of(document, wanted, fault)
        try:
            return decode(document)
        except UserError as error:
            if not self._as_is:
                raise
            return stub_of(document, wanted, f"{error.field}: {error.text}" if error.field else error.text)
