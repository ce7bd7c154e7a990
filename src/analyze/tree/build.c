// SPDX-License-Identifier: MIT

// How a path of the profile becomes a path of the call tree.
//
// A frame (call site, function) says which function was entered and where its caller stood. Where
// the *frame itself* stands is known from its children: the call site of a child frame and the
// instruction of a statement both lie in it. So the inlined functions of a frame are found when a
// child is met:
//
//   frame main ── frame (site in main, inside of inlined `each`) work     main
//                                                                  └ each  [inlined]
//                                                                     └ work
//
// Frames are named by their first instruction. Two cases need a look at the child as well: the
// first instruction is not known, or one unwind entry covers several functions (assembly, PLT).
// Then the symbol at the child's place is the better name. Not where calls are followed: a child
// may have been called by a function that is not, and that one has no frame.

#include "analyze/tree/build.h"
#include "analyze/names/names.h"
#include "analyze/tree/creation_path.h"
#include "base/memory.h"
#include "base/text/text.h"
#include "profile/queries/kind.h"

enum { LAST_LINE = (1 << 29) - 1 }; // lines of more places than memory has room for

struct place_in_tree {
    uint32_t base;        // the node above the frame
    uint32_t call : 29;   // where it is called: a number for functions_line()
    uint32_t counted : 1; // its calls and returns were given to a node
    uint32_t begins : 1; // no frame, but where a thread begins: a root, or the call that created it
    uint32_t started : 1; // the first frame of a thread whose creator is known
    uint32_t node;        // that it was found to be; its base: it is left out; CALL_NONE: not yet
};

struct builder {
    struct functions *functions;
    const struct profile *profile;
    const struct build_options *options;
    struct calltree *tree;
    const struct profile_tree *from;
    struct place_in_tree *places; // per node of `from`
    size_t capacity;
    uint64_t *counts;             // of one frame: its calls and what bounds them, 0 for costs
    struct known_functions known; // on the paths of creators
    unsigned python;              // the module of its functions; MODULE_NONE: there are none
    bool bounded;                 // paths may have been cut
    bool skips;                   // frames may be left out of a path
    bool blocks_alone;            // costs are memory, of blocks that the program has asked for
};

// Where something happens: the node, and the line in it.
struct position {
    uint32_t node;
    uint32_t line; // a number for functions_line()
};

// Of a call, the profile has the return address; the call itself lies before it.
static place_t call_place(place_t site)
{
    return place_offset(site) > 0 && place_is_known(site) ? site - 1 : 0;
}

// Parents stand before their children; a node that says otherwise is damaged, and becomes a root.
static bool is_root(const struct profile_tree *tree, uint32_t node)
{
    return tree->nodes[node].parent >= node;
}

// The places of a tree's nodes.
static void want_nodes(struct functions *functions, const struct profile_tree *tree)
{
    for (uint32_t i = 0; i < tree->count; i++) {
        const struct profile_node *node = &tree->nodes[i];
        const bool statement = node->function == 0;
        functions_want(functions, tree->process, statement ? node->site : call_place(node->site));
        functions_want(functions, tree->process, node->function);
    }
}

// The places of the path on which its threads were created.
static void want_creator(struct functions *functions, const struct profile *profile,
                         const struct profile_tree *tree)
{
    struct profile_tree path = creation_path(profile, tree, &(struct known_functions){0});
    for (uint32_t i = 1; i < path.count; i++) {
        functions_want(functions, tree->process, call_place(path.nodes[i].site));
        functions_want(functions, tree->process, path.nodes[i].function);
    }
    free(path.nodes);
}

void build_resolve(struct functions *functions, const struct profile *profile,
                   const struct build_options *options)
{
    for (unsigned t = 0; t < profile->tree_count; t++) {
        const struct profile_tree *tree = &profile->trees[t];
        if (!build_selects_process(functions, profile, tree->process, options))
            continue;
        functions_want(functions, tree->process, tree->start);
        want_nodes(functions, tree);
        if (options->across_threads)
            want_creator(functions, profile, tree);
    }
    functions_resolve(functions);
}

void build_resolve_starts(struct functions *functions, const struct profile *profile)
{
    for (unsigned t = 0; t < profile->tree_count; t++) {
        functions_want(functions, profile->trees[t].process, profile->trees[t].start);
        want_creator(functions, profile, &profile->trees[t]);
    }
    functions_resolve(functions);
}

