// SPDX-License-Identifier: MIT

#include "cmd/top/screen.h"
#include "base/memory.h"
#include "base/new_file.h"
#include "base/now.h"
#include <curses.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#define READING_PART 10 // readings take at most one of so many parts of the time
#define NS_PER_MS UINT64_C(1000000)

enum { ESCAPE = 27, BACKSPACE = 127, PAGE_OVERLAP = 1 };

struct screen {
    struct top_model *model;
    struct top_view *view;
    const struct top_settings *settings;
    struct top_rows rows;
    size_t from, chosen;
    uint64_t chosen_key;
    bool paused, types, helps; // types: the filter
    char *message;
    uint64_t next_ns; // the next reading
};

// The end of the program, whatever it is, leaves the terminal as it was.

static struct termios terminal_before;
static volatile sig_atomic_t stop;

static void ask_to_stop(int signal)
{
    stop = signal;
}

// Too late for curses: the terminal's own words for a visible cursor, plain letters and the screen
// before. Signal-safe.
static void restore_and_die(int signal)
{
    static const char words[] = "\033[?1049l\033[?25h\033[0m\r\n";
    ssize_t written = write(STDOUT_FILENO, words, sizeof words - 1);
    (void)written;
    tcsetattr(STDOUT_FILENO, TCSANOW, &terminal_before);
    raise(signal); // the handler was for one time
}

static void take_signals(void)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT},
                     crashes[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
    struct sigaction action = {.sa_handler = ask_to_stop};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        sigaction(ends[i], &action, NULL);
    action = (struct sigaction){.sa_handler = restore_and_die, .sa_flags = (int)SA_RESETHAND};
    for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++)
        sigaction(crashes[i], &action, NULL);
}

// Messages

static void say(struct screen *screen, char *message)
{
    free(screen->message);
    screen->message = message;
}

static void save(struct screen *screen)
{
    const char *begin = screen->settings->saved ? screen->settings->saved : screen->model->path;
    char *path = NULL, *message = NULL;
    for (unsigned i = 1; i < 1000; i++) {
        free(path);
        if (asprintf(&path, "%s.%u", begin, i) < 0)
            memory_checked(NULL);
        if (access(path, F_OK) != 0)
            break;
    }
    const int error = profile_write(screen->model->analysis.profile, path);
    const int made = error ? asprintf(&message, "cannot write %s: %s", path, new_file_error(error))
                           : asprintf(&message, "saved as %s", path);
    free(path);
    say(screen, made < 0 ? NULL : message);
}

// Drawing

static size_t row_lines(void)
{
    return LINES > TOP_LINES ? (size_t)(LINES - TOP_LINES) : 1;
}

static attr_t attributes_of(enum top_tone tone)
{
    switch (tone) {
    case TOP_BOLD:
        return A_BOLD;
    case TOP_DIM:
        return A_DIM;
    case TOP_HEAD:
        return A_UNDERLINE;
    case TOP_CHOSEN:
        return A_REVERSE;
    case TOP_PLAIN:
        break;
    }
    return A_NORMAL;
}

static void draw_frame(const struct top_frame *frame)
{
    erase();
    for (size_t i = 0; i < frame->count && i < (size_t)LINES; i++) {
        const struct top_line *line = &frame->lines[i];
        attrset(attributes_of(line->tone));
        move((int)i, 0);
        addstr(line->text);
        for (int at = (int)text_width(line->text); line->tone == TOP_CHOSEN && at < COLS; at++)
            addch(' ');
    }
    attrset(A_NORMAL);
    refresh();
}

// Keeps the chosen row on the screen, and the choice where its row has gone.
static void keep_choice(struct screen *screen)
{
    const size_t lines = row_lines(), count = screen->rows.count;
    for (size_t i = 0; i < count; i++)
        if (screen->rows.rows[i].key == screen->chosen_key) {
            screen->chosen = i;
            break;
        }
    if (screen->chosen >= count)
        screen->chosen = count ? count - 1 : 0;
    if (screen->chosen < screen->from)
        screen->from = screen->chosen;
    if (screen->chosen >= screen->from + lines)
        screen->from = screen->chosen - lines + 1;
    if (screen->from + lines > count)
        screen->from = count > lines ? count - lines : 0;
}

static void draw(struct screen *screen)
{
    char *prompt = NULL;
    const struct text_style style = {.unicode = screen->settings->unicode,
                                     .width = (unsigned)(COLS > 1 ? COLS - 1 : 1)};
    keep_choice(screen);
    if (screen->types && asprintf(&prompt, "/%s", screen->view->filter) < 0)
        memory_checked(NULL);
    const struct top_shown shown = {
        .model = screen->model,
        .view = screen->view,
        .rows = &screen->rows,
        .from = screen->from,
        .count = row_lines(),
        .chosen = screen->chosen,
        .paused = screen->paused,
        .message = prompt            ? prompt
                   : screen->message ? screen->message
                   : screen->model->state == TOP_ENDED && !screen->paused
                       ? "the recording has ended: "
                         "q quits, ? shows the keys"
                       : NULL,
    };
    struct top_frame frame = screen->helps ? top_help() : top_frame_make(&shown, &style);
    draw_frame(&frame);
    top_frame_free(&frame);
    free(prompt);
}

static void make_rows(struct screen *screen)
{
    char *error = NULL;
    top_rows_free(&screen->rows);
    screen->rows = top_rows_make(screen->model, screen->view, &error);
    if (error)
        say(screen, error);
}

