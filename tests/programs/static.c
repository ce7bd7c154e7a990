// SPDX-License-Identifier: MIT
// Linked statically: nothing can be preloaded into it. With an argument, it stays until its input
// ends.

#include <stdio.h>

int main(int count, char **words)
{
    (void)words;
    puts("static");
    while (count > 1 && getchar() != EOF)
        continue;
    return 0;
}
