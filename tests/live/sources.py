# SPDX-License-Identifier: MIT
"""Sources of programs that nobody here wrote, fetched from Debian. Tests skip where that fails."""

import os
import shutil
import subprocess
import tempfile

CACHE = os.environ.get("CAIRN_SOURCES", os.path.join(tempfile.gettempdir(), f"cairn-sources-{os.getuid()}"))


def source_list():
    """Where this machine has its packages from, their sources can be had, too."""
    told = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages"],
                          check=True, timeout=60, capture_output=True, text=True)
    return "".join(f"deb-src {line}\n" for line in told.stdout.splitlines()[:1])


def unpacked(package):
    """The folder of a package's source in the cache, or None."""
    names = [name for name in (os.listdir(CACHE) if os.path.isdir(CACHE) else [])
             if name.startswith(package + "-") and os.path.isdir(os.path.join(CACHE, name))]
    return os.path.join(CACHE, names[0]) if names else None


def fetch(package):
    """The folder of a package's source; None if it cannot be had here."""
    if unpacked(package) or not shutil.which("apt-get") or not shutil.which("dpkg-source"):
        return unpacked(package)
    folder = tempfile.mkdtemp(prefix="cairn-apt-")
    try:
        os.makedirs(CACHE, exist_ok=True)
        for name in ("lists/partial", "cache/archives/partial"):
            os.makedirs(os.path.join(folder, name))
        with open(os.path.join(folder, "sources.list"), "w", encoding="ascii") as file:
            file.write(source_list())
        apt = ["apt-get", "-qq", "-o", f"Dir::Etc::sourcelist={folder}/sources.list",
               "-o", "Dir::Etc::sourceparts=-", "-o", f"Dir::State::lists={folder}/lists",
               "-o", f"Dir::Cache={folder}/cache", "-o", "APT::Sandbox::User=root"]
        for command in ("update", "source"):
            subprocess.run([*apt, command, *([package] if command == "source" else [])], cwd=CACHE,
                           check=True, timeout=60, stdin=subprocess.DEVNULL, capture_output=True)
    except (OSError, subprocess.SubprocessError):
        return None
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return unpacked(package)
