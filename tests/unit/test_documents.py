#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Documents say what the code does: numbers, names of files, lists, and the drawing of the includes."""

import fnmatch
import pathlib
import re
import subprocess
import sys
import unittest

TOP = pathlib.Path(__file__).resolve().parents[2]
SOURCE = TOP / "src"
DOCUMENTS = [TOP / "README.md", TOP / "CONTRIBUTING.md", *sorted((TOP / "docs").glob("*.md"))]


def read(path):
    return (TOP / path).read_text(encoding="utf-8")


def code_number(path, pattern):
    """The number that the code has, by a pattern with one group: an expression of whole numbers."""
    found = re.search(pattern, read(path))
    if not found:
        raise AssertionError(f"{path}: nothing like {pattern}: name the new place here")
    text = re.sub(r"UINT64_C\((\w+)\)", r"\1", found.group(1)).replace("NS_PER_S", "1000000000")
    try:
        return eval(re.sub(r"(?<=\d)[uUlL]+\b", "", text), {"__builtins__": {}})
    except SyntaxError:
        raise AssertionError(f"{path}: {text} is no number") from None


def plain(number):
    return str(number)


def grouped(number):
    return f"{number:,}"


def kibi(number):
    return str(number >> 10)


def mebi(number):
    return str(number >> 20)


def minus_one(number):
    return str(number - 1)


RULES = "src/live/option_rules.h"
DEFAULT_RATE = (RULES, r"RULE_RATE = (\d+)")
MOST_RATE = (RULES, r"RULE_MOST_RATE = (\d+)")
DEFAULT_MEMORY = (RULES, r"#define RULE_MEMORY \(([^\n]+)\)")
DEFAULT_DEPTH = (RULES, r"RULE_DEPTH = (\d+)")
DEFAULT_BUFFER = (RULES, r"RULE_BUFFER = ([^,]+),")
PHIS = (RULES, r"RULE_PHIS = (\d+)")
MINOR = ("src/profile/chunks/chunk.h", r"FORMAT_MINOR = (\d+)")
ARMS = ("src/patch/stubs/site.h", r"#define STUB_ARMS (\d+)")
DEPTH = ("src/analyze/decoding.c", r"MOST_FRAMES = ([^,]+),")
UNPACK_FREE = ("src/profile/chunks/chunk.h", r"UNPACK_FREE = ([^,]+),")
SWITCHES = ("src/event/switches.h", r"SWITCHES_MOST = (\d+)")
LAPS = ("src/track/calls/bursts/burst_pace.h", r"#define PACE_LAPS (\d+)")
CREATIONS = ("src/agent/slice.c", r"keeps_all \? (\d+) : \d+")
FEW_CREATIONS = ("src/agent/slice.c", r"keeps_all \? \d+ : (\d+)")
STACK = ("src/track/encode/threads/threads.c", r"#define SMALLEST_STACK ([^\n]+)")

