/* SPDX-License-Identifier: MIT */
/*
 * A log whose lines carry their calling context: a shop that takes orders, and writes down what is
 * wrong with them. The same message comes by many ways, and the line tells by which:
 *
 *     cairn record --track encode -o shop.out -- ./logger >shop.log
 *     cairn decode shop.out --folded <shop.log
 *
 * The program is not linked with libcairn. Without `cairn record` the lines have no context.
 */

#include <cairn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The context is asked for by whoever logs (LOG), so that it names that line of the source. */
__attribute__((format(printf, 2, 3))) static void log_line(struct cairn_context context,
                                                           const char *format, ...)
{
    char text[CAIRN_CONTEXT_TEXT];
    va_list arguments;
    if (cairn_present())
        printf("%s ", cairn_context_text(context, text, sizeof text));
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
}

#define LOG(...) log_line(cairn_context(), __VA_ARGS__)

struct order {
    const char *customer;
    const char *item;
    int count;
};

static const struct {
    const char *item;
    int price, stock;
} shelf[] = {{"lamp", 30, 4}, {"rope", 5, 100}, {"tent", 120, 1}};

static int find(const char *item)
{
    for (unsigned i = 0; i < sizeof shelf / sizeof *shelf; i++)
        if (!strcmp(shelf[i].item, item))
            return (int)i;
    LOG("there is no %s", item);
    return -1;
}

static int price_of(const struct order *order)
{
    int at = find(order->item);
    return at < 0 ? 0 : shelf[at].price * order->count;
}

static int is_in_stock(const struct order *order)
{
    int at = find(order->item);
    if (at >= 0 && shelf[at].stock < order->count)
        LOG("only %d of %s are left", shelf[at].stock, order->item);
    return at >= 0 && shelf[at].stock >= order->count;
}

static void offer(const struct order *order)
{
    int price = price_of(order);
    if (price)
        LOG("offered %d %s to %s for %d", order->count, order->item, order->customer, price);
}

static void sell(const struct order *order)
{
    if (is_in_stock(order))
        LOG("sold %d %s to %s", order->count, order->item, order->customer);
}

/* A regular customer gets an offer first. */
static void (*const usual[])(const struct order *) = {offer, sell};

static void serve(const struct order *order)
{
    if (!strcmp(order->customer, "Ada")) {
        for (unsigned i = 0; i < sizeof usual / sizeof *usual; i++)
            usual[i](order);
    } else {
        sell(order);
    }
}

int main(void)
{
    static const struct order orders[] = {
        {"Ada", "rope", 10}, {"Bob", "tent", 2}, {"Ada", "boat", 1},
        {"Cyd", "boat", 1},  {"Ada", "tent", 1}, {"Bob", "lamp", 9},
    };
    for (unsigned i = 0; i < sizeof orders / sizeof *orders; i++)
        serve(&orders[i]);
    return 0;
}
