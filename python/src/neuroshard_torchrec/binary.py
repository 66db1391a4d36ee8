"""The Go program: found, run, and its errors brought back with their hints."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .errors import BinaryError, Problem, escaped, quote
from .versions import release_of

VERSION = "0.1.0"
"""The version of this package. The program must be of the same release: major and minor."""

VARIABLE = "NEUROSHARD_BINARY"
"""The environment variable that names the program where no argument does."""

NAME = "neuroshard"

MAX_PRINTED = 8 << 10
"""Bytes of standard error that an error shows."""

NOTHING_FITS = 1
"""The exit code of ``neuroshard plan`` and ``neuroshard replan`` if no plan fits."""

EXPORT_S = 300.0
"""The most seconds that an export may take."""

Json = dict[str, Any]

_LINE = re.compile(r"neuroshard: (error|hint): (?:(?:standard input|-)(?::\d+)?: )?(.*)")
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


def run(binary: str, arguments: Sequence[str], timeout: float, stdin: bytes = b"") -> str:
    """Runs the program and returns its standard output. The first argument is the command. The
    error of code NOTHING_FITS says that nothing fits.

    BinaryError where it fails, with each of its errors and hints, of the first 8 KiB; and
    where it takes longer than the timeout, in seconds: then it is killed.
    """
    try:
        done = subprocess.run(
            [binary, *arguments], input=stdin, capture_output=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired as e:
        message = f"neuroshard {arguments[0]} took longer than {timeout:g} s and was ended"
        hint = f'pass a longer timeout, or arguments=["--budget", "{timeout / 2:g}s"] to have it '
        raise BinaryError([Problem(message, hint + "search less")]) from e
    except OSError as e:
        raise BinaryError([Problem(f"{quote(binary, 200)} cannot be run: {e}", _INSTALL)]) from e
    if done.returncode:
        text = done.stderr[:MAX_PRINTED].decode(errors="replace")
        message = f"neuroshard {arguments[0]} ended with code {done.returncode} and no word"
        nothing_fits = done.returncode == NOTHING_FITS
        # A program of another release may not know the arguments.
        other = [] if nothing_fits else _other_release(binary)
        error = BinaryError([*other, *(problems(text) or [Problem(message)])])
        error.exit_code = done.returncode
        error.nothing_fits = nothing_fits
        raise error
    return done.stdout.decode(errors="replace")


def export(plan: bytes, binary: str | os.PathLike[str] | None = None) -> Json:
    """Returns what the program exports of a plan file for TorchRec. Tables that state no module
    are in the module ""."""
    arguments = ["convert", "-", "--to", "torchrec", "--set", "module="]
    return dict(json.loads(run(find(binary), arguments, EXPORT_S, plan)))


def _other_release(binary: str) -> list[Problem]:
    """Returns a problem if the program is of another release than the package. A build of a
    checkout, such as 0.1.0-dev, is of the release 0.1."""
    try:
        told = subprocess.run([binary, "version"], capture_output=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    match = _VERSION.match(told.stdout.decode(errors="replace"))
    if match is None or release_of(match[1]) in ("", release_of(VERSION)):
        return []
    message = f"{quote(binary, 200)} is {NAME} {match[1]}, and the Python package is of {VERSION}"
    hint = "install both in one version: the package brings its program along; or " + _NAME_IT
    return [Problem(message, hint)]


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
