# SPDX-License-Identifier: MIT
"""Sources of programs that nobody here wrote, fetched from Debian. Tests skip where that fails."""

import os
import subprocess
import tempfile

CACHE = os.environ.get("CAIRN_SOURCES", os.path.join(tempfile.gettempdir(), f"cairn-sources-{os.getuid()}"))
SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, os.pardir, "scripts", "fetch-source")


def fetch(package):
    """The folder of a package's source; None if it cannot be had here."""
    done = subprocess.run([SCRIPT, CACHE, package], check=False, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return os.path.join(CACHE, package) if done.returncode == 0 else None
