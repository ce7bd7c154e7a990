# SPDX-License-Identifier: MIT
"""What the measured programs work on. All of it is made here, the same bytes every time."""

import hashlib
import itertools
import os
import random
import shutil
import subprocess


def _write(path, data):
    if isinstance(data, str):
        data = data.encode()
    with open(path, "wb") as file:
        file.write(data)


def make_text(path, megabytes):
    """Text that looks like text: words of a skewed distribution, lines, repetitions."""
    source = random.Random(1)
    letters = "etaoinshrdlucmfwypvbgkjqxz"
    words = ["".join(source.choices(letters, weights=range(26, 0, -1), k=source.randint(2, 9)))
             for _ in range(20000)]
    weights = list(itertools.accumulate(1 / (rank + 3) for rank in range(len(words))))
    lines = []
    size = 0
    while size < megabytes << 20:
        for _ in range(200):
            line = " ".join(source.choices(words, cum_weights=weights, k=11))
            lines.append(line)
            size += len(line) + 1
    _write(path, "\n".join(lines) + "\n")


def make_c_file(path, functions):
    """A C file with many functions of some weight, for the compiler."""
    source = random.Random(2)
    parts = ["struct item { struct item *next; long key; double weight; char name[16]; };\n"
             "extern int compare(const void *, const void *);\n"]
    for i in range(functions):
        operations = "\n".join(
            f"        sum {source.choice(['+=', '^=', '-='])} (item->key {source.choice('*+-&|')} {source.randint(3, 999)})"
            f" >> {source.randint(1, 7)};" for _ in range(source.randint(4, 12)))
        cases = "\n".join(f"    case {case}: return sum * {source.randint(2, 99)} + count;"
                          for case in range(source.randint(3, 9)))
        parts.append(f"""
long function_{i}(struct item *item, int count, long *table)
{{
    long sum = {i};
    for (; item && count > 0; item = item->next, count--) {{
        if (item->key < table[count & 63])
            sum += table[(item->key + {i}) & 63] * count;
        else
            item->weight = item->weight * 1.5 + (double)sum;
{operations}
    }}
    switch (sum % 16) {{
{cases}
    default: break;
    }}
    return sum{f" + function_{i - 1}(item, count, table)" if i else ""};
}}
""")
    _write(path, "".join(parts))


def make_repository(path, git, text_path, commits):
    """A repository of one large file that is edited all over in every commit."""
    source = random.Random(3)
    with open(text_path, encoding="ascii") as file:
        lines = [file.readline() for _ in range(6000)]
    subprocess.run([git, "init", "-q", "--bare", path], check=True)
    stream = []
    for number in range(commits):
        for _ in range(40):
            place = source.randrange(len(lines))
            if source.random() < 0.3:
                lines.insert(place, lines[source.randrange(len(lines))])
            else:
                lines[place] = f"{number} {lines[place][:40].strip()}\n"
        data = "".join(lines)
        stream.append(f"commit refs/heads/main\ncommitter A <a@example.org> {1000000000 + number} +0000\n"
                      f"data 2\nc\nM 644 inline file\ndata {len(data)}\n{data}\n")
    subprocess.run([git, "-C", path, "fast-import", "--quiet"], input="".join(stream).encode(),
                   check=True)


SQL = """
CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, kind INTEGER, price REAL);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400000)
INSERT INTO item SELECT i, 'item ' || (i * 7919 % 400000), i % 97, (i * 31 % 1000) / 10.0 FROM n;
CREATE INDEX by_name ON item(name);
CREATE INDEX by_kind ON item(kind, price);
SELECT kind, count(*), round(sum(price), 2), min(name) FROM item GROUP BY kind ORDER BY 3 DESC LIMIT 9;
SELECT count(*) FROM item a JOIN item b ON a.name = b.name WHERE a.kind < 40;
SELECT count(DISTINCT substr(name, 6, 3)) FROM item WHERE name LIKE '%42%';
SELECT group_concat(name) FROM (SELECT name FROM item ORDER BY price * kind, id LIMIT 20);
"""

PERL = """
use strict;
my (%count, %pair, $previous);
open my $file, '<', $ARGV[0] or die;
while (my $line = <$file>) {
    last if $. > 220000;
    for my $word (split ' ', $line) {
        $count{$word}++;
        $pair{"$previous $word"}++ if defined $previous && $word =~ /^[a-m]+(?:er|e)?$/;
        $previous = $word;
    }
}
sub depth { my ($n) = @_; return $n < 2 ? $n : depth($n - 1) + depth($n - 2) }
my @top = (sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count)[0 .. 9];
print "$_ $count{$_}\\n" for @top;
print scalar(keys %pair), " ", depth(26), "\\n";
"""

def python_functions():
    """What python_work() calls."""
    return """
import collections, json, re, sys
def tree(depth):
    return (tree(depth - 1), tree(depth - 1)) if depth else None
def size(node):
    return 1 + size(node[0]) + size(node[1]) if node else 1
"""