static bool is_left_out(struct builder *builder, uint32_t function)
{
    const struct function *known = functions_get(builder->functions, function);
    // Nothing of the agent is the program's doing.
    if (known->agent || known->entry || (known->kernel && builder->options->without_kernel) ||
        (known->runtime && builder->options->native))
        return true;
    // Neither this nor malloc() says who allocates: its caller does.
    if (builder->blocks_alone && strncmp(known->name, "operator new", 12) == 0)
        return true;
    for (unsigned i = 0; i < builder->options->ignore_count; i++)
        if (pattern_matches(builder->options->ignore[i], builder->functions, function))
            return true;
    return false;
}

// The kernel's own function of a system call stands below the call, which has the same name.
static bool is_same_call(const struct builder *builder, uint32_t base, uint32_t function)
{
    const struct function *known = functions_get(builder->functions, function);
    return known->kernel && builder->tree->nodes[base].function == function &&
           strncmp(known->name, "sys_", 4) == 0;
}

static const struct located *real_function(struct builder *builder, const struct spot *spot)
{
    return functions_located(builder->functions, spot) + spot->count - 1;
}

// The names at the first instruction of a frame. They are looked up each time: there are as many
// frames as nodes, and each byte of them counts. NULL: it is not known.
static const struct spot *entry_of(const struct builder *builder, uint32_t frame)
{
    return functions_look_up(builder->functions, builder->from->process,
                             builder->from->nodes[frame].function);
}

// The function of a frame, seen from a place inside of it.
static uint32_t frame_function(struct builder *builder, uint32_t frame, const struct spot *inside)
{
    const struct spot *entry = entry_of(builder, frame);
    place_t begin = builder->from->nodes[frame].function;
    bool inside_is_better = inside && inside->begin != 0 &&
                            (!entry || (inside->begin > begin && !builder->skips)) &&
                            place_module(inside->begin) == place_module(begin);
    if (inside && (inside_is_better || !entry))
        return real_function(builder, inside)->function;
    if (entry)
        return real_function(builder, entry)->function;
    const char *module = functions_module_name(builder->functions, place_module(begin));
    char name[256];
    snprintf(name, sizeof name, "<unknown in %s>", module ? module : "no module");
    return functions_intern(builder->functions, name, place_module(begin));
}

// The line at which the function of a frame begins: a number for functions_line().
static uint32_t entry_line(const struct builder *builder, uint32_t frame)
{
    const struct spot *entry = entry_of(builder, frame);
    return entry ? entry->first + entry->count - 1 : 0;
}

// Gives calls and returns of a frame to the first node that it is found to be.
static void give_counts(struct builder *builder, uint32_t frame, uint32_t node)
{
    unsigned metrics = builder->profile->metric_count;
    const uint64_t *values = builder->from->values + (size_t)frame * metrics;
    if (builder->places[frame].counted)
        return;
    builder->places[frame].counted = true;
    bool any = false;
    for (unsigned i = 0; i < metrics; i++) {
        bool cost = profile_is_cost(&builder->profile->metrics[i]);
        builder->counts[i] = cost ? 0 : values[i];
        any |= !cost && values[i] > 0;
        if (cost)
            calltree_add_returns(builder->tree, node, values[i]);
    }
    const struct function *function = calltree_function(builder->tree, node);
    if (any && builder->options->places)
        calltree_add(builder->tree, node, 0, entry_line(builder, frame), builder->counts);
    else if (any)
        calltree_add(builder->tree, node, function->file, function->line, builder->counts);
}

static struct call_edge edge_from(const struct builder *builder, uint32_t line, uint32_t function,
                                  enum call_kind kind)
{
    if (builder->options->places)
        return (struct call_edge){.function = function, .kind = kind, .call_line = line};
    const struct located *call = functions_line(builder->functions, line);
    return (struct call_edge){
        .function = function, .kind = kind, .call_file = call->file, .call_line = call->line};
}

