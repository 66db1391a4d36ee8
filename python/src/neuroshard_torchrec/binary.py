"""The Go program: found, run, and its errors brought back with their hints."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence

from .errors import BinaryError, Problem

VARIABLE = "NEUROSHARD_BINARY"
"""The environment variable that names the program where no argument does."""

NAME = "neuroshard"

_LINE = re.compile(r"neuroshard: (error|hint): (.*)")
_INSTALL = f"install it (go install ./cmd/{NAME}), or name it by binary= or ${VARIABLE}"


def find(binary: str | os.PathLike[str] | None = None) -> str:
    """Returns the path of the program: the argument's, else $NEUROSHARD_BINARY's,
    else the one on PATH. BinaryError where there is none that can be run; a name
    that was given and does not exist is not passed over."""
    for source, name in (("binary", binary), (f"${VARIABLE}", os.environ.get(VARIABLE))):
        if name:
            path = shutil.which(os.fspath(name))
            if path is None:
                message = f'{source}: there is no program "{os.fspath(name)}" that can be run'
                raise BinaryError([Problem(message, _INSTALL)])
            return path
    path = shutil.which(NAME)
    if path is None:
        raise BinaryError([Problem(f'the program "{NAME}" is not on PATH', _INSTALL)])
    return path


def run(binary: str, arguments: Sequence[str], timeout: float) -> str:
    """Runs the program and returns its standard output.

    BinaryError where it fails, with each of its errors and hints, and where it takes
    longer than the timeout, in seconds; it is then killed.
    """
    try:
        done = subprocess.run(
            [binary, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired as e:
        message = f"neuroshard {arguments[0]} took longer than {timeout:g} s and was ended"
        hint = 'pass a longer timeout, or arguments=["--budget", "60s"] to have it search less'
        raise BinaryError([Problem(message, hint)]) from e
    except OSError as e:
        raise BinaryError([Problem(f'"{binary}" cannot be run: {e}', _INSTALL)]) from e
    if done.returncode != 0:
        stderr = done.stderr.decode(errors="replace")
        raise BinaryError(
            problems(stderr)
            or [Problem(f"neuroshard {arguments[0]} ended with code {done.returncode} and no word")]
        )
    return done.stdout.decode(errors="replace")


def problems(stderr: str) -> list[Problem]:
    """Returns the errors that the program told, each with the hint that follows it."""
    found: list[Problem] = []
    for line in stderr.splitlines():
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
