"""The planner through the service: a real ``neuroshard serve``, and one that fails in every way.

test_torchrec_training.py has the planner on four ranks, with the program.
"""

from __future__ import annotations

import json
import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from test_torchrec_planner import MODEL
from test_torchrec_planner import planner as any_planner

from neuroshard_torchrec import (
    InputError,
    NeuroShardPlanner,
    Problem,
    ServiceError,
    service,
)
from neuroshard_torchrec import binary as program

TOKEN = "tok-5f1e2d-8a7b6c5d"

Json = dict[str, Any]
Answer = tuple[int, dict[str, str], bytes]


class Fake:
    """A service on a free port that gives the answers of a list, the last one again for all
    later requests, and keeps what it was asked."""

    exported: bytes = b""
    """The answer to the question for the export of the plan."""

    def __init__(self, *answers: Answer | Callable[[], Answer]) -> None:
        self.asked: list[tuple[str, dict[str, str], Json]] = []
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                assert self.path == f"/v1/plans/{'0f' * 16}/torchrec"
                self.answer(200, {}, fake.exported)

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                header = {k.lower(): v for k, v in self.headers.items()}
                fake.asked.append((self.path, header, json.loads(body)))
                answer = answers[min(len(fake.asked), len(answers)) - 1]
                status, headers, content = answer() if callable(answer) else answer
                self.answer(status, headers, content)

            def answer(self, status: int, headers: dict[str, str], content: bytes) -> None:
                if status == 0:  # no answer at all
                    self.close_connection = True
                    return
                self.send_response(status)
                for k, v in ({"Content-Length": str(len(content))} | headers).items():
                    self.send_header(k, v)
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))

    def __enter__(self) -> Fake:
        self.thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


def told(status: int, headers: dict[str, str] | None = None, **fields: Any) -> Answer:
    return status, {"Content-Type": "application/problem+json"} | (headers or {}), encoded(fields)


def encoded(value: Any) -> bytes:
    return json.dumps(value).encode()


def planner(url: str, **options: Any) -> NeuroShardPlanner:
    return any_planner(**({"url": url, "timeout": 20} | options))


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "WAITS", (0.01, 0.02))


@pytest.fixture(scope="module")
def answer(binary: str, tmp_path_factory: pytest.TempPathFactory) -> Json:
    """An answer of the service, made of the program's plan."""
    folder = tmp_path_factory.mktemp("answer")
    any_planner(binary=binary, keep=folder).plan(MODEL)
    plan = (folder / "plan.json").read_bytes()
    Fake.exported = encoded(program.export(plan, binary))
    return {"id": "0f" * 16, "cached": False, "plan": json.loads(plan)}


