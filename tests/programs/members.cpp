// SPDX-License-Identifier: MIT
// All work is done below calls by pointers to member functions, virtual ones and others, in which the
// function that calls ends: what libraries for threads and tasks do with what they are to run.
#include "common.h"

struct Base {
    uint64_t sum = 1;
    virtual ~Base() = default;
    virtual void first(unsigned units) = 0;
    NOIPA void second(unsigned units)
    {
        sum += burn(sum, units);
        NO_TAIL_CALL();
    }
};

struct Derived : Base {
    NOIPA void first(unsigned units) override
    {
        second(units);
        NO_TAIL_CALL();
    }
};

struct Task {
    void (Base::*function)(unsigned units);
    Base *base;
    NOIPA void run(unsigned units)
    {
        (base->*function)(units);
    }
};

int main()
{
    Derived derived;
    Task tasks[] = {{&Base::first, &derived}, {&Base::second, &derived}};
    for (unsigned i = 0; i < 8000; i++)
        tasks[i % 2].run(20);
    printf("%lu\n", (unsigned long)derived.sum);
    return 0;
}
