"""Which releases of TorchRec, PyTorch and FBGEMM the package is tested with, and which are here.

TorchRec's modules and plans are not a stable interface, and neither TorchRec nor its wheels say
which PyTorch and FBGEMM they need. So what is installed is compared with TOGETHER before
anything of TorchRec is imported. Other versions are a warning, because most releases change
nothing that is used here. What is an error is a name that TorchRec no longer has:
``missing_name`` says which.

A new release of TorchRec is a row of TOGETHER, one of pyproject.toml, a file
in constraints/, and a run of ``make torchrec-matrix``.
"""

from __future__ import annotations

import re
import warnings
from importlib import metadata, util

TOGETHER = {
    "1.5": {"PyTorch": "2.10", "FBGEMM": "1.5"},
    "1.6": {"PyTorch": "2.11", "FBGEMM": "1.6"},
    "1.7": {"PyTorch": "2.12", "FBGEMM": "1.7"},
    "1.8": {"PyTorch": "2.13", "FBGEMM": "1.8"},
    "1.9": {"PyTorch": "2.14", "FBGEMM": "1.9"},
}
"""The releases of TorchRec that are tested, oldest first, and the releases of PyTorch and FBGEMM
that belong to each."""

_TESTED = tuple(TOGETHER)

OLDEST, NEWEST = (tuple(map(int, _TESTED[end].split("."))) for end in (0, -1))
"""The first and the last release that is tested, major and minor."""

SUPPORTED = f"{_TESTED[0]} to {_TESTED[-1]}"
"""The range in words."""


class TorchRecVersionError(ImportError):
    """TorchRec or FBGEMM is not installed, or lacks a name that is used of it."""


class TorchRecVersionWarning(UserWarning):
    """A version of TorchRec, PyTorch or FBGEMM that the package is not tested with."""


def install(release: str) -> str:
    """Returns the command that installs a release of TorchRec with what belongs to it."""
    others = TOGETHER[release]
    return (
        f'pip install "torch=={others["PyTorch"]}.*" "fbgemm-gpu=={others["FBGEMM"]}.*" '
        f'"torchrec=={release}.*"'
    )


def _install_newest() -> str:
    return (
        f"install what belongs together: {install(_TESTED[-1])}"
        '; or, for the newest: pip install "neuroshard-planner[torchrec]"'
    )


def check(torchrec: str | None, pytorch: str | None = None, fbgemm: str | None = None) -> str:
    """Returns the release of TOGETHER that the version of TorchRec is of, or else the nearest
    one. Warns of versions that are not tested. Raises TorchRecVersionError if TorchRec is not
    installed, which None stands for; for the other two, None is a version that is not known."""
    if torchrec is None:
        raise TorchRecVersionError(f"TorchRec is not installed\n  hint: {_install_newest()}")
    release = release_of(torchrec)
    number = tuple(map(int, release.split("."))) if release else NEWEST
    if release not in TOGETHER:
        nearest = _TESTED[0 if number < OLDEST else -1]
        warnings.warn(
            f"TorchRec {torchrec} is not tested, only {SUPPORTED}: it is taken as {nearest}",
            TorchRecVersionWarning,
            stacklevel=2,
        )
        return nearest
    wrong = [
        f"{name} {version} does not belong to TorchRec {torchrec}, {TOGETHER[release][name]} does"
        for name, version in (("PyTorch", pytorch), ("FBGEMM", fbgemm))
        if version is not None and release_of(version) != TOGETHER[release][name]
    ]
    if wrong:
        message = f"{'; '.join(wrong)}; if anything fails: {install(release)}"
        warnings.warn(message, TorchRecVersionWarning, stacklevel=2)
    return release


def release_of(version: str) -> str:
    """Returns major and minor of a version, or "" if the text is not a version."""
    match = re.match(r"(\d+)\.(\d+)", version)
    return f"{match[1]}.{match[2]}" if match else ""


def installed_version(*names: str) -> str | None:
    """Returns the version of the first of these packages that is installed, without
    importing it, None if none is."""
    for name in names:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return None


def installed() -> str:
    """Returns the release of TOGETHER that is installed, or the one nearest to it, as check
    does. Imports nothing of TorchRec."""
    fbgemm = installed_version("fbgemm-gpu", "fbgemm-gpu-cpu", "fbgemm-gpu-nightly")
    torchrec = installed_version("torchrec", "torchrec-nightly")
    release = check(torchrec, installed_version("torch"), fbgemm)
    if fbgemm is None and util.find_spec("fbgemm_gpu") is None:
        raise TorchRecVersionError(f"FBGEMM is not installed\n  hint: {_install_newest()}")
    return release


def missing_name(error: ImportError) -> TorchRecVersionError:
    """Returns what to raise if PyTorch, or a module or a name of TorchRec, cannot be imported."""
    if error.name == "torch":
        message = f"PyTorch is not installed\n  hint: {_install_newest()}"
        return TorchRecVersionError(message, name=error.name)
    version = installed_version("torchrec", "torchrec-nightly")
    return TorchRecVersionError(
        f"TorchRec {version} lacks what neuroshard_torchrec uses: {error}\n"
        f"  hint: {SUPPORTED} are tested; {_install_newest()}",
        name=error.name,
        path=error.path,
    )
