"""Puts the Go program into the wheel, as a script: ``neuroshard`` is then on PATH where the
package is installed.

The program is built with Go from the checkout that this folder is in. $NEUROSHARD_PROGRAM names a
program that is built already, or is "none" for a wheel without one. $NEUROSHARD_PLATFORM is the
platform tag of the wheel; the default is this machine's. A release sets both (.ci/release).
Nothing is downloaded but what Go itself needs for a build.
"""

import os
import re
import shutil
import subprocess
from distutils.command.build_scripts import build_scripts  # setuptools' own
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.errors import ExecError

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = os.environ.get("NEUROSHARD_PROGRAM", "")
WINDOWS = PROGRAM.endswith(".exe") or os.name == "nt"
NAME = "neuroshard.exe" if WINDOWS else "neuroshard"
OTHERWISE = (
    "Or set NEUROSHARD_PROGRAM to the path of the program, if you have it, or to 'none' for the"
    " Python package alone."
)


class Program(build_scripts):
    """Builds the program with Go, or takes the one that is named."""

    def get_source_files(self) -> list[str]:
        return []  # a source archive has no program

    def run(self) -> None:
        folder = Path(self.build_dir)
        folder.mkdir(parents=True, exist_ok=True)
        to = folder / NAME
        if PROGRAM:
            shutil.copyfile(PROGRAM, to)
        else:
            build(to.resolve())
        to.chmod(0o755)


def build(to: Path) -> None:
    """Builds the program as a release does, but with the version of the checkout."""
    if not (ROOT / "go.mod").exists() or not (ROOT / "cmd" / "neuroshard").is_dir():
        raise ExecError(
            "there are no sources of the Go program beside this package. Install a wheel, which"
            " holds the program, or install from a checkout: pip install ./python. " + OTHERWISE
        )
    go = shutil.which("go")
    if go is None:
        raise ExecError(
            "the program neuroshard is built with Go, and no go is on PATH. Install Go"
            " (https://go.dev/doc/install) and try again. " + OTHERWISE
        )
    command = [go, "build", "-trimpath", "-ldflags=-s -w", "-o", str(to), "./cmd/neuroshard"]
    environment = {**os.environ, "CGO_ENABLED": "0", "GOOS": "", "GOARCH": ""}  # this machine's
    if subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode:
        raise ExecError("go could not build the program, as it says above. " + OTHERWISE)


class Wheel(bdist_wheel):
    """A wheel for any Python 3, and for the platform of the program."""

    def get_tag(self) -> tuple[str, str, str]:
        platform = os.environ.get("NEUROSHARD_PLATFORM") or re.sub(r"\W", "_", self.plat_name)
        return "py3", "none", platform


if PROGRAM == "none":
    setup()
else:
    setup(scripts=[NAME], cmdclass={"build_scripts": Program, "bdist_wheel": Wheel})
