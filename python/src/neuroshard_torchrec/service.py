"""The planning service, ``neuroshard serve``: asked, and its errors brought back with their hints.

``fields_of``  what ``neuroshard plan`` gets as flags, as the JSON that the service takes
``Service``    where the service is; ``ask`` asks it, and asks again if it is busy
"""

from __future__ import annotations

import http.client
import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from .errors import InputError, Problem, ServiceError, escaped, quote, shown

Json = dict[str, Any]

WAITS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
"""Seconds until the next try, for each try that failed; the last one again for all later
ones. The service's own ``Retry-After`` takes their place."""

LOST = 4
"""Tries of one request that may fail because no answer came."""

BUSY = (429, 503)
"""Statuses of a service that asks to come back later."""

DENIED = (401, 403)
"""Statuses of a service that asks for a token, or for another one."""

INFEASIBLE = "urn:neuroshard:infeasible"
"""The type of the service's answer if no plan fits."""

_LOOPBACK = ("localhost", "127.0.0.1", "::1")

_START = "start it (neuroshard serve), or give its address by url="
_LATE = "no answer came in time"


def problems_of(url: str, token: str | None, token_file: Any) -> list[Problem]:
    """Returns what is wrong with the address of a service and its token. No problem shows the
    token, or the address of one that holds a name and a password."""
    parts = urlsplit(url)
    if parts.username is not None or parts.password is not None:
        return [Problem("url holds a name or a password", "pass the token by token_file=")]
    if parts.scheme not in ("http", "https") or not parts.hostname:
        hint = 'write url="http://127.0.0.1:7878", as neuroshard serve prints it'
        return [Problem(f"url {quote(url, 200)} is not an address of http or https", hint)]
    if token is not None and token_file is not None:
        return [Problem("token and token_file are both given", "leave out one of them")]
    return [] if token is None else _token_problems(token, "token")


def _token_problems(token: str, where: str) -> list[Problem]:
    if re.fullmatch(r"[!-~]+", token):
        return []
    hint = "give the text that the service was started with"
    return [Problem(f"{where} is empty, or holds what no token has, such as a space", hint)]


def read_token(path: str) -> str:
    """Returns the token in a file, without the end of its line. InputError if there is none."""
    try:
        token = Path(path).read_text(encoding="latin-1").strip()
    except OSError as e:
        message = f"token_file {quote(path, 200)} cannot be read: {e.strerror or e}"
        hint = "give the file of neuroshard serve --token-file"
        raise InputError([Problem(message, hint)]) from e
    if problems := _token_problems(token, f"token_file {quote(path, 200)}"):
        raise InputError(problems)
    return token


# What the program takes as flags.

_OPTIONS = (
    *("baselines", "certificate", "max_evaluations", "method"),
    *("risk_penalty", "seed", "sharding_types"),
)
"""The fields of requests that say how to search. All others say what to plan for."""


def words(arguments: Sequence[str]) -> list[tuple[str, str]]:
    """Returns the flags of arguments with their values, and the keys that --set states: a flag
    begins with dashes, and a key does not."""
    return [(name, text) for name, text, _ in _split(arguments)]


def without(arguments: Sequence[str], stated: Sequence[str]) -> list[str]:
    """Returns arguments without the flags and keys that others state, too: the program takes
    each of them once."""
    names = {name for name, _ in words(stated)}
    return [a for name, _, given in _split(arguments) if name not in names for a in given]


def _split(arguments: Sequence[str]) -> Iterator[tuple[str, str, list[str]]]:
    """Yields each flag or key, its value, and the arguments that state it."""
    rest = list(arguments)
    while rest:
        given = [rest.pop(0)]
        flag, equals, text = given[0].partition("=")
        if not equals and rest and not rest[0].startswith("--"):
            text = rest.pop(0)
            given.append(text)
        flag = "--output" if flag.startswith("-o") else flag
        if flag == "--set":
            flag, _, text = text.partition("=")
        yield flag, text, given


_NAMES = {"gpus": "devices", "gpu": "device", "engine": "for", "types": "sharding_types"}
"""The fields of flags that have another name."""


def fields_of(arguments: Sequence[str]) -> Json:
    """Returns ``{"overrides": ..., "options": ...}`` for arguments of ``neuroshard plan``, by the
    names of the flags. The service says which of them it does not take."""
    fields: Json = {"overrides": {}, "options": {}}
    for name, value in words(arguments):
        key = name.removeprefix("--").replace("-", "_")
        key = _NAMES.get(key, key)
        group = "options" if key in _OPTIONS else "overrides"
        listed = [part.strip() for part in value.split(",")]
        fields[group][key] = listed if key == "sharding_types" else _number(value)
    return fields


def _number(text: str) -> bool | int | float | str:
    """Returns the number or the truth that a text is, else the text."""
    if text in ("true", "false"):
        return text == "true"
    if not re.fullmatch(r"-?[0-9]+(\.[0-9]+)?(e-?[0-9]+)?", text):
        return text
    return int(text) if text.lstrip("-").isdecimal() else float(text)


# Asking.


@dataclass(frozen=True)
class _Answer:
    """What one try brought: ``status`` 0 if no answer came, for the reason in ``lost``."""

    status: int
    header: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    lost: str = ""


