"""The Go program: found, run, and its errors brought back with their hints."""

from __future__ import annotations

import os
import re
import selectors
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Sequence
from pathlib import Path

from .errors import BinaryError, Problem, escaped, quote
from .versions import release_of

VERSION = "0.1.0"
"""The version of this package. The program must be of the same release: major and minor."""

VARIABLE = "NEUROSHARD_BINARY"
"""The environment variable that names the program where no argument does."""

NAME = "neuroshard"

MAX_OUTPUT = 16 << 20
"""Bytes of standard output, and of standard error, above which the program is ended."""

MAX_PRINTED = 8 << 10
"""Bytes of standard error that an error shows."""

NOTHING_FITS = 1
"""The exit code of ``neuroshard plan`` and ``neuroshard replan`` if no plan fits."""

_LINE = re.compile(r"neuroshard: (error|hint): (.*)")
_VERSION = re.compile(rf"{NAME} (\S+)")
_NAME_IT = f"name it by binary= or ${VARIABLE}"
_INSTALL = f"install it (pip install ./python, or go install ./cmd/{NAME}), or {_NAME_IT}"


def find(binary: str | os.PathLike[str] | None = None) -> str:
    """Returns the path of the program: the argument's, else $NEUROSHARD_BINARY's,
    else the one that was installed with this package, else the one on PATH.
    BinaryError if none of these can be run; a name that was given and does not
    exist is not passed over."""
    for source, name in (("binary", binary), (f"${VARIABLE}", os.environ.get(VARIABLE))):
        if name:
            named = os.fsdecode(name)
            path = shutil.which(named)
            if path is None:
                message = f"{source}: there is no program {quote(named, 200)} that can be run"
                raise BinaryError([Problem(message, _INSTALL)])
            return path
    path = shutil.which(NAME, path=os.pathsep.join(_scripts())) or shutil.which(NAME)
    if path is None:
        message = f'the program "{NAME}" is not beside {quote(sys.executable, 200)} and not on PATH'
        raise BinaryError([Problem(message, _INSTALL)])
    return path


def _scripts() -> list[str]:
    """Returns the folders in which pip puts the program of the package: that of this
    interpreter, of ``pip install --user``, and of ``pip install --target``."""
    user = sysconfig.get_path("scripts", sysconfig.get_preferred_scheme("user"))
    return [sysconfig.get_path("scripts"), user, str(Path(__file__).parent.parent / "bin")]


def check_version(binary: str, version: str) -> None:
    """BinaryError if the program, which states this version of itself, is of another release
    than the package. A build of a checkout, such as 0.1.0-dev, is of the release 0.1."""
    if wrong := _other_release(binary, version):
        raise BinaryError([wrong])


def _other_release(binary: str, version: str) -> Problem | None:
    if release_of(version) in ("", release_of(VERSION)):
        return None
    message = f"{quote(binary, 200)} is {NAME} {version}, and the Python package is of {VERSION}"
    hint = "install both in one version: the package brings its program along; or " + _NAME_IT
    return Problem(message, hint)


