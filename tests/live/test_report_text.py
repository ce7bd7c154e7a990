# SPDX-License-Identifier: MIT
"""The text of a report on terminals of 80, 120 and 200 columns: the answer is on the screen.

Programs in C++ and Rust, whose names are long, and programs that recurse.
"""

import re
import unicodedata
import unittest

from support import CAIRN, LiveTest, Run, installed
from test_terminal import COLOUR, Terminal

WIDTHS = (80, 120, 200)

SHOP = """
#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#define APART __attribute__((noinline))
namespace shop {
struct ByLength {
    bool operator()(const std::string &a, const std::string &b) const
    { return a.size() != b.size() ? a.size() < b.size() : a < b; }
};
APART void sort_by_length(std::vector<std::string> &words) { std::sort(words.begin(), words.end(), ByLength()); }
APART void sort_by_end(std::vector<std::string> &words)
{
    std::sort(words.begin(), words.end(), [](const std::string &a, const std::string &b)
        { return std::lexicographical_compare(b.rbegin(), b.rend(), a.rbegin(), a.rend()); });
}
template <typename K> APART long checksum(const std::unordered_map<K, long> &counts)
{
    long sum = 0;
    for (int i = 0; i < 20; i++)
        for (const auto &count : counts) sum += std::hash<K>()(count.first) ^ count.second;
    return sum;
}
APART long apply(const std::function<long(const std::string &)> &f, const std::vector<std::string> &words)
{
    long sum = 0;
    for (const auto &word : words) sum += f(word);
    return sum;
}
APART long index(const std::vector<std::string> &words)
{
    std::map<std::string, std::vector<long>> entries;
    for (const auto &word : words) entries[word.substr(0, 3)].push_back(word.size());
    return entries.size();
}
}

static APART long worker(int which)
{
    std::vector<std::string> words;
    for (int i = 0; i < 20000; i++) words.push_back(std::to_string((i * 7919L * (which + 1)) % 100003) + "-" + std::to_string(i));
    long sum = 0;
    for (int round = 0; round < 8; round++) {
        shop::sort_by_length(words);
        shop::sort_by_end(words);
        std::unordered_map<std::string, long> prefixes;
        std::unordered_map<long, long> sizes;
        for (const auto &word : words) prefixes[word.substr(0, 4)]++, sizes[word.size() * 131 + word[0]]++;
        sum += shop::checksum(prefixes) + shop::checksum(sizes) + shop::index(words);
        sum += shop::apply([which](const std::string &s)
            { long h = which; for (int i = 0; i < 50; i++) for (char c : s) h = h * 31 + c; return h; }, words);
    }
    return sum;
}

int main()
{
    long sums[2];
    std::thread other([&sums] { sums[1] = worker(1); });
    sums[0] = worker(0);
    other.join();
    printf("%ld\\n", sums[0] + sums[1]);
}
"""

DESCENT = """
#include <stdio.h>
#define APART __attribute__((noinline))
static const char *at;
static long expression(void);
static APART long number(void)
{
    long value = 0;
    while (*at >= '0' && *at <= '9') value = value * 10 + *at++ - '0';
    for (volatile int i = 0; i < 300; i++) value ^= i;
    return value;
}
static APART long factor(void)
{
    if (*at != '(') return number();
    at++;
    long value = expression();
    at++;
    return value + 1;
}
static APART long term(void)
{
    long value = factor();
    while (*at == '*') at++, value *= factor();
    return value;
}
static APART long expression(void)
{
    long value = term();
    while (*at == '+') at++, value += term();
    return value;
}
int main(void)
{
    static char text[1000000];
    int used = 0, depth = 0;
    for (int i = 0; i < 5000; i++) {
        for (; depth < 1 + i * 7 % 37; depth++) text[used++] = '(';
        used += sprintf(text + used, "%d", i);
        for (; depth > i * 5 % 11; depth--) text[used++] = ')';
        text[used++] = i % 3 ? '+' : '*';
    }
    text[used++] = '1';
    while (depth-- > 0) text[used++] = ')';
    long sum = 0;
    for (int i = 0; i < 300; i++) at = text, sum += expression();
    printf("%ld\\n", sum);
}
"""


def columns(text):
    """How many columns a line of text takes on a screen."""
    return sum(not unicodedata.combining(letter) for letter in text)


def names(text):
    """The names in the table of a report, without the lines that lead to them."""
    head, *rows = text.split("\n\n")[1].splitlines()
    begin = head.index("function")
    return [re.sub(r"^[│├└─⋯ ]+", "", row[begin:]).split("  ")[0] for row in rows]


class TextTest(LiveTest):
    def report(self, profile, width, *options):
        terminal = Terminal([CAIRN, "report", profile.path, *options], self.folder, width, NO_COLOR="1", PAGER="cat")
        self.assertEqual(terminal.end(), 0, terminal.seen)
        return re.sub(r"\r[^\n]*\033\[K", "", COLOUR.sub("", terminal.seen))

    def assert_fits(self, profile, *options):
        for width in WIDTHS:
            text = self.report(profile, width, *options)
            for line in text.splitlines():
                self.assertLessEqual(columns(line), width, line)
        return self.report(profile, 80, *options)

    def assert_told_apart(self, profile, *options):
        """Row by row, the same as without a limit: no two functions have the same name in any width."""
        options = ("--no-fold", "--min", "1", *options)
        wide = names(Run([CAIRN, "report", profile.path, "--wide", *options],
                         env={"LANG": "C.UTF-8", "PATH": ""}).text)
        self.assertGreater(len(wide), 5)
        for width in WIDTHS:
            shown = names(self.report(profile, width, *options))
            self.assertEqual(len(shown), len(wide))
            full = {}
            for name, whole in zip(shown, wide):
                name, whole = (re.sub(r" \[inlined\]$", "", text) for text in (name, whole))
                self.assertEqual(full.setdefault(name, whole), whole, name)


