# SPDX-License-Identifier: MIT
"""What the programs of the encode table work on. All of it is made here, the same bytes every time."""

import os
import random
import subprocess
import textwrap

from . import inputs

PERL = """
use strict;
my ($units, $path) = @ARGV;
sub depth { my ($n) = @_; return $n < 2 ? $n : depth($n - 1) + depth($n - 2) }
for my $unit (1 .. $units) {
    my (%count, %pair, $previous);
    open my $file, '<', $path or die;
    while (my $line = <$file>) {
        last if $. > 20000;
        for my $word (split ' ', $line) {
            $count{$word}++;
            $pair{"$previous $word"}++ if defined $previous && $word =~ /^[a-m]+(?:er|e)?$/;
            $previous = $word;
        }
    }
    close $file;
    my @top = (sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count)[0 .. 9];
    print join(" ", map { "$_ $count{$_}" } @top), " ", scalar(keys %pair), " ", depth(19), "\\n";
}
"""

PYTHON = (inputs.python_functions() + "for unit in range(int(sys.argv[1])):\n" +
          textwrap.indent(inputs.python_work("sys.argv[2]", 9000, 14, 20000, 60000), "    "))

LUA = """
local function tree(depth) if depth == 0 then return {} end return {tree(depth - 1), tree(depth - 1)} end
local function check(t) if t[1] then return 1 + check(t[1]) + check(t[2]) end return 1 end
for unit = 1, tonumber(arg[1]) do
  local total, count, words = 0, {}, 0
  for i = 1, 16 do total = total + check(tree(13)) end
  for line in io.lines(arg[2]) do
    for word in line:gmatch("%a+") do count[word] = (count[word] or 0) + 1; words = words + 1 end
    if words > 300000 then break end
  end
  local keys = {}
  for k in pairs(count) do keys[#keys + 1] = k end
  table.sort(keys, function(a, b) return count[a] > count[b] or count[a] == count[b] and a < b end)
  print(total, words, keys[1], count[keys[1]], table.concat(keys, " ", 1, 9))
end
"""

SQL = """
CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, kind INTEGER, price REAL);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000)
INSERT INTO item SELECT i, 'item ' || (i * 7919 % 60000), i % 97, (i * 31 % 1000) / 10.0 FROM n;
CREATE INDEX by_name ON item(name);
CREATE INDEX by_kind ON item(kind, price);
SELECT kind, count(*), round(sum(price), 2), min(name) FROM item GROUP BY kind ORDER BY 3 DESC LIMIT 9;
SELECT count(*) FROM item a JOIN item b ON a.name = b.name WHERE a.kind < 40;
SELECT count(DISTINCT substr(name, 6, 3)) FROM item WHERE name LIKE '%42%';
SELECT group_concat(name) FROM (SELECT name FROM item ORDER BY price * kind, id LIMIT 20);
DROP TABLE item;
"""

SCENE = """
global_settings { max_trace_level 6 }
camera { location <0, 6, -14> look_at <0, 1, 0> }
light_source { <20, 30, -20> rgb 1 }
light_source { <-20, 15, -10> rgb 0.4 }
plane { y, -1 pigment { checker rgb 1 rgb 0.2 scale 2 } finish { reflection 0.2 } }
#declare stream = seed(7);
#macro tower(across, away, depth)
  sphere { <across, depth, away>, 0.5 + depth / 8
    pigment { rgb <rand(stream), rand(stream), rand(stream)> } finish { phong 0.8 reflection 0.25 } }
  #if (depth > 0) tower(across + 0.4, away + 0.3, depth - 1) tower(across - 0.4, away - 0.3, depth - 1) #end
#end
#local i = -3;
#while (i <= 3) tower(i * 2, mod(i * i, 5), 3) #local i = i + 1; #end
difference {
  box { <-6, -1, 4>, <6, 2, 6> } cylinder { <0, 0, 3>, <0, 0, 7>, 1.5 }
  texture { pigment { marble turbulence 0.8 } normal { bumps 0.3 } }
}
isosurface {
  function { x * x + y * y + z * z - 1 + 0.2 * sin(8 * x + 6 * y) } max_gradient 4
  contained_by { box { -2, 2 } } pigment { rgb <0.8, 0.5, 0.1> } translate <-4, 3, -3>
}
"""

STYLESHEET = """<?xml version="1.0"?>
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
<xsl:output method="html"/>
<xsl:key name="by-kind" match="item" use="@kind"/>
<xsl:template match="/shop">
  <html><body><xsl:apply-templates select="shelf"/></body></html>
</xsl:template>
<xsl:template match="shelf">
  <h1><xsl:value-of select="@name"/>: <xsl:value-of select="sum(.//item/@price)"/></h1>
  <table><xsl:for-each select=".//item"><xsl:sort select="@name"/><xsl:apply-templates select="."/></xsl:for-each></table>
  <xsl:call-template name="stars"><xsl:with-param name="left" select="count(.//item) mod 40"/></xsl:call-template>
  <xsl:apply-templates select="box"/>
</xsl:template>
<xsl:template match="box"><ul><li><xsl:value-of select="count(item)"/></li><xsl:apply-templates select="box"/></ul></xsl:template>
<xsl:template match="item">
  <tr><td><xsl:value-of select="translate(@name, 'abc', 'ABC')"/></td>
  <td><xsl:choose><xsl:when test="@price &gt; 50">dear</xsl:when><xsl:otherwise>cheap</xsl:otherwise></xsl:choose></td>
  <td><xsl:value-of select="substring-before(concat(., ' '), ' ')"/></td></tr>
</xsl:template>
<xsl:template name="stars">
  <xsl:param name="left"/>
  <xsl:if test="$left &gt; 0">*<xsl:call-template name="stars"><xsl:with-param name="left" select="$left - 1"/></xsl:call-template></xsl:if>
</xsl:template>
</xsl:stylesheet>
"""

