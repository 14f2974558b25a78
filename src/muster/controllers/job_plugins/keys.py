"""A pair of RSA keys in the forms that OpenSSH reads: PKCS #1 in PEM, and one line for authorized_keys.

Made of what the standard library has; nothing here is done with the keys beyond making them.
"""

from __future__ import annotations

import base64
import secrets
from functools import lru_cache
from typing import Final

_BITS: Final = 2048
_EXPONENT: Final = 65537
#: Rounds of the primality test, as FIPS 186-5 asks of primes of this size and more.
_ROUNDS: Final = 8
_LINE: Final = 64


def key_pair() -> tuple[str, str]:
    """A new private key and the public one to it, as texts."""
    while True:
        p, q = _prime(_BITS // 2), _prime(_BITS // 2)
        phi = (p - 1) * (q - 1)
        if p != q and phi % _EXPONENT:
            break
    n, d = p * q, pow(_EXPONENT, -1, phi)
    numbers = (0, n, _EXPONENT, d, p, q, d % (p - 1), d % (q - 1), pow(q, -1, p))
    return _pem(_sequence(numbers)), _authorized(n)


@lru_cache(maxsize=1)
def _small_primes() -> list[int]:
    return [number for number in range(3, 2000, 2) if all(number % below for below in range(3, number, 2))]


def _prime(bits: int) -> int:
    """A prime with both of its highest bits set, so that the product of two has all of its bits."""
    while True:
        candidate = secrets.randbits(bits) | (3 << (bits - 2)) | 1
        if all(candidate % small for small in _small_primes()) and _is_prime(candidate):
            return candidate


def _is_prime(candidate: int) -> bool:
    """Miller and Rabin's test, with bases by chance."""
    odd, twos = candidate - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for _ in range(_ROUNDS):
        value = pow(secrets.randbelow(candidate - 3) + 2, odd, candidate)
        if value in (1, candidate - 1):
            continue
        for _ in range(twos - 1):
            value = value * value % candidate
            if value == candidate - 1:
                break
        else:
            return False
    return True


# -- forms -------------------------------------------------------------------------------------------------------


def _bytes(number: int) -> bytes:
    """A number as DER and SSH write it: the first bit is a sign."""
    return number.to_bytes(number.bit_length() // 8 + 1, "big")


def _der(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < 128:
        return bytes([tag, size]) + content
    width = (size.bit_length() + 7) // 8
    return bytes([tag, 128 | width]) + size.to_bytes(width, "big") + content


def _sequence(numbers: tuple[int, ...]) -> bytes:
    return _der(0x30, b"".join(_der(0x02, _bytes(number)) for number in numbers))


def _pem(content: bytes) -> str:
    text = base64.b64encode(content).decode()
    lines = [text[place : place + _LINE] for place in range(0, len(text), _LINE)]
    return "\n".join(["-----BEGIN RSA PRIVATE KEY-----", *lines, "-----END RSA PRIVATE KEY-----"]) + "\n"


def _authorized(modulus: int) -> str:
    parts = (b"ssh-rsa", _bytes(_EXPONENT), _bytes(modulus))
    blob = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    return f"ssh-rsa {base64.b64encode(blob).decode()}\n"
