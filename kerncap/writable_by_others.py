"""Whether another user may change a file or folder: what others can exchange is neither run nor believed."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from pathlib import Path


def may_change(info: os.stat_result) -> str | None:
    """Why others may change what has this status, or None: another owner, or permission to write.

    Root may anyhow. A group that has no member but the owner (as many systems make one for each user) is
    the owner.
    """
    if info.st_uid not in _us():
        return f"it belongs to {_user(info.st_uid)}"
    if info.st_mode & stat.S_IWOTH:
        return "anyone may write it"
    if info.st_mode & stat.S_IWGRP and not _is_private_group(info.st_gid, info.st_uid):
        return f"the group {_group(info.st_gid)} may write it"
    return None


def may_replace(path: Path | str) -> tuple[Path, str] | None:
    """The folder above ``path`` in which anyone may exchange what it holds, and why; None if nobody may.

    In a folder such as /tmp, where each may remove only what is their own, nobody can.
    """
    for folder in Path(os.path.realpath(path)).parents:
        info = os.stat(folder)
        if info.st_mode & stat.S_IWOTH and not info.st_mode & stat.S_ISVTX:
            return folder, "anyone may write it"
    return None


def shut_out(folder: Path) -> None:
    """Take from others the permission to write what lies in ``folder``, whatever the umask gave them."""
    for path, _, files in os.walk(folder):
        for each in (path, *(os.path.join(path, name) for name in files)):
            mode = os.lstat(each).st_mode
            if mode & (stat.S_IWGRP | stat.S_IWOTH) and not stat.S_ISLNK(mode):
                os.chmod(each, stat.S_IMODE(mode) & ~(stat.S_IWGRP | stat.S_IWOTH))


def _us() -> set[int]:
    """Root is, and for root the user who became it by sudo."""
    found = {0, os.geteuid()}
    before = os.environ.get("SUDO_UID", "")
    if os.geteuid() == 0 and before.isdecimal():
        found.add(int(before))
    return found


def _is_private_group(group: int, owner: int) -> bool:
    try:
        entry, user = grp.getgrgid(group), pwd.getpwuid(owner)
    except KeyError:
        return False
    return entry.gr_name == user.pw_name and set(entry.gr_mem) <= {user.pw_name}


def _user(number: int) -> str:
    try:
        return f"{pwd.getpwuid(number).pw_name} (uid {number})"
    except KeyError:
        return f"uid {number}"


def _group(number: int) -> str:
    try:
        return f"{grp.getgrgid(number).gr_name} (gid {number})"
    except KeyError:
        return f"gid {number}"
