"""What kind of machine this is, so that a next step is a command to be typed as it is."""

from __future__ import annotations

import grp
import os
import shlex
from dataclasses import dataclass
from pathlib import Path

from kerncap import child

_BUS = Path("/sys/bus/pci/devices")
_DISPLAY, _ACCELERATOR = "0x03", "0x12"  # PCI classes. Source: PCI Code and ID Assignment Specification
_INSTALL = {
    "apt-get": "sudo apt-get install", "dnf": "sudo dnf install", "yum": "sudo yum install",
    "zypper": "sudo zypper install", "pacman": "sudo pacman -S", "apk": "sudo apk add",
}  # fmt: skip
# What the distributions call it; users of a manager that is not listed are shown what is missing.
_PACKAGES = {
    "compiler": {
        "apt-get": "g++", "dnf": "gcc-c++", "yum": "gcc-c++", "zypper": "gcc-c++", "pacman": "gcc",
        "apk": "g++",
    },
    "rocr": {"apt-get": "libhsa-runtime64-1", "dnf": "rocm-runtime", "pacman": "hsa-rocr"},
    "nvidia driver": {
        "apt-get": "nvidia-driver", "dnf": "akmod-nvidia xorg-x11-drv-nvidia-cuda", "pacman": "nvidia",
    },
}  # fmt: skip


@dataclass(frozen=True)
class Machine:
    """``manager``: the first of `_INSTALL` that is here; ``gpus``: PCI vendors that have one here."""

    manager: str | None
    container: str | None
    gpus: frozenset[str] | None  # None: the bus can't be looked at
    uv: bool

    @classmethod
    def here(cls) -> Machine:
        manager = next((name for name in _INSTALL if child.find(name)), None)
        return cls(manager, _container(), _gpus(), child.find("uv") is not None)

    def has(self, vendor: str) -> bool:
        """Whether there may be a GPU of this PCI vendor."""
        return self.gpus is None or vendor in self.gpus

    def install(self, what: str, otherwise: str) -> str:
        """The command that installs it (a key of `_PACKAGES`), or ``otherwise`` if nobody knows one."""
        name = _PACKAGES[what].get(self.manager or "")
        if name is None or self.manager is None:
            return otherwise
        command = _INSTALL[self.manager]
        return f"{command.removeprefix('sudo ') if os.geteuid() == 0 else command} {name}"

    def pip(self, python: str, has_pip: bool, *names: str) -> str:
        """The command that puts packages into the environment of ``python``."""
        words = " ".join(shlex.quote(name) for name in names)
        if has_pip or not self.uv:
            return f"{shlex.quote(python)} -m pip install {words}"
        return f"uv pip install --python {shlex.quote(python)} {words}"


def _container() -> str | None:
    """What kind of container this is, if it is one."""
    named = os.environ.get("container")  # noqa: SIM112 (podman and systemd-nspawn write it so)
    if named:
        return named
    for path, name in (("/.dockerenv", "docker"), ("/run/.containerenv", "podman")):
        if os.path.exists(path):
            return name
    return "kubernetes" if "KUBERNETES_SERVICE_HOST" in os.environ else None


def _gpus() -> frozenset[str] | None:
    """PCI vendor ids (``0x10de``) of display controllers and accelerators."""
    found = set()
    try:
        devices = list(_BUS.iterdir())
    except OSError:
        return None
    for device in devices:
        try:
            if (device / "class").read_text().startswith((_DISPLAY, _ACCELERATOR)):
                found.add((device / "vendor").read_text().strip())
        except OSError:
            continue
    return frozenset(found) if devices else None


def group_of(path: str) -> str | None:
    """The group that a device file belongs to: who is in it may open it."""
    try:
        return grp.getgrgid(os.stat(path).st_gid).gr_name
    except (OSError, KeyError):
        return None
