# SPDX-License-Identifier: MIT
"""The viewer with a large profile, in a real browser: the size of the page, its first frame, and frames while it zooms."""

import os
import subprocess
import sys
import time
from statistics import median

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "tests", "web"))
import browser  # noqa: E402

NODES = (1_000_000, 10_200_000)
BAR_BYTES = 20e6  # of a page of the first
BAR_FIRST = 1.0  # s
BAR_RATE = 30.0  # frames a second
BAR_OPEN = 3.0  # s, until the largest is seen

# Zooms to contexts all over the tree, as clicks do, and tells the times between frames (ms) and how many frames were drawn.
ZOOM = """(async () => {
    const {flame} = app.views.flame, {tree} = app.session, width = tree.layout(0).width, times = [];
    let seed = 1, frames = 0, last = await new Promise(requestAnimationFrame);
    for (let turn = 0; turn < 40; turn++) {
        let node = 0;
        do {
            seed = Math.imul(seed, 1664525) + 1013904223 >>> 0;
            node = seed % tree.count;
        } while (!(width[node] > 0));
        while (tree.parent[node] > 0 && width[node] < width[0] * 1e-4)
            node = tree.parent[node];
        flame.zoomTo(node, "moving");
        while (flame.moving) {
            const now = await new Promise(requestAnimationFrame);
            times.push(now - last);
            last = now;
            frames = Math.max(frames, flame.frames.length);
        }
    }
    times.sort((a, b) => a - b);
    return {median: times[times.length >> 1], slow: times[Math.floor(times.length * 0.95)], frames, count: times.length};
})()"""


def _page(place, nodes):
    """Contexts of calls, with the names and lines of cairn itself: the page, and the seconds to make it."""
    subprocess.run(["ninja", "-C", place.build, "tests/programs/odd_profiles"], stdout=subprocess.DEVNULL, check=True)
    profile, page = (os.path.join(place.work, f"view-{nodes}.{ending}") for ending in ("out", "html"))
    subprocess.run([os.path.join(place.build, "tests", "programs", "odd_profiles"), "calls", str(nodes), profile, place.cairn], check=True)
    start = time.monotonic()
    subprocess.run([place.cairn, "view", "--no-debuginfod", "-o", page, profile], check=True)
    seconds = time.monotonic() - start
    os.unlink(profile)
    return page, seconds


def measure(place, options, say):
    rows = []
    for nodes in NODES[:1] if options.quick else NODES:
        page, seconds = _page(place, nodes)
        runs = []
        with browser.Browser() as chromium:
            for _ in range(options.rounds):
                shown = chromium.open("file://" + page, motion="no-preference")
                runs.append({"first": shown.evaluate("window.cairn.then(({firstFrame}) => firstFrame)") / 1000,
                             "opened": shown.evaluate("window.cairn.then(({opened}) => opened)") / 1000, **shown.evaluate(ZOOM)})
                shown.close()
        rows.append({"nodes": nodes, "make": seconds, "bytes": os.path.getsize(page), "frames": max(run["frames"] for run in runs),
                     **{name: median([run[name] for run in runs]) for name in ("first", "opened", "median", "slow")}})
        os.unlink(page)
        say(f"  {nodes / 1e6:g} million nodes: {rows[-1]['bytes'] / 1e6:.1f} MB, first frame {rows[-1]['first']:.2f} s, "
            f"{rows[-1]['slow']:.1f} ms between frames")
    return {"rounds": options.rounds, "rows": rows}


def render(data):
    yield "## The viewer"
    yield ""
    yield ("A page with so many contexts (`odd_profiles calls`) in headless Chromium without a graphics card; medians over "
           f"{data['rounds']} runs. The first frame counts from when the page's program starts. Zooming goes to contexts all over the tree; "
           "'opened' counts from the navigation to the page, with the reading of the file. 'slow' is the 95th percentile. Pages show a million "
           "contexts; the smallest of larger profiles are summed up.")
    yield ""
    yield "| million nodes | making the page | its size | first frame | opened | between frames | slow | frames in a picture |"
    yield "|---:|---:|---:|---:|---:|---:|---:|---:|"
    for row in data["rows"]:
        yield (f"| {row['nodes'] / 1e6:g} | {row['make']:.1f} s | {row['bytes'] / 1e6:.1f} MB | {row['first']:.2f} s | {row['opened']:.2f} s | {row['median']:.1f} ms "
               f"| {row['slow']:.1f} ms | {row['frames']} |")


def bars(data):
    row = data["rows"][0]
    size = f"{row['nodes'] / 1e6:g} million nodes"
    yield (f"a page of {size} has {BAR_BYTES / 1e6:.0f} MB", row["bytes"] <= BAR_BYTES, f"{row['bytes'] / 1e6:.1f} MB")
    yield (f"the first frame of {size} takes {BAR_FIRST:.0f} s", row["first"] <= BAR_FIRST, f"{row['first']:.2f} s")
    last = data["rows"][-1]
    yield (f"a page of {last['nodes'] / 1e6:g} million nodes is open after {BAR_OPEN:.0f} s", last["opened"] <= BAR_OPEN, f"{last['opened']:.2f} s")
    yield (f"zooming in {size} shows {BAR_RATE:.0f} frames a second", row["slow"] <= 1000 / BAR_RATE, f"{1000 / row['slow']:.0f}")
