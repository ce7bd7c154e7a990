// SPDX-License-Identifier: MIT
// Go on a small board, by random games to the end: many small functions, and groups of stones that
// are found by recursion. noipa keeps them calls.

#include <stdio.h>
#include <stdlib.h>

#define ALONE __attribute__((noipa))
#define SIZE 9
#define WIDTH (SIZE + 2) // with a border
#define POINTS (WIDTH * WIDTH)

enum { EMPTY, BLACK, WHITE, BORDER };

static const int neighbours[4] = {-1, 1, -WIDTH, WIDTH};
static unsigned char board[POINTS];
static unsigned seen[POINTS], pass_of_seen;
static unsigned state = 1;
static int ko;

ALONE static unsigned next_random(unsigned below)
{
    state = state * 1664525 + 1013904223;
    return (unsigned)((unsigned long long)state * below >> 32);
}

ALONE static int other(int color)
{
    return BLACK + WHITE - color;
}

ALONE static int has_liberty(int point, int color)
{
    seen[point] = pass_of_seen;
    for (int i = 0; i < 4; i++) {
        const int next = point + neighbours[i];
        if (board[next] == EMPTY)
            return 1;
        if (board[next] == color && seen[next] != pass_of_seen && has_liberty(next, color))
            return 1;
    }
    return 0;
}

ALONE static int lives(int point)
{
    pass_of_seen++;
    return has_liberty(point, board[point]);
}

ALONE static int take(int point, int color)
{
    int stones = 1;
    board[point] = EMPTY;
    for (int i = 0; i < 4; i++)
        if (board[point + neighbours[i]] == color)
            stones += take(point + neighbours[i], color);
    return stones;
}

// A point that only its owner may want to keep: filling it would be foolish.
ALONE static int is_eye(int point, int color)
{
    for (int i = 0; i < 4; i++) {
        const int there = board[point + neighbours[i]];
        if (there != color && there != BORDER)
            return 0;
    }
    return 1;
}

ALONE static int play(int point, int color)
{
    int taken = 0, last = 0;
    if (board[point] != EMPTY || point == ko || is_eye(point, color))
        return 0;
    board[point] = (unsigned char)color;
    for (int i = 0; i < 4; i++) {
        const int next = point + neighbours[i];
        if (board[next] == other(color) && !lives(next)) {
            taken += take(next, other(color));
            last = next;
        }
    }
    if (!taken && !lives(point)) {
        board[point] = EMPTY;
        return 0;
    }
    ko = taken == 1 ? last : 0;
    return 1;
}

ALONE static int any_move(int color)
{
    const int start = (int)next_random(POINTS);
    for (int i = 0; i < POINTS; i++)
        if (play((start + i) % POINTS, color))
            return 1;
    ko = 0;
    return 0;
}

ALONE static int score(void)
{
    int sum = 0;
    for (int point = 0; point < POINTS; point++)
        sum += board[point] == BLACK || (board[point] == EMPTY && is_eye(point, BLACK));
    return sum;
}

ALONE static int game(void)
{
    for (int point = 0; point < POINTS; point++)
        board[point] = point % WIDTH % (SIZE + 1) && point / WIDTH % (SIZE + 1) ? EMPTY : BORDER;
    ko = 0;
    for (int moves = 0, passes = 0, color = BLACK; passes < 2 && moves < 3 * SIZE * SIZE; moves++) {
        passes = any_move(color) ? 0 : passes + 1;
        color = other(color);
    }
    return score();
}

int main(int argc, char **argv)
{
    const int games = argc > 1 ? atoi(argv[1]) : 10000;
    long sum = 0;
    for (int i = 0; i < games; i++)
        sum += game();
    printf("black has %.2f points a game\n", (double)sum / games);
    return 0;
}