@installed("g++")
class Cpp(TextTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        case = cls.for_all()
        case.file("shop.cpp", SHOP)
        build = Run(["g++", "-g", "-O2", "-pthread", "-o", "shop", "shop.cpp"], cwd=case.folder)
        case.assertEqual(build.status, 0, build.words)
        _, cls.profile = case.record([case.file("shop")], "-e", "wall", "-e", "cpu")

    def test_own_functions_are_visible(self):
        text = self.assert_fits(self.profile)
        for name in ("worker", "sort_by_length", "sort_by_end", "checksum", "apply"):
            self.assertRegex(text, rf"\b{name}\b")
        self.assertNotIn("__libc_start_main", text)
        self.assertNotIn("start_thread", text)

    def test_two_screens(self):
        for view in ("tree", "callers", "flat"):
            self.assertLessEqual(len(names(self.report(self.profile, 80, "--view", view))), 41, view)

    def test_nothing_is_below_zero(self):
        """With --min 0, a list lacks only functions that cost nothing themselves, and says so."""
        text = self.report(self.profile, 80, "--view", "flat", "--min", "0")
        self.assertNotIn("below 0 %", text)
        self.assertRegex(text, r"\n\d+ rows? without cost of their own: --sort total shows them\.\n")
        self.assertNotIn("--sort total", self.report(self.profile, 80, "--view", "flat", "--min", "0", "--sort", "total"))

    def test_names_differ(self):
        self.assert_told_apart(self.profile)
        self.assert_told_apart(self.profile, "--view", "flat")
        self.assert_told_apart(self.profile, "--view", "callers")

    def test_callers_to_the_roots(self):
        text = self.assert_fits(self.profile, "--view", "callers", "--focus", "^__memcmp|::compare$")
        self.assertRegex(text, r"\bsort_by_length\b")
        self.assertRegex(text, r"\bworker\b")
        self.assertRegex(text, r"\bmain\b")

    def test_several_metrics(self):
        text = self.assert_fits(self.profile, "--metric", "wall,cpu,waiting")
        self.assertRegex(text, r"\n *wall +self +cpu +waiting +function|\n *wall +cpu +waiting +function")
        self.assertIn("worker", text)
        self.assertEqual(self.report(self.profile, 120, "--metric", "all"),
                         self.report(self.profile, 120, "--metric", "wall,cpu,waiting"))
        narrow = self.report(self.profile, 50, "--metric", "all")
        self.assertRegex(narrow, r"Too wide for this terminal:.*waiting")
        waiting = self.report(self.profile, 80, "--metric", "waiting", "--view", "flat")
        self.assertIn("of waiting", waiting)

    def test_a_pipe_shortens_nothing(self):
        """Without a width, nothing is shortened."""
        run = Run([CAIRN, "report", self.profile.path, "--view", "flat"])
        self.assertRegex(run.text, r"<std::.*> >::")
        self.assertNotRegex(run.text, r"\.\.|…")


@installed("gcc")
class Recursion(TextTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        case = cls.for_all()
        case.file("descent.c", DESCENT)
        build = Run(["gcc", "-g", "-O1", "-o", "descent", "descent.c"], cwd=case.folder)
        case.assertEqual(build.status, 0, build.words)
        _, cls.profile = case.record([case.file("descent")])

    def test_recursion_is_folded(self):
        text = self.assert_fits(self.profile)
        self.assertRegex(text, r"expression \(recursive")
        self.assertRegex(self.report(self.profile, 120), r"expression \(recursive, to depth \d\d\)")
        self.assertEqual(len(re.findall(r"\bterm\b", text)), 1)
        self.assertIn("--fold-recursion=no", text)
        self.assertNotIn("(recursive", self.report(self.profile, 80, "--fold-recursion=no"))

    def test_recursion_is_unfolded_on_request(self):
        self.assert_fits(self.profile, "--fold-recursion=no")
        self.assert_fits(self.profile, "--min", "0")
        self.assert_told_apart(self.profile)


class Real(TextTest):
    """Programs that nobody here wrote."""

    @installed("rg")
    def test_rust(self):
        _, profile = self.record(["rg", "-c", "[a-z]+_[a-z]+ *[(]", "/usr/include"])
        self.assert_fits(profile)
        self.assert_told_apart(profile)

    @installed("gdb")
    def test_gdb(self):
        _, profile = self.record(["gdb", "-batch", "-ex", "info functions main", CAIRN], "-F", "10000")
        for view in ("tree", "callers", "flat"):
            self.assert_fits(profile, "--view", view)
        self.assert_told_apart(profile, "--view", "flat")
        # Of a library with a long name, the beginning says most.
        self.assertRegex(self.report(profile, 64, "--view", "tree", "--min", "0.1"), r"(?m) (libpython3|ld-linux)\S*…$")

    @installed("perl")
    def test_a_long_command_gives_way(self):
        """A command that does not fit gives way, too."""
        _, profile = self.record(["perl", "-e", "my %h; for my $i (1..200000) { $h{join('-', $i, $i % 7)} = 1; } print scalar keys %h"])
        text = self.assert_fits(profile)
        self.assertRegex(text, r"^perl -e .*…: .* of cpu in .* samples, 1 process, 1 thread\n")


if __name__ == "__main__":
    unittest.main()
