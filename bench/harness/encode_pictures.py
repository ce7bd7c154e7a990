# SPDX-License-Identifier: MIT
"""Figures 9 and 10 of the DACCE paper, as pictures."""

import math
import os
import re

FOLDER = "pictures"


def _svg(width, height, body):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" '
            f'font-size="11"><rect width="100%" height="100%" fill="white"/>{body}</svg>\n')


def _line(points, colour):
    return (f'<polyline fill="none" stroke="{colour}" stroke-width="1.5" points="'
            + " ".join(f"{x:.1f},{y:.1f}" for x, y in points) + '"/>')


def _plot(title, lines, x_label, log_x=False):
    """Lines of (name, colour, [(x, y)]), each scaled to its own largest y; steps, not slopes."""
    width, height, left, bottom = 360, 230, 40, 200
    most = max((x for _, _, points in lines for x, _ in points), default=1) or 1
    scale = (lambda x: math.log2(x + 1) / math.log2(most + 1)) if log_x else (lambda x: x / most)
    body = f'<text x="{left}" y="16" font-size="13">{title}</text>'
    body += f'<line x1="{left}" y1="{bottom}" x2="345" y2="{bottom}" stroke="#888"/><line x1="{left}" y1="30" x2="{left}" y2="{bottom}" stroke="#888"/>'
    body += f'<text x="{left}" y="222">0</text><text x="345" y="222" text-anchor="end">{most:,.0f} {x_label}</text>'
    for number, (name, colour, points) in enumerate(lines):
        top = max((y for _, y in points), default=1) or 1
        path, before = [], None
        for x, y in points:
            at = left + scale(x) * 305
            if before is not None:
                path.append((at, before))
            before = bottom - y / top * 160
            path.append((at, before))
        if path:
            path.append((345, path[-1][1]))
        body += _line(path, colour)
        body += f'<text x="{left + 6}" y="{34 + 13 * number}" fill="{colour}">{name}</text>'
    return _svg(width, height, body)


def _progress_picture(name, progress):
    lines = []
    for key, colour in (("nodes", "#1b6ca8"), ("edges", "#c0392b"), ("max_id", "#27824a")):
        points = [(step["samples"], int(step[key])) for step in progress]
        last = f"{points[-1][1]:,}" if points[-1][1] < 10 ** 9 else f"{points[-1][1]:.1e}"
        lines.append((f"{key.replace('_', ' ')} (to {last})", colour, points))
    return _plot(f"{name}: progress of the encoding", lines, "samples")


def _cumulative(counts):
    total, sum_, points = sum(counts) or 1, 0, []
    for number, count in enumerate(counts):
        sum_ += count
        points.append((0 if number == 0 else 2 ** number - 1, 100 * sum_ / total))
        if sum_ == total:
            break
    return points


def _depth_picture(name, numbers):
    lines = [("stack, % of samples not deeper", "#1b6ca8", _cumulative(numbers["stack_depths"])),
             ("ccStack", "#c0392b", _cumulative(numbers["ccstack_depths"]))]
    return _plot(f"{name}: depth", lines, "(powers of two)", log_x=True)


def _file(kind, name):
    return f"encode-{kind}-{re.sub(r'[^a-z0-9]+', '-', name.lower()).strip('-')}.svg"


def _pictures(name, numbers):
    """(kind, picture) of what is known."""
    if numbers.get("progress"):
        yield "progress", _progress_picture(name, numbers["progress"])
    if sum(numbers.get("stack_depths", [])):
        yield "depth", _depth_picture(name, numbers)


def draw(folder, name, numbers):
    os.makedirs(folder, exist_ok=True)
    for kind, picture in _pictures(name, numbers):
        with open(os.path.join(folder, _file(kind, name)), "w", encoding="utf-8") as file:
            file.write(picture)


def links(name, numbers):
    for kind, _ in _pictures(name, numbers):
        yield f"![{kind} of {name}]({FOLDER}/{_file(kind, name)})"
