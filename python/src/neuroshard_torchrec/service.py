"""The planning service, ``neuroshard serve``: asked, and its errors brought back with their hints.

``body_of``   what ``neuroshard plan`` gets as flags, as the JSON that the service takes
``Service``   where the service is; ``plan`` asks it, and asks again if it is busy
"""

from __future__ import annotations

import http.client
import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from .errors import InputError, Problem, ServiceError, escaped, nearest, quote, shown

Json = dict[str, Any]

MAX_BYTES = 256 << 20
"""Bytes of an answer above which it is not read to its end."""

MAX_TOKEN = 8 << 10
"""The most bytes of a token."""

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


def url_problems(url: Any) -> list[Problem]:
    """Returns what is wrong with the address of a service. No problem shows the address of
    one that holds a name and a password."""
    if not isinstance(url, str):
        return [Problem(f"url is of type {type(url).__name__}, not text")]
    hint = 'write url="http://127.0.0.1:7878", as neuroshard serve prints it'
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as e:
        return [Problem(f"url is not an address: {escaped(str(e))}", hint)]
    if parts.username is not None or parts.password is not None:
        return [Problem("url holds a name or a password", "pass the token by token_file=")]
    if parts.scheme not in ("http", "https") or not host or not url.isascii() or " " in url:
        return [Problem(f"url {quote(url, 200)} is not an address of http or https", hint)]
    if parts.query or parts.fragment or not url.isprintable():
        return [Problem(f"url {quote(url, 200)} holds more than an address", hint)]
    return []


def token_problems(token: Any, token_file: Any) -> list[Problem]:
    """Returns what is wrong with a token or its file; the token is not shown."""
    if token is not None and token_file is not None:
        return [Problem("token and token_file are both given", "leave out one of them")]
    if token is None:
        return []
    if not isinstance(token, str):
        return [Problem(f"token is of type {type(token).__name__}, not text")]
    return _wrong(token, "token")


def _wrong(token: str, where: str) -> list[Problem]:
    if token and len(token) <= MAX_TOKEN and token.isascii() and re.fullmatch(r"[!-~]+", token):
        return []
    what = "holds what no token has, such as a space" if token else "is empty"
    return [Problem(f"{where} {what}", "give the text that the service was started with")]


def read_token(path: str) -> str:
    """Returns the token in a file, without the end of its line. InputError if there is none."""
    try:
        with open(path, "rb") as f:
            token = f.read(MAX_TOKEN + 1).decode("latin-1").strip()
    except OSError as e:
        message = f"token_file {quote(path, 200)} cannot be read: {e.strerror or e}"
        raise InputError(
            [Problem(message, "give the file of neuroshard serve --token-file")]
        ) from e
    if problems := _wrong(token, f"token_file {quote(path, 200)}"):
        raise InputError(problems)
    return token


# What the program takes as flags.