# What the code has, the document that says so, where, and how the number is written there.
NUMBERS = [
    (MINOR, "docs/format.md", r"\| 10 \| 2 \| minor \| (\d+)\.", plain),
    (("src/profile/chunks/chunk.h", r"FORMAT_MAJOR = (\d+)"), "docs/format.md", r"\| 8 \| 2 \| major \| (\d+)\.", plain),
    (("src/profile/chunks/chunk.h", r"CHUNK_MOST_RAW = ([^,]+),"), "docs/format.md", r"at most (\d+) MiB; equal",
     mebi),
    (UNPACK_FREE, "docs/format.md", r"unpacks to more than (\d+) MiB and", mebi),
    (("src/profile/chunks/chunk.h", r"UNPACK_RATIO = (\d+)"), "docs/format.md", r"MiB and (\d+) times its size, or", plain),
    (("src/profile/chunks/chunk.h", r"UNPACK_RATIO_WRITTEN = (\d+)"), "docs/format.md",
     r"unpack to more than (\d+) times", plain),
    (("src/profile/recorder/recorder.c", r"MOST_APART = (\d+)"), "docs/format.md",
     r"Up to ([\d,]+) ended processes", grouped),
    (("src/profile/recorder/recorder.c", r"FOLD_AFTER = (\d+)"), "docs/format.md",
     r"after ([\d,]+) processes have ended", grouped),
    (("src/profile/recorder/recorder.c", r"MANY_NODES = (\d+)"), "docs/format.md",
     r"more than ([\d,]+) nodes", grouped),
    (DEFAULT_RATE, "src/cmd/record/options/record_options.c", r"1 to 10000 \(default (\d+)\)", plain),
    (DEFAULT_RATE, "docs/man/cairn-record.1", r"1 to 10000, (\d+) unless given", plain),
    (MOST_RATE, "docs/man/cairn-record.1", r"1 to (\d+), \d+ unless given", plain),
    (MOST_RATE, "src/cmd/record/options/record_options.c", r"1 to (\d+) \(default \d+\)", plain),
    (MOST_RATE, "src/agent/api/options.c", r"samples a second, from 1 to (\d+)", plain),
    (ARMS, "docs/encode.md", r"A chain holds (\d+) targets", plain),
    (ARMS, "docs/patching.md", r"each of (\d+) known targets", plain),
    (DEPTH, "docs/encode.md", r"[Bb]eyond ([\d,]+) frames", grouped),
    (DEPTH, "docs/limits.md", r"deeper than ([\d,]+) frames", grouped),
    (("src/encode/state.h", r"#define ID_NUMBER_BITS (\d+)"), "docs/encode.md", r"Ids have (\d+) bits", plain),
    (("src/track/encode/sites/libraries.c", r"#define LIBRARIES_MOST (\d+)"), "docs/encode.md",
     r"beyond ([\d,]+) libraries", grouped),
    (STACK, "docs/encode.md", r"stacks below (\d+) KB", kibi),
    (STACK, "docs/limits.md", r"stacks below (\d+) KB", kibi),
    (CREATIONS, "docs/threads.md", r"keeps (\d+) such calls", plain),
    (FEW_CREATIONS, "docs/threads.md", r"such calls, (\d+) with", plain),
    (CREATIONS, "docs/limits.md", r"notes (\d+) calls that create", plain),
    (FEW_CREATIONS, "docs/limits.md", r"create threads, (\d+) with", plain),
    (("src/track/context_id/thread_creation.h", r"CREATION_LEVELS = (\d+)"), "docs/threads.md", r"Up to\s+(\d+)\s+threads", plain),
    (LAPS, "docs/bursts.md", r"one of the next (\d+) laps", plain),
    (LAPS, "docs/bursts.md", r"one of the (\d+) laps before", plain),
    (LAPS, "docs/bursts.md", r"than make (\d+) laps", plain),
    (("src/event/cpu_guess.h", r"#define CPU_GUESSES (\d+)"), "docs/sampling.md", r"Every (\d+)nd tick",
     lambda guesses: str(guesses + 1)),
    (("src/agent/sampling/watch.h", r"#define WATCH_MESSAGES (\d+)"), "docs/api.md", r"At most (\d+) (?:of them )?wait", plain),
    (("src/agent/thread/phase.c", r"#define NAME_BYTES (\d+)"), "docs/format.md", r"its name, up to (\d+) bytes", minus_one),
    (("src/base/system/thread_name.h", r"THREAD_NAME_BYTES (\d+)"), "docs/format.md", r"\| name \| text \| up to (\d+) bytes", minus_one),
    (("src/cmd/record/session.h", r"SESSION_GROUP_PART (\d+)"), "docs/limits.md", r"at most 1/(\d+) of its memory", plain),
    (("src/profile/loader.h", r"MEMORY_FREE = ([^,]+),"), "docs/format.md", r"more than (\d+) MiB and \d+ times its size in", mebi),
    (("src/symbol/dwarf/cache_folder.c", r"LARGEST_FOLDER = ([^,]+),"), "docs/security.md", r"at most (\d+) MB", mebi),
    (("src/symbol/dwarf/cache_folder.c", r"LARGEST_FOLDER = ([^,]+),"), "docs/man/cairn-report.1", r"at most (\d+) MB and", mebi),
    (("src/symbol/dwarf/line_cache.c", r"WORTH_BYTES = ([^,]+),"), "docs/man/cairn-report.1", r"at least (\d+) MB", mebi),
    (CREATIONS, "docs/man/cairn-report.1", r"more than (\d+) creating", plain),
    (FEW_CREATIONS, "docs/man/cairn-report.1", r"Pq (\d+) in hot and bounded", plain),
    (("src/profile/recorder/recorder.c", r"MOST_PENDING = ([^,]+),"), "docs/man/cairn-record.1", r"up to (\d+) MB that", mebi),
    (("src/profile/profile.h", r"PROFILE_MOST_METRICS (\d+)"), "docs/man/cairn-merge.1", r"At most (\d+) fit", plain),
    (("src/track/walk/prefault.c", r"#define LARGE ([^/\n]+)"), "docs/hooks.md", r"From (\d+) MB on", mebi),
    (("src/agent/sampling/watch.h", r"#define WATCHES (\d+)"), "include/cairn.h", r"At most (?:\* )?(\d+) at a time", plain),
    (("src/agent/sampling/watch.h", r"#define WATCH_MESSAGES (\d+)"), "include/cairn.h", r"and (\d+) items that wait", plain),
    (("src/agent/thread/phase.c", r"#define MOST_PHASES (\d+)"), "include/cairn.h", r"There can be (\d+) names", minus_one),
    (DEFAULT_MEMORY, "docs/man/cairn-record.1", r"1M to 16G; (\d+)M unless given", mebi),
    (DEFAULT_BUFFER, "docs/man/cairn-record.1", r"the buffer of each thread, (\d+)M unless given", mebi),
    (DEFAULT_DEPTH, "docs/man/cairn-record.1", r"frames of each sample, (\d+) unless given", plain),
]

