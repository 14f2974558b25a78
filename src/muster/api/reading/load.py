"""Objects from files: YAML and JSON, many documents each, directories, standard input.

Every problem is a `UserError` that names file, document, object, field
and what is expected; all problems of all files are collected before one error is raised, so that a
user fixes them in one go. What can be used and yet may not be what was meant becomes a note. Kinds that are not read
are left out, with a note for each kind. The result keeps the order of the files and of the documents in them.
Files may be compressed (.gz). What follows the head of a saved snapshot is not checked: see `saved`.
"""

from __future__ import annotations

import codecs
import gc
import gzip
import re
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import Raw

from muster.api.documents import CUT, TextDocument, read_json, read_yaml, yaml_shapes
from muster.api.errors import UserError, describe_value
from muster.api.fields import UNKNOWN, unknown_fields
from muster.api.foreign import told
from muster.api.kinds import (
    FILE_KINDS,
    ClusterSnapshot,
    Document,
    decode,
    is_known,
    kind_of,
    list_item_kind,
    stub_of,
    subject_of,
    type_of,
)
from muster.api.objects.meta import KubeObject
from muster.api.objects.workload_shapes import templates_in
from muster.api.reading.pieces import NotPlainError, Piece, json_pieces, outputs_of, yaml_pieces
from muster.api.reading.quick import QuickReader
from muster.api.reading.together import Loaded, Source, remarks
from muster.api.validate import check

STDIN: Final = "-"
GZIP: Final = ".gz"
_JSON: Final = frozenset({".json", ".jsonl"})
_SUFFIXES: Final = _JSON | {".yaml", ".yml"}
_MAX_PROBLEMS: Final = 20
#: Objects between two reports of how far it is.
_STEP: Final = 500
_INDEX: Final = re.compile(r"\[\d+\]")


class Unusable(NamedTuple):
    """A document of a saved cluster that is no object, or one that nobody can tell from another."""

    kind: str
    namespace: str
    name: str
    reason: str

    def to_json(self) -> dict[str, str]:
        """As `muster simulate` lists it among what is in quarantine."""
        return self._asdict()

    def __str__(self) -> str:
        named = "/".join(part for part in (self.namespace, self.name) if part)
        return f"{' '.join(part for part in (self.kind or 'document', named) if part)}: {self.reason}"


class LoadedFiles(list[Loaded]):
    """The objects of some files, and what was left out."""

    def __init__(self) -> None:
        super().__init__()
        #: How many objects were left out, by apiVersion and kind.
        self.left_out: dict[tuple[str, str], int] = {}
        #: What may not be meant as it is written, a sentence each.
        self.notes: list[str] = []
        #: Those of the notes that tell of fields and kinds that were not read, whatever else is in the input.
        self.not_read: list[str] = []
        #: What a saved cluster holds and nobody can use.
        self.unusable: list[Unusable] = []

    @property
    def objects(self) -> list[KubeObject]:
        """The objects without their sources."""
        return [loaded.object for loaded in self]


#: Told now and then how many objects were read so far.
Progress = Callable[[int], None]


def load_files(
    paths: Iterable[str | Path],
    *,
    checked: bool = True,
    allow_unknown: bool = False,
    progress: Progress | None = None,
) -> LoadedFiles:
    """Load all objects of files and directories ("-" is standard input). Raises UserError.

    With `checked` off, objects whose fields have the right types but no meaning are taken, for commands that
    report what is wrong with them: see `validate.problems`. `allow_unknown`: fields that nobody knows are noted.
    """
    reader = _Reader(checked=checked, allow_unknown=allow_unknown, progress=progress)
    with _without_collecting():
        for path in paths:
            for file in _files_under(path):
                reader.read(_data_of(file), file)
        return reader.finish()


def load_text(text: str, file: str = "text", *, allow_unknown: bool = False) -> LoadedFiles:
    """Load all objects of a text, as if it were the content of a file. Raises UserError."""
    reader = _Reader(allow_unknown=allow_unknown)
    reader.read(text.encode(), file)
    return reader.finish()