// The node of a frame. A frame that is left out has the node it hangs under.
static uint32_t frame_node(struct builder *builder, uint32_t frame, const struct spot *inside)
{
    uint32_t function = frame_function(builder, frame, inside);
    struct place_in_tree *place = &builder->places[frame];
    if (place->node != CALL_NONE && place->node != place->base &&
        builder->tree->nodes[place->node].function == function)
        return place->node;
    if (is_left_out(builder, function) || is_same_call(builder, place->base, function)) {
        place->node = place->base;
        return place->node;
    }
    const enum call_kind kind = place->started ? CALL_STARTED : CALL_FUNCTION;
    place->node =
        calltree_child(builder->tree, place->base, edge_from(builder, place->call, function, kind));
    give_counts(builder, frame, place->node);
    return place->node;
}

// Goes from the node of a frame down into what was inlined at a spot of it.
static struct position enter_inlined(struct builder *builder, uint32_t node,
                                     const struct spot *spot)
{
    const struct located *located = functions_located(builder->functions, spot);
    uint32_t last = spot->count - 1;
    struct position at = {node, spot->first + last};
    for (uint32_t i = last; i-- > 0;) {
        if (is_left_out(builder, located[i].function))
            continue;
        at.node = calltree_child(builder->tree, at.node,
                                 edge_from(builder, at.line, located[i].function, CALL_INLINED));
        at.line = spot->first + i;
        functions_define(builder->functions, located[i].function, located[i].file, 0);
    }
    return at;
}

// The position of a place inside of a frame; `inside` is 0 where it is not known.
static struct position locate(struct builder *builder, uint32_t frame, place_t inside)
{
    struct place_in_tree *place = &builder->places[frame];
    if (place->begins)
        return (struct position){place->node, place->call};
    const struct spot *spot = functions_look_up(builder->functions, builder->from->process, inside);
    uint32_t node = frame_node(builder, frame, spot);
    if (node == place->base) // left out: as if the caller stood at the call
        return (struct position){node, place->call};
    if (!spot)
        return (struct position){node, 0};
    // In another frame, which is left out?
    if (builder->skips &&
        real_function(builder, spot)->function != builder->tree->nodes[node].function)
        return (struct position){node, spot->first + spot->count - 1};
    return enter_inlined(builder, node, spot);
}

// The group of a process, a thread or a phase, with its number if these are kept apart.
static uint32_t named_node(struct builder *builder, uint32_t parent, enum call_kind kind,
                           const char *text, uint32_t number)
{
    char *name = NULL;
    if ((number ? asprintf(&name, "%s [%u]", text, number) : asprintf(&name, "%s", text)) < 0)
        memory_checked(NULL);
    const uint32_t function = functions_intern(builder->functions, name, MODULE_NONE);
    free(name);
    return calltree_child(builder->tree, parent,
                          (struct call_edge){.function = function, .kind = kind});
}

static uint32_t group_node(struct builder *builder)
{
    const struct profile_tree *from = builder->from;
    const struct names *names = functions_names(builder->functions);
    const enum thread_split threads = builder->options->threads;
    uint32_t node = 0;
    if (from->process >= builder->profile->process_count)
        ; // damaged
    else if (builder->options->processes == PROCESSES_BY_PROGRAM)
        node = named_node(builder, node, CALL_PROCESS, names_program(names, from->process), 0);
    else if (builder->options->processes == PROCESSES_APART)
        node = named_node(builder, node, CALL_PROCESS, names_process(names, from->process),
                          builder->profile->processes[from->process].pid);
    if (threads != THREADS_MERGED)
        node = named_node(builder, node, CALL_THREAD,
                          build_thread_name(builder->functions, builder->profile, from, threads),
                          threads == THREADS_APART ? from->tid : 0);
    if (builder->options->phases && from->phase[0])
        node = named_node(builder, node, CALL_PHASE, from->phase, 0);
    return node;
}

// In a bounded tree: where a walk was cut. A frame without a caller has no site.
static bool is_detached(const struct builder *builder, uint32_t index)
{
    const struct profile_node *node = &builder->from->nodes[index];
    return builder->bounded && is_root(builder->from, node->parent) && node->site == PLACE_UNKNOWN;
}

// Whether a created thread begins in a frame below that node.
static bool is_started(const struct builder *builder, uint32_t parent)
{
    const struct place_in_tree *place = &builder->places[parent];
    return place->begins && call_is_code(&builder->tree->nodes[place->node]);
}