# A file or folder that a document names: by its path from the top, from src/, or by the end of that.
PATH = re.compile(r"`((?:[\w.-]+/)*[\w.*-]+\.(?:c|h|S|py|ld|build|1|3)|(?:[\w.-]+/)+[\w.*-]*)`")
PLACEHOLDER = re.compile(r"NAME|ARCH|PID|^(?:build|cairn\.3)")


def squeezed(path):
    """A document without its line breaks: numbers stand in sentences, which may be wrapped anywhere."""
    return re.sub(r"\s+", " ", read(path))


def prose(path):
    """The lines of a document that are neither code nor a table."""
    text = re.sub(r"^( *)```.*?^ *```", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    return [line for line in text.splitlines() if not line.startswith("|")]


class Numbers(unittest.TestCase):
    def test_documents_have_the_numbers_of_the_code(self):
        for (source, pattern), document, place, write in NUMBERS:
            with self.subTest(document=document, place=place):
                found = re.search(place, squeezed(document))
                self.assertIsNotNone(found, f"{document} has nothing like: {place}")
                self.assertEqual(found.group(1), write(code_number(source, pattern)), f"{document}: {place}")

    def test_the_default_share_of_hot_trees(self):
        phi = 1 / code_number(*PHIS)
        for document, place in [("docs/trees.md", r"share PHI of the total \(([\w.-]+)\)"),
                                ("docs/man/cairn-record.1", r"is ([\d.]+e-\d+) unless given"),
                                ("src/cmd/record/options/record_options.c", r"share PHI of the total \(([\w.-]+)\)")]:
            self.assertEqual(float(re.search(place, squeezed(document)).group(1)), phi, document)

    def test_the_test_can_fail(self):
        with self.assertRaises(AssertionError):
            code_number("src/profile/chunks/chunk.h", r"FORMAT_SMALL = (\d+)")
        self.assertEqual(code_number("src/profile/chunks/chunk.h", r"CHUNK_MOST_RAW = ([^,]+),"), 64 << 20)


class Lists(unittest.TestCase):
    def test_verdicts(self):
        names = re.search(r"names\[VERDICT_COUNT\] = \{(.*?)\}", read("src/base/verdict.h"), re.S).group(1)
        told = re.search(r"## How a walk ends\n(.*?)\n## ", read("docs/unwinding.md"), re.S).group(1)
        self.assertEqual(re.findall(r'"([\w-]+)"', names), re.findall(r"^\| `([\w-]+)` \|", told, re.M))

    def test_events(self):
        names = re.findall(r'\.name = "(\w+)"', read("src/event/event.h"))
        told = read("docs/events.md").split("## One event")[0]
        self.assertGreater(len(names), 3)
        self.assertLessEqual(set(names), set(re.findall(r"`(\w+)[^`]*`", told)))

    def test_chunks(self):
        kinds = re.search(r"CHUNK_FILLER,(.*?)CHUNK_TYPES", read("src/profile/chunks/chunk.h"), re.S).group(1)
        told = re.findall(r"^### (\d+): (\w+)$", read("docs/format.md"), re.M)
        self.assertEqual(told, [(str(number), name.lower()) for number, name in
                                enumerate(re.findall(r"CHUNK_(\w+),", kinds), 1)])

    def test_rooms(self):
        rooms = {path.name for path in SOURCE.iterdir() if path.is_dir()}
        told = re.search(r"## The rooms\n(.*?)\n<!--", read("docs/architecture.md"), re.S).group(1)
        self.assertEqual(set(re.findall(r"^\| `(\w+)` \|", told, re.M)), rooms)

    def test_glossary_is_in_order(self):
        words = [re.sub(r"[^a-z]", "", word.split(" (")[0].lower())
                 for word in re.findall(r"^\| (.*?) \|", read("docs/glossary.md"), re.M)[1:]]
        words = [word for word in words if word]
        self.assertEqual(words, sorted(set(words)))


class Places(unittest.TestCase):
    def test_files_that_are_named_exist(self):
        files = ["/" + str(path.relative_to(TOP)) for top in ("src", "include", "tests", "bench", "docs", "scripts",
                                                              "examples") for path in (TOP / top).rglob("*")]
        found = 0
        for path in DOCUMENTS:
            for name in PATH.findall(path.read_text(encoding="utf-8")):
                if PLACEHOLDER.search(name):
                    continue
                found += 1
                self.assertTrue(fnmatch.filter(files, "*/" + name.rstrip("/")) or (TOP / name).exists(),
                                f"{path.relative_to(TOP)}: there is no {name}")
        self.assertGreater(found, 80)

    def test_the_drawing_of_the_includes_is_up_to_date(self):
        run = subprocess.run([TOP / "scripts" / "draw-includes", "--check"], capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)

    def test_no_file_has_marks_of_a_merge(self):
        found = 0
        for path in TOP.rglob("*"):
            if path.relative_to(TOP).parts[0].startswith((".git", "build")) or not path.is_file() or path.suffix in BINARY:
                continue
            found += 1
            self.assertIsNone(MARK.search(path.read_bytes()), str(path.relative_to(TOP)))
        self.assertGreater(found, 1000)
        for mark in (b"<<<<<<< HEAD\n", b"=======\n", b"||||||| base\n", b">>>>>>> other\n"):
            self.assertTrue(MARK.search(b"text\n" + mark), mark)


# What a merge leaves where it does not know.
MARK = re.compile(rb"^(?:<{7} |\|{7} |={7}$|>{7} )", re.M)
BINARY = {".pyc", ".cairn", ".gz", ".png"}

# A sentence has a subject that acts: none of these, and no infinitive (one that says what for ends with a comma).
NO_SUBJECT = re.compile(r"^(?:(?:Who|Whoever|Whom|Whomever|Whose|What|Whatever)\b|To (?!be\b)[a-z]+ [^,:;]*$)")


def sentences(text):
    """Of a paragraph: each without what begins an item of a list, and without questions."""
    for sentence in re.split(r"(?<=[.:!?])\s+", re.sub(r"\s+", " ", text)):
        sentence = sentence.lstrip("-*> (")
        if sentence and not sentence.endswith("?"):
            yield sentence


def paragraphs(lines):
    """Of lines of which None ends a paragraph, as an empty one does: (number of its first line, its text)."""
    begins, gathered = 0, []
    for number, line in enumerate([*lines, None], 1):
        if line:
            begins = begins if gathered else number
            gathered.append(line)
        elif gathered:
            yield begins, " ".join(gathered)
            gathered = []


def comment_of(line):
    """The text of a line that is a comment alone, or of one behind code; None without."""
    found = re.match(r"\s*(?://+|/\*\*?|\*(?!/)) ?(.*?)(?:\*/)?$", line) or re.search(r"[;{},)]\s*// (.*)$", line)
    return found and found.group(1).strip()


def comments_of(text):
    return paragraphs(map(comment_of, text.splitlines()))


def man_lines(text):
    """The lines of a man page as they read: requests that break a paragraph are None."""
    for line in text.splitlines():
        if line.startswith('.\\"'):
            continue
        if re.match(r"\.(?:Sh|Ss|It|Pp|Bl|El|Bd|Ed|D[dt]|Os|Nd)\b", line):
            yield None
        elif line.startswith("."):
            yield " ".join(word for word in line.split()[1:] if not re.fullmatch(r"[A-Z][a-z]", word))
        else:
            yield line


STRINGS = re.compile(r'"(?:[^"\\\n]|\\.)*"(?:\s*"(?:[^"\\\n]|\\.)*")*')


def strings_of(text):
    """The paragraphs of texts in quotes: help and messages."""
    for found in STRINGS.findall(re.sub(r"//.*", "", text)):
        whole = "".join(re.findall(r'"((?:[^"\\\n]|\\.)*)"', found)).replace("\\n", "\n")
        yield from re.split(r"\n\s*\n", whole)


class Comments(unittest.TestCase):
    """Of the code."""

    @classmethod
    def setUpClass(cls):
        cls.files = [path for path in sorted([*SOURCE.rglob("*"), *(TOP / "include").rglob("*")])
                     if path.suffix in (".c", ".h", ".S")]

    def test_files_that_are_named_exist(self):
        names = {path.name for top in ("src", "include", "tests", "bench", "docs")
                 for path in (TOP / top).rglob("*")}
        found = 0
        for path in self.files:
            for number, comment in comments_of(path.read_text(encoding="utf-8")):
                for name in re.findall(r"(?<![\w/.<])(?:\w+/)*(\w+\.(?:h|S|md))\b|\(([\w/]+\.c)\)", comment):
                    found += 1
                    name = (name[0] or name[1]).rsplit("/", 1)[-1]
                    self.assertTrue(name in names or name == "elf.h",
                                    f"{path.relative_to(TOP)}:{number}: there is no {name}")
        self.assertGreater(found, 100)

    def test_sentences_begin_with_a_subject(self):
        found = 0
        for path in [*self.files, *(TOP / "examples").rglob("*.c")]:
            for number, comment in comments_of(path.read_text(encoding="utf-8")):
                for sentence in sentences(comment):
                    found += 1
                    self.assertNotRegex(sentence, NO_SUBJECT, f"{path.relative_to(TOP)}:{number}")
        self.assertGreater(found, 8000)

    def test_sentences_are_found(self):
        text = ("int a; // One. Who goes\n    // there is seen.\nint b;\n/*\n * Two.\n *\n"
                " * Three */\nint c;\nf(a, // four\n  2 * a);\n")
        self.assertEqual([sentence for _, comment in comments_of(text) for sentence in sentences(comment)],
                         ["One.", "Who goes there is seen.", "Two.", "Three", "four"])
        for wrong in ("Who goes there is seen.", "Whose it is, is written nowhere.", "To record takes root.", "What it says."):
            self.assertRegex(wrong, NO_SUBJECT)
        for right in ("Whole numbers.", "To record, it takes root.", "To be freed.", "Tools."):
            self.assertNotRegex(right, NO_SUBJECT)


class Form(unittest.TestCase):
    def test_lengths(self):
        # The drawing, which a script makes, has a line for each folder.
        text = re.sub(r"<!-- drawn.*?end of the drawing -->", "", read("docs/architecture.md"), flags=re.S)
        self.assertLess(len(text.split()), 1350)
        found = 0
        for path in DOCUMENTS:
            for line in prose(path):
                found += 1
                self.assertLessEqual(len(line), 100, f"{path.relative_to(TOP)}: {line}")
        self.assertGreater(found, 2000)

    def assert_subjects(self, path, texts):
        """How many sentences there are: each begins with a subject."""
        found = 0
        for text in texts:
            for sentence in sentences(text):
                found += 1
                self.assertNotRegex(sentence, NO_SUBJECT, str(path.relative_to(TOP)))
        return found

    def test_sentences_begin_with_a_subject(self):
        found = 0
        for path in [*DOCUMENTS, TOP / "CHANGELOG.md"]:
            text = "\n".join(line for line in prose(path) if not line.startswith("#"))
            found += self.assert_subjects(path, re.split(r"\n\s*\n|\n(?=[-*] |\d+\. )", text))
        self.assertGreater(found, 1500)

    def test_sentences_of_man_pages_begin_with_a_subject(self):
        found = 0
        for path in sorted((TOP / "docs/man").glob("*.[1-9]")):
            lines = man_lines(path.read_text(encoding="utf-8"))
            found += self.assert_subjects(path, (text for _, text in paragraphs(lines)))
        self.assertGreater(found, 800)

    def test_sentences_of_help_begin_with_a_subject(self):
        found = 0
        for path in sorted((SOURCE / "cmd").rglob("*.c")):
            texts = strings_of(path.read_text(encoding="utf-8"))
            # A title is no sentence.
            found += self.assert_subjects(path, (sentence for text in texts for sentence in sentences(text)
                                                 if sentence.endswith(".")))
        self.assertGreater(found, 100)

    def test_links_lead_somewhere(self):
        found = 0
        for path in DOCUMENTS:
            for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8")):
                if target.startswith("http"):
                    continue
                found += 1
                name, _, anchor = target.partition("#")
                file = (path.parent / name).resolve() if name else path
                self.assertTrue(file.exists(), f"{path}: {target}")
                if anchor:
                    heads = [re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-")
                             for head in re.findall(r"^#+ (.*)$", read(file), re.M)]
                    self.assertIn(anchor, heads, f"{path}: {target}")
        self.assertGreater(found, 100)

    def test_readme_is_two_screens_long(self):
        """The README is two screens, its first result on the first one. Cells of tables are short."""
        lines = read("README.md").splitlines()
        self.assertLessEqual(len(lines), 110)
        self.assertTrue(any(line.startswith("cairn report ") for line in lines[:24]))
        for name in ("README.md", "CONTRIBUTING.md", "docs/limits.md", "docs/languages.md", "docs/glossary.md"):
            for line in read(name).splitlines():
                if line.startswith("|"):
                    self.assertLessEqual(max(map(len, line.split("|"))), 100, line)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
