"""The errors that Muster raises on purpose, and what each one means for the caller.

    MusterError
    ├── UserError       the input is wrong; exit code 2, no traceback
    ├── BackendError    the cluster or the disk did not answer; may be retryable
    └── InternalError   a bug in Muster; exit code 1, worth a report

Everything in the product raises one of the three leaves; only the command line catches the root.
A ``UserError`` names the place, the object, the field, and what would be right.
"""

from __future__ import annotations

from typing import ClassVar


class MusterError(Exception):
    """Root of all errors raised on purpose."""

    exit_code: ClassVar[int] = 1


class UserError(MusterError):
    """The input is wrong, and the message says where and what would be right.

    The parts are kept apart so that an outer layer can add the place it alone knows:
    ``jobs.yaml: document 3 (PodGroup team-a/train): spec.minMember: expected an integer, got "eight"``
    """

    exit_code: ClassVar[int] = 2

    def __init__(self, text: str, *, place: str = "", subject: str = "", field: str = "") -> None:
        self.text = text
        self.place = place
        self.subject = subject
        self.field = field
        super().__init__(self._render())

    def _render(self) -> str:
        if self.place and self.subject:
            head = f"{self.place} ({self.subject})"
        else:
            head = self.place or self.subject
        return ": ".join(part for part in (head, self.field, self.text) if part)

    def located(self, *, place: str = "", subject: str = "") -> UserError:
        """Return the same error with the place and the object filled in where they were unknown."""
        return UserError(self.text, place=self.place or place, subject=self.subject or subject, field=self.field)


class BackendError(MusterError):
    """Something outside Muster failed; ``retryable`` says whether trying again can help."""

    def __init__(self, text: str, *, retryable: bool) -> None:
        self.retryable = retryable
        super().__init__(text)


class InternalError(MusterError):
    """A promise inside Muster was broken: this is a bug."""