static void read_profile(struct screen *screen)
{
    char *error = NULL;
    const uint64_t begin = now_ns(CLOCK_MONOTONIC);
    if (top_read(screen->model, &error) < 0)
        say(screen, error);
    make_rows(screen);
    const uint64_t end = now_ns(CLOCK_MONOTONIC), pause = (end - begin) * READING_PART;
    screen->next_ns =
        end + (pause > screen->settings->interval_ns ? pause : screen->settings->interval_ns);
}

// Keys

static void choose(struct screen *screen, size_t row)
{
    if (screen->rows.count == 0)
        return;
    screen->chosen = row < screen->rows.count ? row : screen->rows.count - 1;
    screen->chosen_key = screen->rows.rows[screen->chosen].key;
}

static void choose_above(struct screen *screen, size_t rows)
{
    choose(screen, screen->chosen > rows ? screen->chosen - rows : 0);
}

static void toggle(struct screen *screen, bool only_close)
{
    const struct top_row *row =
        screen->chosen < screen->rows.count ? &screen->rows.rows[screen->chosen] : NULL;
    if (!row || !row->has_children || (only_close && !row->is_open))
        return;
    screen->chosen_key = row->key;
    top_view_toggle(screen->view, row->key);
    make_rows(screen);
}

static void change_view(struct screen *screen)
{
    screen->view->kind = (screen->view->kind + 1) % TOP_VIEWS;
    screen->view->toggled_count = 0;
    screen->from = screen->chosen = 0;
    screen->chosen_key = 0;
    make_rows(screen);
}

static void type_filter(struct screen *screen, int key)
{
    char *filter = screen->view->filter;
    const size_t length = strlen(filter);
    if (key == '\n' || key == '\r' || key == KEY_ENTER) {
        screen->types = false;
    } else if (key == ESCAPE) {
        screen->types = false;
        filter[0] = '\0';
    } else if (key == KEY_BACKSPACE || key == BACKSPACE || key == '\b') {
        if (length)
            filter[length - 1] = '\0';
    } else if (key >= ' ' && key < BACKSPACE && length + 1 < sizeof screen->view->filter) {
        filter[length] = (char)key;
        filter[length + 1] = '\0';
    }
    say(screen, NULL);
    make_rows(screen);
}

// False: quit.
static bool take_key(struct screen *screen, int key)
{
    if (key == KEY_RESIZE)
        return true;
    if (screen->helps) {
        screen->helps = false;
        return key != 'q';
    }
    if (screen->types) {
        type_filter(screen, key);
        return true;
    }
    say(screen, NULL);
    switch (key) {
    case 'q':
        return false;
    case KEY_UP:
    case 'k':
        choose_above(screen, 1);
        break;
    case KEY_DOWN:
    case 'j':
        choose(screen, screen->chosen + 1);
        break;
    case KEY_PPAGE:
        choose_above(screen, row_lines() - PAGE_OVERLAP);
        break;
    case KEY_NPAGE:
        choose(screen, screen->chosen + row_lines() - PAGE_OVERLAP);
        break;
    case KEY_HOME:
    case 'g':
        choose(screen, 0);
        break;
    case KEY_END:
    case 'G':
        choose(screen, SIZE_MAX);
        break;
    case '\n':
    case '\r':
    case KEY_ENTER:
    case KEY_RIGHT:
        toggle(screen, false);
        break;
    case KEY_LEFT:
        toggle(screen, true);
        break;
    case '/':
        screen->types = true;
        break;
    case ESCAPE:
        screen->view->filter[0] = '\0';
        make_rows(screen);
        break;
    case 'm':
        top_choose(screen->model, top_next_metric(screen->model));
        make_rows(screen);
        break;
    case 'v':
    case '\t':
        change_view(screen);
        break;
    case 't':
        screen->view->order = screen->view->order == TOP_NOW ? TOP_ALL : TOP_NOW;
        make_rows(screen);
        break;
    case 's':
        save(screen);
        break;
    case ' ':
        screen->paused = !screen->paused;
        break;
    case '?':
    case 'h':
        screen->helps = true;
        break;
    }
    return true;
}

// Waits for keys, until the next reading is due. False: quit.
static bool wait_for_keys(struct screen *screen)
{
    const uint64_t now = now_ns(CLOCK_MONOTONIC);
    const bool reads = !screen->paused && screen->model->state == TOP_RUNS;
    const uint64_t left = screen->next_ns > now ? (screen->next_ns - now) / NS_PER_MS + 1 : 0;
    timeout(reads ? (int)left : 1000);
    const int key = getch();
    if (key != ERR)
        return take_key(screen, key);
    // A terminal that is gone has no more keys.
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    if (poll(&input, 1, 0) > 0 && input.revents & (POLLHUP | POLLERR | POLLNVAL))
        return false;
    if (!screen->paused && now_ns(CLOCK_MONOTONIC) >= screen->next_ns &&
        screen->model->state != TOP_ENDED)
        read_profile(screen);
    return true;
}

int top_screen(struct top_model *model, struct top_view *view, const struct top_settings *settings)
{
    struct screen screen = {.model = model, .view = view, .settings = settings};
    setlocale(LC_CTYPE, "");
    tcgetattr(STDOUT_FILENO, &terminal_before);
    SCREEN *terminal = newterm(NULL, stdout, stdin);
    if (!terminal)
        return -1;
    take_signals();
    cbreak();
    noecho();
    keypad(stdscr, TRUE);
    set_escdelay(50);
    curs_set(0);
    make_rows(&screen);
    screen.next_ns = now_ns(CLOCK_MONOTONIC) + settings->interval_ns;
    do
        draw(&screen);
    while (!stop && wait_for_keys(&screen));
    endwin();
    delscreen(terminal);
    top_rows_free(&screen.rows);
    free(screen.message);
    if (stop) { // as if we had not taken it
        signal(stop, SIG_DFL);
        raise(stop);
    }
    return 0;
}
