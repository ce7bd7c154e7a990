# SPDX-License-Identifier: MIT
"""What the numbers depend on."""

import os
import platform
import subprocess

from .workloads import find


def _first_line(argv):
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    text = (done.stdout or done.stderr).strip()
    return text.splitlines()[0] if text else ""


def _processor():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        lines = file.read().splitlines()
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    flags = next((line for line in lines if line.startswith("flags")), "")
    name = next((value.strip() for key, value in fields.items() if key.strip() == "model name"), "?")
    return name + (", virtual machine" if " hypervisor" in flags else "")


def _system():
    with open("/etc/os-release", encoding="utf-8") as file:
        fields = dict(line.strip().split("=", 1) for line in file if "=" in line)
    return fields.get("PRETTY_NAME", "?").strip('"')


def _setting(path):
    try:
        with open(path, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return "?"


def facts(place):
    gperftools = _first_line(["dpkg-query", "-W", "-f", "${Version}", "libgoogle-perftools4"])
    libunwind = _first_line(["dpkg-query", "-W", "-f", "${Version}", "libunwind8"])
    return {
        "processor": f"{os.cpu_count()} × {_processor()}",
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 1e9:.0f} GB",
        "system": f"{_system()}, Linux {platform.release()}, glibc {platform.libc_ver()[1]}",
        "perf_event_paranoid": _setting("/proc/sys/kernel/perf_event_paranoid") +
                               (", as root" if os.geteuid() == 0 else ""),
        "compiler": _first_line(["cc", "--version"]),
        "peers": ", ".join(filter(None, [_first_line([find("perf") or "perf", "version"]),
                                         gperftools and f"gperftools {gperftools}",
                                         libunwind and f"libunwind {libunwind}"])),
        "cairn": _first_line([place.cairn, "--version"]),
    }