def _whole(flag: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InputError(
            [Problem(f"arguments: {flag} {quote(text)} is not a whole number")]
        ) from None


def _number(flag: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError([Problem(f"arguments: {flag} {quote(text)} is not a number")]) from None


def _text(flag: str, text: str) -> str:
    return text


def _list(flag: str, text: str) -> list[str]:
    return [part.strip() for part in text.split(",")]


_FLAGS: dict[str, tuple[str, str, Callable[[str, str], Any]]] = {
    "--accounting": ("overrides", "accounting", _text),
    "--backward-multiplier": ("overrides", "backward_multiplier", _number),
    "--batch": ("overrides", "batch", _whole),
    "--comm-precision": ("overrides", "comm_precision", _text),
    "--device": ("overrides", "device", _text),
    "--devices": ("overrides", "devices", _whole),
    "--devices-per-host": ("overrides", "devices_per_host", _whole),
    "--for": ("overrides", "for", _text),
    "--hbm-bandwidth": ("overrides", "hbm_bandwidth", _text),
    "--host-link-bandwidth": ("overrides", "host_link_bandwidth", _text),
    "--host-memory": ("overrides", "host_memory", _text),
    "--lanes": ("overrides", "lanes", _text),
    "--link-bandwidth": ("overrides", "link_bandwidth", _text),
    "--replicas": ("overrides", "replicas", _whole),
    "--sync-every": ("overrides", "sync_every", _whole),
    "--memory": ("overrides", "memory", _text),
    "--min-width": ("overrides", "min_width", _whole),
    "--network-bandwidth": ("overrides", "network_bandwidth", _text),
    "--nvlink-domain": ("overrides", "nvlink_domain", _whole),
    "--reserve-fixed": ("overrides", "reserve_fixed", _text),
    "--reserve-share": ("overrides", "reserve_share", _number),
    "--weighted-backward-multiplier": ("overrides", "weighted_backward_multiplier", _number),
    "--max-evaluations": ("options", "max_evaluations", _whole),
    "--method": ("options", "method", _text),
    "--risk-penalty": ("options", "risk_penalty", _number),
    "--seed": ("options", "seed", _whole),
    "--sharding-types": ("options", "sharding_types", _list),
}
"""Where the service takes what ``neuroshard plan`` takes as a flag."""


def fields_of(arguments: Sequence[str]) -> Json:
    """Returns ``{"overrides": ..., "options": ...}`` for arguments of ``neuroshard plan``;
    of an argument that is stated twice the last counts, as there. InputError lists all
    arguments that the service does not take."""
    fields: Json = {"overrides": {}, "options": {}}
    problems: list[Problem] = []
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        flag, equals, value = argument.partition("=")
        if flag == "--no-baselines" and value in ("", "true"):
            fields["options"]["baselines"] = False
            continue
        if flag == "--no-certificate" and value in ("", "true"):
            fields["options"]["certificate"] = False
            continue
        if flag == "--inter-host-allreduce" and value in ("", "true"):
            fields["overrides"]["inter_host_allreduce"] = True
            continue
        if flag not in _FLAGS:
            near = nearest(flag, list(_FLAGS))
            hint = "leave it out, or plan by the program: pass binary= instead of url="
            hint = f"{hint}; or write {near}" if near else hint
            problems.append(
                Problem(f"arguments: the service does not take {quote(argument)}", hint)
            )
            continue
        if not equals:
            if not rest:
                problems.append(Problem(f"arguments: {flag} has no value"))
                continue
            value = rest.pop(0)
        group, key, read = _FLAGS[flag]
        try:
            fields[group][key] = read(flag, value)
        except InputError as e:
            problems += e.problems
    if problems:
        raise InputError(problems)
    return fields


# Asking.


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Leaves a redirection as the answer: the token goes to the given address only."""

    def redirect_request(self, *_: Any) -> None:
        return None


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
        handlers: list[urllib.request.BaseHandler] = [_NoRedirect()]
        if urlsplit(url).hostname in _LOOPBACK:
            handlers.append(urllib.request.ProxyHandler({}))
        self._opener = urllib.request.build_opener(*handlers)

    def ask(self, path: str, body: Json) -> Json:
        """Returns the answer to a request, a JSON object.

        A service that is busy (429, 503) is asked again when it says so (``Retry-After``),
        else after WAITS, until the timeout; a request that got no answer is sent LOST times
        at most. That does no harm: the same question has the same plan. ServiceError if
        there is no answer, or one that says what is wrong.
        """
        deadline = time.monotonic() + self._timeout
        data = json.dumps(body, allow_nan=False).encode()
        lost = 0
        for tries in range(1 << 20):
            answer = self._once(path, data, deadline)
            if answer.status == 200:
                return self._object(answer.body)
            lost += answer.status == 0
            again = answer.status in BUSY or (answer.status == 0 and lost < LOST)
            wait = _wait(answer.header, WAITS[min(tries, len(WAITS) - 1)])
            if not again or time.monotonic() + wait >= deadline:
                error = ServiceError(self._problems(answer, deadline))
                error.nothing_fits = _type(answer.body) == INFEASIBLE
                raise error
            time.sleep(wait)
        raise AssertionError("the timeout ends the tries")

    def _once(self, path: str, data: bytes, deadline: float) -> _Answer:
        request = urllib.request.Request(self.url + path, data=data, method="POST")
        request.add_header("Content-Type", "application/json")
        request.add_header("Accept", "application/json, application/problem+json")
        request.add_header("User-Agent", "neuroshard_torchrec")
        if self._token is not None:
            request.add_unredirected_header("Authorization", "Bearer " + self._token)
        left = deadline - time.monotonic()
        if left <= 0:
            return _Answer(0, lost="no answer came in time")
        try:
            try:
                response = self._opener.open(request, timeout=left)
            except urllib.error.HTTPError as e:
                response = e  # an answer, too, which may come late
            with response:
                return _Answer(
                    response.status, _header(response.headers), _read(response, deadline)
                )
        except TimeoutError:
            return _Answer(0, lost="no answer came in time")
        except (OSError, http.client.HTTPException) as e:
            reason = getattr(e, "reason", e)
            if isinstance(reason, TimeoutError):
                return _Answer(0, lost="no answer came in time")
            return _Answer(0, lost=escaped(str(getattr(reason, "strerror", None) or reason)))

    def _object(self, body: bytes) -> Json:
        try:
            value = json.loads(body)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            message = f"{quote(self.url, 200)} answered what is not an object of JSON"
            raise ServiceError([Problem(message, "is it the service of neuroshard serve?")])
        return value

    def _problems(self, answer: _Answer, deadline: float) -> list[Problem]:
        """Returns what is wrong by an answer that is none of success."""
        where = quote(self.url, 200)
        if answer.status == 0:
            late = time.monotonic() >= deadline or answer.lost == "no answer came in time"
            hint = "pass a longer timeout" if late else _START
            return [Problem(f"the service at {where} cannot be asked: {answer.lost}", hint)]
        if found := problems(answer.body):
            own = _hint(answer.status)
            denied = answer.status in DENIED
            return [Problem(p.message, own if denied else p.hint or own) for p in found]
        message = f"the service at {where} answered with status {answer.status}"
        return [Problem(message, _hint(answer.status) or "is it the service of neuroshard serve?")]


def _hint(status: int) -> str:
    """Returns what to do about a status if the service does not say it."""
    if status in DENIED:
        return "pass the token by token_file= or token="
    if status in BUSY:
        return "the service stayed busy: pass a longer timeout, or ask later"
    if 300 <= status < 400:
        return "give the address that it redirects to by url="
    return ""


def _header(headers: Message) -> dict[str, str]:
    return {k.lower(): v for k, v in headers.items()}


def _read(response: Any, deadline: float) -> bytes:
    """Returns the body of an answer; ServiceError above MAX_BYTES, TimeoutError after the
    deadline."""
    body = bytearray()
    while chunk := response.read1(1 << 20):
        body += chunk
        if len(body) > MAX_BYTES:
            message = f"the service's answer is larger than {MAX_BYTES >> 20} MiB"
            raise ServiceError([Problem(message, "plan by the program: pass binary=")])
        if time.monotonic() > deadline:
            raise TimeoutError
    return bytes(body)


def _wait(header: Mapping[str, str], otherwise: float) -> float:
    """Returns the seconds that ``Retry-After`` asks for: a number of them, or a date."""
    text = header.get("retry-after", "").strip()
    if re.fullmatch(r"[0-9]{1,9}", text):
        return float(text)
    try:
        return (
            max(0.0, parsedate_to_datetime(text).timestamp() - time.time()) if text else otherwise
        )
    except (TypeError, ValueError):
        return otherwise


def _type(body: bytes) -> str:
    """Returns the type of the problem in a body of application/problem+json, "" without one."""
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    return str(told.get("type", "")) if isinstance(told, dict) else ""


def problems(body: bytes) -> list[Problem]:
    """Returns what a body of application/problem+json (RFC 9457) says is wrong: each of its
    errors, where it is and what to do about it; without errors, its detail or title. What
    does not print is escaped, and long texts are cut."""
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        return []
    if not isinstance(told, dict):
        return []
    listed = told.get("errors")
    found = [_problem(e) for e in listed if isinstance(e, dict)] if isinstance(listed, list) else []
    found = [p for p in found if p.message]
    whole = told.get("detail") or told.get("title")
    if found or not isinstance(whole, str):
        return found
    return [Problem(_cut(whole), _cut(told.get("hint", "")))]


def _problem(told: Json) -> Problem:
    message, where = _cut(told.get("message", "")), _cut(told.get("location", ""))
    if where and where not in message:
        message = f"{where.removeprefix('body.')}: {message}"
    return Problem(message, _cut(told.get("hint", "")))


def _cut(text: Any, most: int = 2000) -> str:
    """Returns a text of the service for a message, with the fields of requests as arguments."""
    if not isinstance(text, str):
        return ""
    text = text if len(text) <= most else text[:most] + "..."
    return re.sub(r"(?:problem\.)?(overrides|options)\.([a-z_]+)", _argument, escaped(text))


def _argument(field: re.Match[str]) -> str:
    """Returns the argument of ``neuroshard plan`` that a field of a request stands for."""
    for flag, (group, key, _) in _FLAGS.items():
        if (group, key) == (field[1], field[2]):
            return flag
    return field[0]


def plan_of(answer: Json) -> bytes:
    """Returns the plan in an answer, as a plan file has it."""
    plan = answer.get("plan")
    if not isinstance(plan, dict):
        message = "the service reported no error and sent no plan"
        raise ServiceError([Problem(message, "is it the service of neuroshard serve?")])
    return json.dumps(plan, indent=1).encode()


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