// The oldest of the Python functions that run in a frame of the interpreter. They stand in for it.
static bool replaces_caller(const struct builder *builder, const struct profile_node *node)
{
    const place_t caller = builder->from->nodes[node->parent].function;
    return builder->python && !builder->options->native && !builder->places[node->parent].begins &&
           place_module(node->function) == builder->python &&
           place_module(caller) != builder->python;
}

// Where a frame was called from.
static struct position locate_call(struct builder *builder, const struct profile_node *node)
{
    if (!replaces_caller(builder, node))
        return locate(builder, node->parent, call_place(node->site));
    const struct place_in_tree *interpreter = &builder->places[node->parent];
    return (struct position){interpreter->base, interpreter->call};
}

static void add_frame(struct builder *builder, uint32_t index)
{
    const struct profile_node *node = &builder->from->nodes[index];
    struct position caller = locate_call(builder, node);
    const struct spot *entry = entry_of(builder, index);
    if (is_detached(builder, index))
        caller.node =
            calltree_child(builder->tree, caller.node,
                           (struct call_edge){.function = functions_intern(builder->functions,
                                                                           DETACHED, MODULE_NONE),
                                              .kind = CALL_FUNCTION});
    builder->places[index] = (struct place_in_tree){
        .base = caller.node,
        .call = caller.line & LAST_LINE,
        .node = CALL_NONE,
        .counted = !builder->from->values,
        .started = is_started(builder, node->parent),
    };
    if (entry) {
        const struct located *real = real_function(builder, entry);
        functions_define(builder->functions, real->function, real->file, real->line);
    }
}

// Cost that belongs to no function: the end of a thread, or samples without room for a path.
static uint32_t unplaced_node(struct builder *builder, uint32_t group)
{
    uint32_t function = functions_intern(builder->functions, NO_PATH, MODULE_NONE);
    return calltree_child(builder->tree, group,
                          (struct call_edge){.function = function, .kind = CALL_FUNCTION});
}

static void add_statement(struct builder *builder, uint32_t index)
{
    const struct profile_node *node = &builder->from->nodes[index];
    unsigned metrics = builder->profile->metric_count;
    struct position at = locate(builder, node->parent, node->site);
    if (!call_is_code(&builder->tree->nodes[at.node]) || builder->places[node->parent].begins)
        at.node = unplaced_node(builder, at.node);
    const struct located *line = functions_line(builder->functions, at.line);
    const bool places = builder->options->places;
    calltree_add(builder->tree, at.node, places ? 0 : line->file, places ? at.line : line->line,
                 builder->from->values + (size_t)index * metrics);
    // A damaged profile may have something below a statement.
    builder->places[index] =
        (struct place_in_tree){.base = at.node, .call = at.line & LAST_LINE, .node = CALL_NONE};
}

static bool has_counts(const struct builder *builder, uint32_t frame)
{
    unsigned metrics = builder->profile->metric_count;
    for (unsigned i = 0; i < metrics; i++)
        if (builder->from->values[(size_t)frame * metrics + i] > 0)
            return true;
    return false;
}

static void begin_tree(struct builder *builder, const struct profile_tree *from)
{
    builder->from = from;
    builder->places =
        memory_grown(builder->places, &builder->capacity, from->count, sizeof *builder->places);
}

static struct place_in_tree beginning(struct position at)
{
    return (struct place_in_tree){
        .base = at.node, .call = at.line & LAST_LINE, .node = at.node, .begins = 1};
}

// Where the threads of a tree begin: below the call that created them, if that is asked for.
static struct position add_creator(struct builder *builder, const struct profile_tree *of)
{
    struct position at = {group_node(builder), 0};
    if (!builder->options->across_threads || !of->creator)
        return at;
    struct profile_tree path = creation_path(builder->profile, of, &builder->known);
    begin_tree(builder, &path);
    builder->places[0] = beginning(at);
    for (uint32_t i = 1; i < path.count; i++) {
        const struct profile_node *node = &path.nodes[i];
        if (node->function) {
            add_frame(builder, i);
            continue;
        }
        at = locate(builder, node->parent, call_place(node->site));
        builder->places[i] = beginning(at);
    }
    free(path.nodes);
    return at;
}