@pytest.fixture(scope="module")
def serving(binary: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A real service that asks for TOKEN: its address, and the file of the token."""
    folder = tmp_path_factory.mktemp("service")
    (folder / "token").write_text(TOKEN + "\n")
    command = [binary, "serve", "--listen", "127.0.0.1:0", "--data", str(folder / "plans")]
    with subprocess.Popen(
        [*command, "--token-file", str(folder / "token"), "--log", "none"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        try:
            found = re.search(r"http://127\.0\.0\.1:[0-9]+", line)
            assert found, line + process.stdout.read()
            yield found[0], folder / "token"
        finally:
            process.terminate()


def test_the_service_and_the_program_make_one_plan(
    binary: str, serving: tuple[str, Path], answer: Json, tmp_path: Path
) -> None:
    url, token = serving
    p = planner(url, token_file=token, keep=tmp_path, name="ranking")
    by_service = p.plan(MODEL)
    kept = json.loads((tmp_path / "plan.json").read_text())
    assert kept == answer["plan"]
    assert by_service == any_planner(binary=binary).plan(MODEL)
    assert "made by the service" in p.report and "SIMULATED" in p.report
    assert f"{url}/#/plans/" in p.report
    again = planner(url, token=TOKEN, name="ranking")
    assert again.plan(MODEL) == by_service
    assert "found among the plans of the service" in again.report


def test_arguments_reach_the_service(binary: str, serving: tuple[str, Path]) -> None:
    url, token = serving
    for arguments in (
        ["--memory", "60GiB", "--seed", "3", "--set", "certificate=false"],
        ["--types=all", "--set=lanes=own", "--set=max_evaluations=500"],
    ):
        plans = [
            any_planner(arguments=arguments, **by).plan(MODEL)
            for by in ({"binary": binary}, {"url": url, "token_file": token})
        ]
        assert plans[0] == plans[1]


def test_errors_of_the_real_service(serving: tuple[str, Path]) -> None:
    url, token = serving
    with pytest.raises(ServiceError, match="token") as e:
        planner(url).plan(MODEL)
    assert any("token_file=" in p.hint for p in e.value.problems)
    with pytest.raises(ServiceError) as e:
        planner(url, token="another-" + TOKEN).plan(MODEL)
    assert TOKEN not in str(e.value)
    with pytest.raises(ServiceError, match="a100-8") as e:
        planner(url, token_file=token, profile="a100-8").plan(MODEL)
    assert all(p.hint for p in e.value.problems)
    with pytest.raises(ServiceError, match="missing") as e:
        planner(url, token_file=token, arguments=["--memory", "1GiB"]).plan(MODEL)
    assert all(p.hint for p in e.value.problems)


def test_the_token_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    assert service.read_token(str(file)) == TOKEN
    file.write_text("two words\n")
    with pytest.raises(InputError, match=r"token_file .* holds what no") as e:
        service.read_token(str(file))
    assert "two words" not in str(e.value)
    with pytest.raises(InputError, match=r"token_file .* cannot be read: No such file"):
        service.read_token(str(tmp_path / "none"))


def test_errors_of_the_service_with_their_hints() -> None:
    errors = [
        {
            "location": "body.problem.overrides.devices",
            "message": "0 devices",
            "hint": "give 1 to overrides.memory",
        },
        {"message": 'table "a": \x1b[31m'},
    ]
    with (
        Fake(told(422, title="Unprocessable", detail="2 errors", errors=errors)) as fake,
        pytest.raises(ServiceError) as e,
    ):
        planner(fake.url).plan(MODEL)
    assert e.value.problems == (
        Problem("--gpus: 0 devices", "give 1 to --memory"),
        Problem('table "a": \\x1b[31m', ""),
    )
    assert len(fake.asked) == 1


@pytest.mark.parametrize(
    ("answers", "part"),
    [
        (
            [told(401, title="Unauthorized", detail="a token is needed")],
            "a token is needed\n  hint: pass the token",
        ),
        ([(404, {}, b"<html>")], "answered with status 404\n  hint: is it the service"),
        ([(500, {}, b"[]")], "answered with status 500"),
        ([(200, {}, b"<html>")], "answered what is not an object of JSON\n  hint: is it"),
    ],
)
def test_a_service_that_fails(answers: list[Answer], part: str) -> None:
    with Fake(*answers) as fake, pytest.raises(ServiceError) as e:
        planner(fake.url, token=TOKEN).plan(MODEL)
    assert part in str(e.value)
    assert TOKEN not in str(e.value) and len(fake.asked) == 1


def test_a_busy_service_is_asked_again(answer: Json) -> None:
    slept: list[float] = []
    busy = [told(429, {"Retry-After": "0"}), told(503), (0, {}, b""), (200, {}, encoded(answer))]
    with Fake(*busy) as fake, pytest.MonkeyPatch.context() as patch:
        patch.setattr(service.time, "sleep", slept.append)
        planner(fake.url).plan(MODEL)
    assert len(fake.asked) == 4
    assert slept == [0, 0.02, 0.02]


@pytest.mark.parametrize(
    ("answers", "part", "asked"),
    [
        ([told(503, {"Retry-After": "3600"})], "pass a longer timeout", 1),
        ([told(429, detail="the queue is full")], "pass a longer timeout", None),
        ([(0, {}, b"")], "cannot be asked", service.LOST),
    ],
)
def test_a_service_that_does_not_answer(
    answers: list[Answer], part: str, asked: int | None
) -> None:
    with Fake(*answers) as fake, pytest.raises(ServiceError, match=part):
        planner(fake.url, timeout=0.2).plan(MODEL)
    assert asked in (None, len(fake.asked))
    with pytest.raises(ServiceError, match=r"cannot be asked: .*refused\n  hint: start it"):
        planner(fake.url).plan(MODEL)  # it is gone


def test_a_service_that_is_late() -> None:
    stop = threading.Event()

    def late() -> Answer:
        stop.wait(30)
        return 0, {}, b""

    with Fake(late) as fake:
        with pytest.raises(ServiceError, match=r"no answer came in time\n  hint: pass a longer"):
            planner(fake.url, timeout=0.2).plan(MODEL)
        stop.set()


@pytest.mark.parametrize(
    "arguments",
    [["--model=m"], ["--explain"], ["--seed", "x"], ["--set=reserve_share=y"], ["--memory"]],
)
def test_arguments_that_the_service_does_not_take(
    serving: tuple[str, Path], arguments: list[str]
) -> None:
    url, token = serving
    with pytest.raises(ServiceError) as e:
        planner(url, token_file=token, arguments=arguments).plan(MODEL)
    print(e.value)
    assert service.words(arguments)[0][0].strip("-") in str(e.value)


def test_each_argument_is_stated_once() -> None:
    """Those of the user count, in whatever form."""
    own = ["-o", "x", "--engine=any", "--set", "lanes=own", "--full"]
    usual = ["--gpus", "4", "--engine", "torchrec", "--set=lanes=widest", "--output=y"]
    assert service.without([*usual, "--set", "a=1"], own) == ["--gpus", "4", "--set", "a=1"]


def test_an_old_plan_by_the_real_service(
    binary: str, serving: tuple[str, Path], tmp_path: Path
) -> None:
    url, token = serving
    old = tmp_path / "old"
    any_planner(binary=binary, keep=old).plan(MODEL)
    options = {
        "pooling_factors": {"a": 30, "b": 5, "c": 20},
        "batch_per_rank": 512,
        "from_plan": old / "plan.json",
        "max_bytes": "5%",
    }
    plans = [
        any_planner(keep=tmp_path, **options, **by).plan(MODEL)
        for by in ({"binary": binary}, {"url": url, "token_file": token})
    ]
    assert plans[0] == plans[1]
    assert json.loads((tmp_path / "plan.json").read_text())["cluster"]["batch"] == 4 * 512
    with pytest.raises(ServiceError, match=r"101%"):
        planner(url, token_file=token, from_plan=old / "plan.json", max_bytes="101%").plan(MODEL)