@contextmanager
def _without_collecting() -> Iterator[None]:
    """Keep the garbage collector from looking at all objects again and again: none of them is garbage."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _files_under(path: str | Path) -> Iterator[str]:
    if str(path) == STDIN:
        yield STDIN
        return
    if not str(path):
        raise UserError('expected the name of a file or a directory, got ""')
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


def _data_of(file: str) -> bytes:
    try:
        return _bytes_of(file).removeprefix(codecs.BOM_UTF8)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise UserError("expected a file that gzip has packed, whole", place=file) from None
    except OSError as error:
        reason = error.strerror or "cannot be opened"
        raise UserError(f"cannot read the file: {reason}", place=file) from None


def _text_of(data: bytes, file: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UserError("expected text in UTF-8", place=f"{file}:{line}") from None


def _is_json(data: bytes, file: str) -> bool:
    """Whether to read a file as JSON where that can be: far faster than as YAML, and with better messages."""
    return _suffix(Path(file)) in _JSON or (file == STDIN and data.lstrip().startswith(b"{"))


def _documents(text: str, file: str, *, is_json: bool) -> Iterator[TextDocument]:
    if is_json:
        yield from read_json(text, file)
        return
    for section in outputs_of(text):
        yield from read_yaml(section.text, file, section.lines_before)


def _came_from_a_server(document: Document) -> bool:
    """Whether an API server has taken the object: only it gives out uids."""
    metadata = document.get("metadata")
    return isinstance(metadata, dict) and bool(metadata.get("uid"))


def _named(document: Document, source: Source) -> Document:
    """The document with a name of its own where it asks an API server to make one up: always the same."""
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or metadata.get("name") or not isinstance(metadata.get("generateName"), str):
        return document
    name = f"{metadata['generateName']}{zlib.crc32(str(source).encode()):08x}"[:-3]
    return {**document, "metadata": {**metadata, "name": name}}


def _named_in(content: object) -> tuple[str, str, str]:
    """Kind, namespace and name as far as a document has them."""
    document = content if isinstance(content, dict) else {}
    metadata = document.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    kind, namespace, name = (
        text if isinstance(text, str) else ""
        for text in (document.get("kind"), metadata.get("namespace"), metadata.get("name"))
    )
    return kind, namespace, name


def _identity(thing: KubeObject) -> tuple[str, str]:
    return _family(type(thing)), thing.key


@cache
def _family(kind: type[KubeObject]) -> str:
    """Objects of one kind are the same in every version of its group."""
    return f"{kind.kind}.{kind.api_version.rpartition('/')[0]}"


class _Reader:
    """Collects objects and problems over all files."""

    def __init__(self, *, checked: bool = True, allow_unknown: bool = False, progress: Progress | None = None) -> None:
        self._checked = checked
        self._progress = progress
        self._quick = QuickReader()
        self._shapes = yaml_shapes()
        self._allow_unknown = allow_unknown
        #: Fields that nobody knows, by kind and path: what is said of the first, and how often there is one.
        self._unknown: dict[tuple[str, str], str] = {}
        self._n_unknown: Counter[tuple[str, str]] = Counter()
        #: Kinds that are not read and have templates of pods, by apiVersion and kind.
        self._makers: set[tuple[str, str]] = set()
        #: Whether what is read now came from a cluster.
        self._as_is = False
        self._result = LoadedFiles()
        self._problems: list[UserError] = []
        self._places: dict[tuple[str, str], Source] = {}
        #: What the items of lists are, by what stands around them.
        self._lists: dict[str | bytes, tuple[str, str]] = {}

    def read(self, data: bytes, file: str) -> None:
        """Read a file, piece by piece where it can be taken apart, else as a whole. Raises UserError for no text."""
        is_json = _is_json(data, file)
        shown = "standard input" if file == STDIN else file
        self._as_is = False
        before = (
            len(self._result),
            len(self._problems),
            dict(self._result.left_out),
            self._unknown.copy(),
            self._n_unknown.copy(),
            len(self._result.unusable),
        )
        try:
            if is_json:
                self._take_pieces(json_pieces(data), shown)
            else:
                self._read_sections(_text_of(data, file), shown)
        except NotPlainError:
            self._go_back(*before)
            self._read_whole(_text_of(data, file), shown, file, is_json=is_json)

    def _go_back(
        self,
        n_objects: int,
        n_problems: int,
        left_out: dict[tuple[str, str], int],
        unknown: dict[tuple[str, str], str],
        n_unknown: Counter[tuple[str, str]],
        n_unusable: int,
    ) -> None:
        """Forget what was read of a file."""
        for loaded in self._result[n_objects:]:
            del self._places[_identity(loaded.object)]
        del self._result[n_objects:]
        del self._result.unusable[n_unusable:]
        del self._problems[n_problems:]
        self._result.left_out, self._unknown, self._n_unknown = left_out, unknown, n_unknown
        self._as_is = False

    def _read_sections(self, text: str, shown: str) -> None:
        """Raises NotPlainError, also for what is not YAML at all."""
        n_before = 0
        for section in outputs_of(text):
            n_before += self._take_pieces(yaml_pieces(section.text), shown, n_before, section.lines_before)

    def _take_pieces(self, pieces: Iterable[Piece], shown: str, n_before: int = 0, lines_before: int = 0) -> int:
        """Take the pieces of one text, and return how many documents there were. Raises NotPlainError."""
        last = 0
        for piece in pieces:
            last = piece.document
            self._take_piece(piece, Source(shown, n_before + last, lines_before + piece.line, piece.item))
        return last

    def _take_piece(self, piece: Piece, source: Source) -> None:
        kind = self._kind_of_items(piece.around) if piece.around else ("", "")
        given = self._shapes.json_of(piece.text) if isinstance(piece.text, str) else piece.text
        thing = None
        if given is not None and self._checked:
            thing = self._quick.read(given, kind, is_unique=isinstance(piece.text, str))
        if thing is None:
            content = self._content_of(piece.text)
            if kind[1] and isinstance(content, dict):
                content = {"apiVersion": kind[0], "kind": kind[1], **content}
            self._take(content, source)
            return
        try:
            self._accept(thing, source)
        except UserError as error:
            problem = error.located(place=str(source), subject=f"{thing.kind} {thing.key}")
            self._refuse(problem, thing.kind, thing.namespace, thing.name)

    def _kind_of_items(self, around: str | bytes) -> tuple[str, str]:
        """What the items of a list are: ("", "") for any. Raises NotPlainError where it is no list that is read."""
        known = self._lists.get(around)
        if known is None:
            head = self._content_of(around)
            if not isinstance(head, dict) or head.get("items") != []:
                raise NotPlainError
            found = list_item_kind(str(head.get("apiVersion")), str(head.get("kind")))
            if found is None:
                raise NotPlainError
            known = self._lists[around] = found
        return known

    def _content_of(self, text: str | bytes | Raw) -> object:
        """The one document of a text. Raises NotPlainError where that is not so."""
        try:
            if isinstance(text, str):
                documents = list(read_yaml(text, ""))
            else:
                documents = list(read_json(bytes(text).decode(), ""))
        except (UserError, UnicodeDecodeError):
            raise NotPlainError from None
        if len(documents) != 1 or documents[0].fault:
            raise NotPlainError
        return documents[0].content

    def _read_whole(self, text: str, shown: str, file: str, *, is_json: bool) -> None:
        try:
            for index, document in enumerate(_documents(text, file, is_json=is_json), start=1):
                if document.fault and not self._as_is:
                    raise UserError(f"not JSON: {document.fault}", place=f"{shown}:{document.line}")  # noqa: TRY301  # caught below, as others
                if document.content is not None:
                    self._take(document.content, Source(shown, index, document.line), document.fault)
        except UserError as error:
            self._problems.append(error)

    def finish(self) -> LoadedFiles:
        result = self._result
        if (
            not self._problems
            and self._checked
            and not any(isinstance(each.object, ClusterSnapshot) for each in result)
        ):
            result.notes += remarks(result)
        if not self._problems:
            for key, text in self._unknown.items():
                more = self._n_unknown[key] - 1
                result.not_read.append(f"{text} (and {more:,} more of these)" if more else text)
            result.not_read += told(result.left_out, FILE_KINDS, self._makers)
            result.notes += result.not_read
            return result
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
            self._refuse(error.located(place=str(source), subject=subject), *_named_in(content))

    def _refuse(self, problem: UserError, kind: str, namespace: str, name: str) -> None:
        """Note what is wrong with a document: of a saved cluster it costs no more than that document."""
        if not self._as_is:
            self._problems.append(problem)
            return
        reason = ": ".join(part for part in (problem.place, problem.field, problem.text) if part)
        self._result.unusable.append(Unusable(kind, namespace, name, reason))

    def _take_document(self, document: Document, source: Source, fault: str) -> None:
        api_version, kind = kind_of(document)
        item_kind = list_item_kind(api_version, kind)
        if item_kind is not None:
            self._take_list(document, item_kind, source, fault)
        elif is_known(api_version, kind):
            self._take_object(document, source, fault)
        else:
            left_out = self._result.left_out
            left_out[api_version, kind] = left_out.get((api_version, kind), 0) + 1
            if any(True for _ in templates_in(document.get("spec"))):
                self._makers.add((api_version, kind))

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
        document = _named(document, source)
        decoded = self._decoded(document, fault)
        if self._has_unknown_fields(document, type(decoded), source):
            return
        self._as_is |= isinstance(decoded, ClusterSnapshot)
        if self._checked and not self._as_is:
            check(decoded)
        elif self._as_is and not decoded.name:
            raise UserError("expected a name, got nothing", field="metadata.name")
        self._accept(decoded, source)

    def _accept(self, thing: KubeObject, source: Source) -> None:
        first = self._places.setdefault(_identity(thing), source)
        if first is not source:
            raise UserError(f"the same object already stands in {first} (line {first.line}); remove one of them")
        self._result.append(Loaded(thing, source))
        if self._progress is not None and len(self._result) % _STEP == 0:
            self._progress(len(self._result))

    def _has_unknown_fields(self, document: Document, wanted: type[KubeObject], source: Source) -> bool:
        """Whether there are misspelt fields; what a server has taken may be newer than we are, and is noted once."""
        if self._as_is or not self._checked:
            return False
        n_problems = len(self._problems)
        for path, text in unknown_fields(document, wanted):
            advice = f"{text}; --allow-unknown leaves it out" if text == UNKNOWN else text
            problem = UserError(advice, place=str(source), subject=subject_of(document), field=path)
            if self._allow_unknown or _came_from_a_server(document):
                key = wanted.kind, _INDEX.sub("", path)
                self._unknown.setdefault(key, str(problem))
                self._n_unknown[key] += 1
            else:
                self._problems.append(problem)
        return len(self._problems) > n_problems

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