def python_work(path, lines, depth, records, numbers):
    """Work for CPython: words of a file, trees, JSON and sorting, as much of each as the numbers say."""
    return f"""counts = collections.Counter()
with open({path}) as file:
    for number, line in enumerate(file):
        if number > {lines}:
            break
        counts.update(re.findall(r"[a-z]+e[a-z]*", line))
print(size(tree({depth})), counts.most_common(5))
text = json.dumps([{{"number": n, "half": n / 2, "name": str(n)}} for n in range({records})])
print(len(json.loads(text)), sum(sorted((n * 7919) % 10007 for n in range({numbers}))[::1000]))
"""


PYTHON = python_functions() + python_work("sys.argv[1]", 110000, 18, 350000, 1000000)

LUA = """
local function tree(depth) if depth == 0 then return {} end return {tree(depth - 1), tree(depth - 1)} end
local function check(t) if t[1] then return 1 + check(t[1]) + check(t[2]) end return 1 end
local total = 0
for i = 1, 130 do total = total + check(tree(14)) end
local count, words = {}, 0
for line in io.lines(arg[1]) do
  for word in line:gmatch("%a+") do count[word] = (count[word] or 0) + 1; words = words + 1 end
  if words > 2400000 then break end
end
local keys = {}
for k in pairs(count) do keys[#keys + 1] = k end
table.sort(keys, function(a, b) return count[a] > count[b] or count[a] == count[b] and a < b end)
print(total, words, keys[1], count[keys[1]], table.concat(keys, " ", 1, 9))
"""

NODE = """
const fs = require('fs');
const lines = fs.readFileSync(process.argv[2], 'latin1').split('\\n').slice(0, 230000);
const count = new Map();
for (const line of lines) for (const word of line.split(' ')) count.set(word, (count.get(word) || 0) + 1);
const tree = (d) => (d ? { l: tree(d - 1), r: tree(d - 1) } : null);
const size = (t) => (t ? 1 + size(t.l) + size(t.r) : 1);
let total = 0;
for (let i = 0; i < 300; i++) total += size(tree(16));
const text = JSON.stringify(lines.slice(0, 80000).map((l, i) => ({ i, l })));
const top = [...count].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).slice(0, 5);
console.log(total, JSON.parse(text).length, text.replace(/e[a-z]+/g, 'E').length, top);
"""

JAVA = """
import java.nio.file.*;
import java.util.*;
import java.util.regex.*;

public class Work {
    record Node(Node left, Node right) {}
    static Node tree(int depth) { return depth == 0 ? null : new Node(tree(depth - 1), tree(depth - 1)); }
    static int size(Node n) { return n == null ? 1 : 1 + size(n.left) + size(n.right); }
    public static void main(String[] args) throws Exception {
        Map<String, Integer> count = new HashMap<>();
        Pattern pattern = Pattern.compile("[a-z]+e[a-z]*");
        int seen = 0;
        for (String line : Files.readAllLines(Path.of(args[0]))) {
            Matcher matcher = pattern.matcher(line);
            while (matcher.find()) count.merge(matcher.group(), 1, Integer::sum);
            if (++seen > 220000) break;
        }
        int total = 0;
        for (int i = 0; i < 120; i++) total += size(tree(16));
        System.out.println(total + " " + new TreeMap<>(count).firstEntry() + " " + count.size());
    }
}
"""


def _java_expression(source, depth):
    """Calls, conditions and lambdas, for whose types a compiler goes as deep as they are nested."""
    if not depth:
        return source.choice(("a", "b", "3", "list.size()", "text.length()"))
    one, other = (_java_expression(source, depth - 1) for _ in range(2))
    return source.choice((
        f"({one} {source.choice('+-*^')} {other})", f"Math.max({one}, {other})", f"(a > {one} ? {other} : {one})",
        f"list.stream().map(x -> x + {source.randint(1, 9)}).filter(x -> x > b).mapToInt(x -> x).sum()",
        f"m{source.randint(0, 9)}({one}, {other}, list, text)"))


def make_java_file(path, methods):
    """A Java file for its compiler."""
    source = random.Random(8)
    bodies = ("\n".join(f"        sum += {_java_expression(source, 5)};" for _ in range(4)) for _ in range(methods))
    text = "\n".join(f"    static int m{i}(int a, int b, List<Integer> list, String text) {{\n        int sum = 0;\n{body}\n"
                     "        return sum;\n    }" for i, body in enumerate(bodies))
    _write(path, f"import java.util.*;\n\npublic class Many {{\n{text}\n}}\n")


def make_all(folder, git):
    """Fills folder, unless what it holds was made by this very file."""
    done = os.path.join(folder, "made")
    with open(__file__, "rb") as file:
        version = hashlib.sha256(file.read()).hexdigest()
    if os.path.exists(done):
        with open(done, encoding="ascii") as file:
            if file.read() == version:
                return
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    at = lambda name: os.path.join(folder, name)
    make_text(at("text"), 18)
    with open(at("text"), "rb") as file:
        _write(at("text5"), file.read(5 << 20))
    make_c_file(at("many.c"), 115)
    make_java_file(at("Many.java"), 20)
    make_repository(at("repository"), git, at("text"), 450)
    for name, content in (("work.sql", SQL), ("work.pl", PERL), ("work.py", PYTHON),
                          ("work.lua", LUA), ("work.js", NODE), ("Work.java", JAVA)):
        _write(at(name), content)
    _write(done, version)
