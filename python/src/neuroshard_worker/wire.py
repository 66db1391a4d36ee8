"""Lines of the protocol: requests read and checked, responses written."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any, BinaryIO, NoReturn

VERSION = 1
MAX_LINE = 16 << 20
"""The longest message in bytes; a longer one ends the conversation."""

OOM = "oom"
BAD_REQUEST = "bad_request"
UNSUPPORTED = "unsupported"
INTERNAL = "internal"

Json = dict[str, Any]


class WireError(Exception):
    """What becomes an error response."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class LineTooLongError(Exception):
    """A message is longer than MAX_LINE; the conversation is over."""


def bad(message: str) -> WireError:
    return WireError(BAD_REQUEST, message)


def unsupported(message: str) -> WireError:
    return WireError(UNSUPPORTED, message)


def out_of_memory(message: str) -> WireError:
    return WireError(OOM, message)


def lines(stream: BinaryIO) -> Iterator[bytes]:
    """Yields each line of the stream, and raises LineTooLongError."""
    while True:
        line = stream.readline(MAX_LINE + 1)
        if not line:
            return
        if len(line) > MAX_LINE:
            raise LineTooLongError(f"a message is longer than {MAX_LINE} bytes")
        if line.strip():
            yield line


def parse(line: bytes) -> Json:
    """Returns the request. NaN and infinities are no JSON and refused."""

    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is no number of JSON")

    try:
        request = json.loads(line, parse_constant=refuse)
    except (ValueError, RecursionError) as e:
        raise bad(f"not a line of JSON: {e}") from e
    if not isinstance(request, dict):
        raise bad(f"not an object of JSON but {type(request).__name__}")
    return request


def encode(response: Json) -> bytes:
    """Returns the line; ValueError where a number is not finite."""
    return json.dumps(response, allow_nan=False, separators=(",", ":")).encode() + b"\n"


def failure(error: WireError, request_id: str = "") -> Json:
    response: Json = {"op": "error", "code": error.code, "msg": error.message}
    if request_id:
        response["id"] = request_id
    return response


# Fields of requests. A missing one, or null, is the default; where names the
# field in messages.


def integer(q: Json, name: str, low: int, high: int, default: int | None = None) -> int:
    value = q.get(name)
    if value is None:
        if default is None:
            raise bad(f"{name}: missing")
        return default
    if isinstance(value, bool) or not isinstance(value, int):
        raise bad(f"{name}: {value!r} is not a whole number")
    if not low <= value <= high:
        raise bad(f"{name}: {value} is not between {low} and {high}")
    return value


def checked(value: object, name: str, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise bad(f"{name}: {value!r} is not a number")
    if not (low <= value <= high) or not math.isfinite(value):
        raise bad(f"{name}: {value} is not between {low} and {high}")
    return float(value)


def text(q: Json, name: str) -> str:
    value = q.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise bad(f"{name}: {value!r} is not a string")
    return value


def flag(q: Json, name: str) -> bool:
    value = q.get(name)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise bad(f"{name}: {value!r} is neither true nor false")
    return value


def array(q: Json, name: str) -> list[Any]:
    value = q.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise bad(f"{name}: {value!r} is not a list")
    return value


def objects(q: Json, name: str) -> list[Json]:
    value = array(q, name)
    for item in value:
        if not isinstance(item, dict):
            raise bad(f"{name}: {item!r} is not an object")
    return value