def run(binary: str, arguments: Sequence[str], timeout: float) -> str:
    """Runs the program and returns its standard output. The first argument is the command. The
    error of code NOTHING_FITS says that nothing fits.

    BinaryError where it fails, with each of its errors and hints, of the first 8 KiB;
    where it takes longer than the timeout, in seconds; and where it prints more than
    16 MiB. In the last two cases it is killed.
    """
    try:
        with subprocess.Popen(
            [binary, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            try:
                stdout, stderr = _outputs(process, time.monotonic() + timeout)
            except BaseException:
                process.kill()
                raise
    except subprocess.TimeoutExpired as e:
        message = f"neuroshard {arguments[0]} took longer than {timeout:g} s and was ended"
        raise BinaryError([Problem(message, _longer(timeout))]) from e
    except OSError as e:
        raise BinaryError([Problem(f"{quote(binary, 200)} cannot be run: {e}", _INSTALL)]) from e
    if process.returncode:
        text = stderr[:MAX_PRINTED].decode(errors="replace")
        if len(stderr) > MAX_PRINTED:
            text += f"\nand {len(stderr) - MAX_PRINTED} more bytes"
        message = f"neuroshard {arguments[0]} ended with code {process.returncode} and no word"
        nothing_fits = process.returncode == NOTHING_FITS
        # A program of another release may not know the arguments. It is asked for its version
        # only here: it states the version in each plan.
        other = None if nothing_fits else _other_release(binary, _version(binary))
        error = BinaryError([*filter(None, [other]), *(problems(text) or [Problem(message)])])
        error.exit_code = process.returncode
        error.nothing_fits = nothing_fits
        raise error
    return stdout.decode(errors="replace")


def without(error: BinaryError, file: str) -> BinaryError:
    """Returns an error of the program without the path of a file that is gone when the error is
    read."""
    place = re.compile(re.escape(file) + r"(:\d+)?(: )?")
    made = BinaryError([Problem(place.sub("", p.message), p.hint) for p in error.problems])
    made.exit_code, made.nothing_fits = error.exit_code, error.nothing_fits
    return made


def _version(binary: str) -> str:
    """Returns the version that the program states, "" if it states none."""
    try:
        told = subprocess.run([binary, "version"], capture_output=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    match = _VERSION.match(told.stdout[:MAX_PRINTED].decode(errors="replace"))
    return match[1] if match else ""


def _outputs(process: subprocess.Popen[bytes], deadline: float) -> tuple[bytes, bytes]:
    """Returns what a process prints until its end, and waits for that. BinaryError
    above MAX_OUTPUT, TimeoutExpired after the deadline; it is not killed."""
    assert process.stdout is not None and process.stderr is not None
    kept = {process.stdout.fileno(): bytearray(), process.stderr.fileno(): bytearray()}
    with selectors.DefaultSelector() as selector:
        for pipe in kept:
            selector.register(pipe, selectors.EVENT_READ)
        while selector.get_map():
            left = deadline - time.monotonic()
            if left <= 0:
                raise subprocess.TimeoutExpired(process.args, 0)
            ready = selector.select(min(left, 1))
            if not ready and process.poll() is not None:
                break  # only children that it left hold the pipes
            for key, _ in ready:
                chunk = os.read(key.fd, 1 << 16)
                if not chunk:
                    selector.unregister(key.fd)
                kept[key.fd] += chunk
                if len(kept[key.fd]) > MAX_OUTPUT:
                    message = f"the program printed more than {MAX_OUTPUT >> 20} MiB and was ended"
                    raise BinaryError([Problem(message, "is it the program neuroshard?")])
    process.wait(max(0, deadline - time.monotonic()))
    stdout, stderr = kept.values()
    return bytes(stdout), bytes(stderr)


def _longer(timeout: float) -> str:
    """Returns the hint where the timeout, in seconds, was too short."""
    budget = f"{int(timeout * 500) / 1000:.3f}".rstrip("0").rstrip(".")
    if budget == "0":
        return "pass a longer timeout"
    return f'pass a longer timeout, or arguments=["--budget", "{budget}s"] to have it search less'


def problems(stderr: str) -> list[Problem]:
    """Returns the errors that the program printed, each with the hint that follows it;
    what does not print is escaped."""
    found: list[Problem] = []
    for line in map(escaped, stderr.splitlines()):
        match = _LINE.fullmatch(line)
        if match is None:
            if line.strip() and not found:
                found.append(Problem(line.strip()))
            elif line.strip():
                found[-1] = Problem(f"{found[-1].message}\n{line}", found[-1].hint)
        elif match[1] == "error" or not found:
            found.append(Problem(match[2]))
        else:
            hint = f"{found[-1].hint}; {match[2]}" if found[-1].hint else match[2]
            found[-1] = Problem(found[-1].message, hint)
    return found