TOPOLOGY = """#include "oplsaa.ff/forcefield.itp"
#include "oplsaa.ff/spce.itp"
[ system ]
water
[ molecules ]
SOL 216
"""

DYNAMICS = """integrator = md
dt = 0.002
nstlist = 10
cutoff-scheme = Verlet
coulombtype = PME
rcoulomb = 0.9
rvdw = 0.9
constraints = h-bonds
tcoupl = v-rescale
tc-grps = system
tau-t = 0.5
ref-t = 300
gen-vel = yes
gen-temp = 300
gen-seed = 7
ld-seed = 7
"""

WATER = "/usr/share/gromacs/top/spc216.gro"


def keep(path, make):
    """The path, after make(path) has made it if it is not there yet."""
    if not os.path.exists(path):
        make(path + ".new")
        os.rename(path + ".new", path)
    return path


def write(path, data):
    """The path, with this in it."""
    with open(path, "wb") as file:
        file.write(data if isinstance(data, bytes) else data.encode())
    return path


def documents(path, units):
    """Shelves of nested boxes with items, as XML."""
    source, words = random.Random(11), ["stone", "path", "cairn", "ridge", "brook", "lake", "bridge", "meadow"]
    parts = ["<?xml version='1.0'?>\n<shop>\n"]
    for number in range(100 * units):
        parts.append(f"<shelf name='shelf {number}'>" + "<box>" * 5)
        for each in range(120):
            parts.append(f"<item name='{source.choice(words)}{each}' kind='{source.randrange(9)}' price='{source.randrange(100)}'>"
                         f"{source.choice(words)} {source.choice(words)}</item>" + ("</box><box>" if each % 10 == 9 else ""))
        parts.append("</box>" * 5 + "</shelf>\n")
    write(path, "".join(parts) + "</shop>\n")


def proteins(path, count, seed, length=180):
    """Sequences of amino acids; families of them that resemble each other."""
    source, letters, parts, ancestor = random.Random(seed), "ACDEFGHIKLMNPQRSTVWY", [], ""
    ancestors = random.Random(5)
    families = ["".join(ancestors.choices(letters, k=length)) for _ in range(8)]
    for number in range(count):
        ancestor = families[number % len(families)]
        parts.append(f">sequence{number}\n" + "".join(
            source.choice(letters) if source.random() < 0.45 else letter for letter in ancestor) + "\n")
    write(path, "".join(parts))


def film(path, frames, width=176, height=144):
    """Moving shapes over noise, as YUV4MPEG."""
    source = random.Random(13)
    noise = [source.randrange(24) for _ in range(width * 4)]
    with open(path, "wb") as file:
        file.write(f"YUV4MPEG2 W{width} H{height} F25:1 Ip A1:1 C420jpeg\n".encode())
        for number in range(frames):
            rows = []
            for y in range(height):
                shift = (y * 7 + number * 3) % (width * 3)
                row = bytearray(noise[(x + shift) % (width * 4)] + 60 for x in range(width))
                left = (number * 2 + y // 3) % (width - 40)
                row[left:left + 40] = bytes((200 - y // 2 + number) % 256 for _ in range(40))
                rows.append(bytes(row))
            chroma = bytes((128 + (x + number) % 16) for x in range(width // 2)) * (height // 2)
            file.write(b"FRAME\n" + b"".join(rows) + chroma + chroma)


def image(path, rows, width=600):
    """A picture, as PPM."""
    source = random.Random(17)
    band = b"".join(bytes((x * (3 + c) // 7 + y + source.randrange(30)) % 256 for x in range(width) for c in range(3))
                    for y in range(60))
    with open(path, "wb") as file:
        file.write(f"P6\n{width} {rows}\n255\n".encode())
        for _ in range(rows // 60):
            file.write(band)


def simulation(folder, gmx):
    """216 molecules of water for gromacs: the path of its run input."""
    def make(path):
        os.makedirs(folder, exist_ok=True)
        at = lambda name: os.path.join(folder, name)
        subprocess.run([gmx, "-quiet", "grompp", "-f", write(at("water.mdp"), DYNAMICS), "-c", WATER,
                        "-p", write(at("water.top"), TOPOLOGY), "-o", at("new.tpr"), "-po", at("used.mdp"), "-maxwarn", "5"],
                       check=True, capture_output=True, env=dict(os.environ, GMX_MAXBACKUP="-1"))
        os.rename(at("new.tpr"), path)
    return keep(os.path.join(folder, "water.tpr"), make)


def games(path, units, moves=4):
    """Games of Go against itself, each from the same start, for GNU Go."""
    game = ["boardsize 9", "clear_board", "set_random_seed 7"] + ["genmove b", "genmove w"] * (moves // 2)
    write(path, "\n".join(game * units + ["quit"]) + "\n")


def commits(path, units, git, repository):
    """The same commits over and over, for git diff-tree."""
    log = subprocess.run([git, "-C", repository, "rev-list", "-n", "60", "main"], capture_output=True, check=True).stdout
    write(path, log * units)