class Service:
    """A planning service at an address, such as ``http://127.0.0.1:7878``.

    ``token`` is what it asks for, None for nothing. ``timeout`` bounds one question with all
    its tries, in seconds. No error shows the token.
    """

    def __init__(self, url: str, token: str | None, timeout: float) -> None:
        self.url = url.rstrip("/")
        self._token = token
        self._timeout = timeout
        # No proxy stands between a program and a service on the same machine.
        proxies = [urllib.request.ProxyHandler({})] if urlsplit(url).hostname in _LOOPBACK else []
        self._opener = urllib.request.build_opener(*proxies)

    def ask(self, path: str, body: Json | None = None) -> Json:
        """Returns the answer to a request, a JSON object. It is a POST if there is a body.

        A service that is busy (429, 503) is asked again when it says so (``Retry-After``),
        else after WAITS, until the timeout; a request that got no answer is sent LOST times
        at most. That does no harm: the same question has the same plan. ServiceError if
        there is no answer, or one that says what is wrong.
        """
        deadline = time.monotonic() + self._timeout
        data = None if body is None else json.dumps(body, allow_nan=False).encode()
        lost = tries = 0
        while True:
            answer = self._once(path, data, deadline)
            if answer.status == 200:
                try:
                    return dict(json.loads(answer.body))
                except (ValueError, TypeError) as e:
                    message = f"{quote(self.url, 200)} answered what is not an object of JSON"
                    hint = "is it the service of neuroshard serve?"
                    raise ServiceError([Problem(message, hint)]) from e
            lost += answer.status == 0
            again = answer.status in BUSY or (answer.status == 0 and lost < LOST)
            asked = answer.header.get("Retry-After", "")
            wait = float(asked) if asked.isdecimal() else WAITS[min(tries, len(WAITS) - 1)]
            tries += 1
            if not again or time.monotonic() + wait >= deadline:
                error = ServiceError(self._problems(answer))
                error.nothing_fits = _told(answer.body).get("type") == INFEASIBLE
                raise error
            time.sleep(wait)

    def _once(self, path: str, data: bytes | None, deadline: float) -> _Answer:
        request = urllib.request.Request(self.url + path, data=data)
        request.add_header("Content-Type", "application/json")
        request.add_header("User-Agent", "neuroshard_torchrec")
        if self._token is not None:  # it goes to the given address only
            request.add_unredirected_header("Authorization", "Bearer " + self._token)
        left = deadline - time.monotonic()
        if left <= 0:
            return _Answer(0, lost=_LATE)
        try:
            try:
                response = self._opener.open(request, timeout=left)
            except urllib.error.HTTPError as e:
                response = e  # an answer, too, which may come late
            with response:
                return _Answer(response.status, response.headers, response.read())
        except (OSError, http.client.HTTPException) as e:
            reason = getattr(e, "reason", e)
            if isinstance(reason, TimeoutError):
                return _Answer(0, lost=_LATE)
            return _Answer(0, lost=escaped(str(getattr(reason, "strerror", None) or reason)))

    def _problems(self, answer: _Answer) -> list[Problem]:
        """Returns what is wrong by an answer that is none of success."""
        where = quote(self.url, 200)
        if answer.status == 0:
            hint = "pass a longer timeout" if answer.lost == _LATE else _START
            return [Problem(f"the service at {where} cannot be asked: {answer.lost}", hint)]
        hint = ""
        if answer.status in DENIED:
            hint = "pass the token by token_file= or token="
        elif answer.status in BUSY:
            hint = "the service stayed busy: pass a longer timeout, or ask later"
        if found := problems(answer.body):
            denied = answer.status in DENIED
            return [Problem(p.message, hint if denied else p.hint or hint) for p in found]
        message = f"the service at {where} answered with status {answer.status}"
        return [Problem(message, hint or "is it the service of neuroshard serve?")]


def _told(body: bytes) -> Json:
    """Returns a body of application/problem+json, empty if it is none."""
    try:
        return dict(json.loads(body))
    except (ValueError, TypeError):
        return {}


def problems(body: bytes) -> list[Problem]:
    """Returns what a body of application/problem+json (RFC 9457) says is wrong: each of its
    errors, where it is and what to do about it; without errors, its detail or title."""
    told = _told(body)
    if errors := told.get("errors"):
        return [_problem(e) for e in errors]
    whole = told.get("detail") or told.get("title")
    return [Problem(_text(whole), _text(told.get("hint", "")))] if whole else []


def _problem(told: Json) -> Problem:
    message, where = _text(told.get("message", "")), _text(told.get("location", ""))
    if where and where not in message:
        message = f"{where.removeprefix('body.')}: {message}"
    return Problem(message, _text(told.get("hint", "")))


def _text(text: str) -> str:
    """Returns a text of the service for a message, with the fields of requests as arguments."""
    return re.sub(r"(?:problem\.)?(overrides|options)\.([a-z_]+)", _argument, escaped(text))


def _argument(field: re.Match[str]) -> str:
    """Returns the flag or key of ``neuroshard plan`` that a field of a request stands for."""
    for flag, key in _NAMES.items():
        if key == field[2]:
            return "--" + flag
    plain = field[2] in ("hosts", "memory", "host_memory", "batch", "optimizer", "seed")
    return "--" + field[2].replace("_", "-") if plain else field[2]


def report(url: str, answer: Json) -> str:
    """Returns the lines that say which plan an answer has, what it costs, and where to see it."""
    plan = str(answer.get("id", ""))
    found = "found among the plans of" if answer.get("cached") is True else "made by"
    lines = [f"plan {quote(plan)} {found} the service at {url}"]
    for key, text in (
        ("cost_ms", "predicted, by a model of source " + shown(answer.get("source"))),
        ("simulated_cost_ms", "on the SIMULATED device"),
        ("lower_bound_ms", "is the least that any plan costs on the SIMULATED device"),
    ):
        value = answer.get(key)
        if isinstance(value, (int, float)):
            lines.append(f"{value:.4g} ms {text}")
    if re.fullmatch(r"[0-9a-f]+", plan):
        lines.append(f"see it: {url.rstrip('/')}/#/plans/{plan}")
    return "\n".join(lines) + "\n"
