// SPDX-License-Identifier: MIT
// Connect-4 by alpha-beta search on a small board: tiny functions, called very often, as in the
// game programs that exhaustive profilers are measured with. noipa keeps them calls.

#include <stdio.h>
#include <stdlib.h>

#define ALONE __attribute__((noipa))
#define COLUMNS 7
#define ROWS 6
#define STRIDE (ROWS + 1) // an empty row on top keeps columns apart

static unsigned long long stones[2];
static int height[COLUMNS];
static long visited;

ALONE static int in_line(unsigned long long board, int step)
{
    const unsigned long long pairs = board & (board >> step);
    return (pairs & (pairs >> 2 * step)) != 0;
}

ALONE static int won(unsigned long long board)
{
    return in_line(board, 1) || in_line(board, STRIDE) || in_line(board, STRIDE - 1) ||
           in_line(board, STRIDE + 1);
}

ALONE static int playable(int column)
{
    return height[column] < ROWS;
}

ALONE static void play(int player, int column)
{
    stones[player] |= 1ull << (column * STRIDE + height[column]++);
}

ALONE static void take_back(int player, int column)
{
    stones[player] &= ~(1ull << (column * STRIDE + --height[column]));
}

ALONE static int search(int player, int depth, int low, int high)
{
    static const int order[COLUMNS] = {3, 2, 4, 1, 5, 0, 6};
    visited++;
    if (won(stones[!player]))
        return -depth - 1;
    if (!depth)
        return 0;
    for (int i = 0; i < COLUMNS; i++) {
        if (!playable(order[i]))
            continue;
        play(player, order[i]);
        const int value = -search(!player, depth - 1, -high, -low);
        take_back(player, order[i]);
        if (value > low)
            low = value;
        if (low >= high)
            break;
    }
    return low;
}

int main(int argc, char **argv)
{
    const int depth = argc > 1 ? atoi(argv[1]) : 10;
    for (long times = argc > 2 ? atol(argv[2]) : 1; times > 0; times--) {
        const int value = search(0, depth, -1000, 1000);
        printf("value %d, %ld positions\n", value, visited);
    }
    return 0;
}
