// SPDX-License-Identifier: MIT
// Built several times with another NUMBER: libraries of the same shape that take each other's place
// in memory.

__attribute__((visibility("default"))) int loadmap_number(void)
{
    return NUMBER;
}

// Comes back through a frame of this library.
__attribute__((visibility("default"))) int loadmap_call(int (*callback)(void *), void *argument)
{
    volatile char space[NUMBER * 16];
    space[0] = 1;
    int result = callback(argument);
    space[1] = space[0];
    return result + NUMBER;
}
