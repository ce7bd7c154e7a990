# SPDX-License-Identifier: MIT
# Counts the words of texts, sorts them, and looks for anagrams: some seconds of work for Perl's regular expressions,
# hashes and sort.
#
#   cairn record -- perl examples/words.pl src/*/*.c src/*/*/*.c

use strict;
use warnings;

die "usage: perl words.pl FILE...\n" unless @ARGV;
my (%count, @words);
for my $round (1 .. 30) {
    for my $path (@ARGV) {
        open my $in, '<', $path or die "$path: $!\n";
        while (my $line = <$in>) {
            while ($line =~ /([a-z]{3,})/gi) { $count{lc $1}++; push @words, $1 if $round == 1 }
        }
    }
}
my @sorted = sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count;
my %by_letters;
push @{ $by_letters{ join '', sort split //, lc $_ } }, $_ for @words;
printf "%d different words, the most frequent: %s; %d groups of anagrams\n",
    scalar @sorted, join(' ', @sorted[0 .. 4]), scalar grep { @$_ > 1 } values %by_letters;