static void add_tree(struct builder *builder, const struct profile_tree *from)
{
    builder->from = from;
    const struct position begin = add_creator(builder, from);
    begin_tree(builder, from);
    for (uint32_t i = 0; i < from->count; i++) {
        const struct profile_node *node = &from->nodes[i];
        if (is_root(from, i))
            builder->places[i] = beginning(begin);
        else if (node->function == 0)
            add_statement(builder, i);
        else
            add_frame(builder, i);
    }
    // Frames that nothing but calls or returns were counted in.
    for (uint32_t i = 0; i < from->count; i++)
        if (from->nodes[i].function != 0 && !is_root(from, i) && !builder->places[i].counted &&
            has_counts(builder, i))
            frame_node(builder, i, NULL);
}

// Blocks were counted, and neither time nor calls beside them.
static bool has_blocks_alone(const struct profile *profile)
{
    bool blocks = false;
    for (unsigned i = 0; i < profile->metric_count; i++) {
        const struct profile_metric *metric = &profile->metrics[i];
        if (strcmp(metric->unit, "ns") == 0 || profile_counts_calls(metric) ||
            profile_is_io(metric) || profile_is_lock(metric))
            return false;
        blocks |= strcmp(metric->name, "alloc") == 0;
    }
    return blocks;
}

static unsigned python_module(const struct profile *profile)
{
    for (unsigned i = MODULE_FIRST_FILE; i < profile->module_count; i++)
        if (profile_is_python(profile->modules[i].path))
            return i;
    return MODULE_NONE;
}

static struct builder begin(struct functions *functions, const struct profile *profile,
                            const struct build_options *options)
{
    const char *command =
        profile->command && profile->command[0] ? last_part(profile->command[0]) : "all";
    struct builder builder = {
        .functions = functions,
        .profile = profile,
        .options = options,
        .tree = calltree_new(functions, profile->metric_count, command),
        .counts = memory_array(profile->metric_count, sizeof *builder.counts),
        .known = options->across_threads ? known_functions(profile) : (struct known_functions){0},
        .python = python_module(profile),
        .bounded = profile_kind(profile).bounded,
        .skips = profile->tracker && strstr(profile->tracker, "calls"),
        .blocks_alone = has_blocks_alone(profile),
    };
    builder.tree->sites = options->sites || options->places;
    builder.tree->keep_lines = options->lines || options->places;
    return builder;
}

static struct calltree *finish(struct builder *builder)
{
    free(builder->places);
    free(builder->counts);
    known_functions_free(&builder->known);
    calltree_sum(builder->tree);
    return builder->tree;
}

// Of the tree that was added last.
static struct build_image image_of(const struct builder *builder)
{
    const uint32_t count = builder->from->count;
    struct build_image image = {.nodes = memory_array(count, sizeof *image.nodes),
                                .lines = memory_array(count, sizeof *image.lines)};
    for (uint32_t i = 0; i < count; i++) {
        const struct place_in_tree *place = &builder->places[i];
        image.nodes[i] = place->node == CALL_NONE ? place->base : place->node;
        image.lines[i] = place->call;
    }
    return image;
}

struct calltree *build_calltree_images(struct functions *functions, const struct profile *profile,
                                       const struct build_options *options,
                                       struct build_image *images)
{
    struct builder builder = begin(functions, profile, options);
    for (unsigned t = 0; t < profile->tree_count; t++) {
        if (!build_selects(functions, profile, &profile->trees[t], options))
            continue;
        add_tree(&builder, &profile->trees[t]);
        if (images)
            images[t] = image_of(&builder);
    }
    return finish(&builder);
}

struct calltree *build_calltree(struct functions *functions, const struct profile *profile,
                                const struct build_options *options)
{
    return build_calltree_images(functions, profile, options, NULL);
}

void build_images_free(struct build_image *images, unsigned trees)
{
    for (unsigned t = 0; images && t < trees; t++) {
        free(images[t].nodes);
        free(images[t].lines);
    }
    free(images);
}

struct calltree *build_thread_calltree(struct functions *functions, const struct profile *profile,
                                       const struct build_options *options, uint32_t tree,
                                       uint32_t **nodes)
{
    struct builder builder = begin(functions, profile, options);
    add_tree(&builder, &profile->trees[tree]);
    if (nodes) {
        const struct build_image image = image_of(&builder);
        free(image.lines);
        *nodes = image.nodes;
    }
    return finish(&builder);
}
