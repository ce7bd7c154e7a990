# SPDX-License-Identifier: MIT
"""Others who look at the stack see what is there, not our marker."""

import os
import re
import subprocess
import time
import unittest

from support import CAIRN, STORM, LiveTest, Run, installed, program

SOURCES = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "programs")

PLUGIN = """
#include <unwind.h>
struct seen { int frames, own; };
int count(void *into);
static _Unwind_Reason_Code visit(struct _Unwind_Context *context, void *argument)
{
    struct seen *seen = argument;
    seen->frames++;
    seen->own += (void *)_Unwind_FindEnclosingFunction((void *)_Unwind_GetIP(context)) == (void *)count;
    return _URC_NO_REASON;
}
int count(void *into)
{
    return _Unwind_Backtrace(visit, into) + 1;
}
"""

HOST = """
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    void *plugin = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    int (*count)(void *) = plugin ? (int (*)(void *))dlsym(plugin, "count") : NULL;
    struct { int frames, own; } seen = {0, 0};
    if (!count || !count(&seen))
        return 1;
    printf("%s frames, %d of them the plugin's\\n", seen.frames > 2 ? "some" : "no", seen.own);
    return 0;
}
"""


OPENS = """
#include <dlfcn.h>
int main(int argc, char **argv)
{
    int (*run)(int, char **) = (int (*)(int, char **))dlsym(dlopen(argv[1], RTLD_NOW), "plugin_main");
    int status = run(argc - 1, argv + 1);
    __asm__ volatile("" ::: "memory");
    return status;
}
"""

# As libexecinfo has it, for C libraries without one: asks nobody where tables are.
OWN_BACKTRACE = """
int backtrace(void **buffer, int size)
{
    void **frame = __builtin_frame_address(0);
    int count = 0;
    for (; count < size && frame && frame[1]; frame = frame[0])
        buffer[count++] = frame[1];
    return count;
}
"""

LOOKS = """
#include <stdio.h>
int backtrace(void **buffer, int size);
enum { DEPTH = 20 };
static unsigned long looks, wrong;
static volatile unsigned long sink;
extern char __executable_start, etext;
__attribute__((noipa)) static void look(void)
{
    void *frames[DEPTH];
    int count = backtrace(frames, DEPTH);
    for (int i = 0; i < count; i++)
        wrong += (char *)frames[i] < &__executable_start || (char *)frames[i] > &etext;
    looks += count == DEPTH;
}
__attribute__((noipa)) static void descend(int depth)
{
    for (int i = 0; i < 60000; i++)
        sink += i;
    if (depth)
        descend(depth - 1);
    else
        look();
    sink++;
}
int main(void)
{
    for (int i = 0; i < 1000; i++)
        descend(DEPTH + i % 7);
    printf("%lu looks, %lu frames that are not the program's\\n", looks, wrong);
    return 0;
}
"""

# A library that is opened with RTLD_DEEPBIND has an unwinder that asks libc for its tables, and not the agent.
DEEP = """
#include <cstdio>
#include <stdexcept>
static volatile unsigned long sink;
__attribute__((noipa)) static void work()
{
    for (int i = 0; i < 20000; i++)
        sink = sink + i;
}
__attribute__((noipa)) static int throw_below(int depth)
{
    work();
    if (depth == 0)
        throw std::runtime_error("thrown");
    int result = throw_below(depth - 1) + 1;
    work();
    return result;
}
__attribute__((noipa)) static int catch_above(int depth)
{
    try {
        return throw_below(depth);
    } catch (const std::runtime_error &) {
        work();
        return depth;
    }
}
extern "C" void throw_and_catch(void)
{
    long sum = 0;
    for (int i = 0; i < 1500; i++)
        sum += catch_above(i % 12);
    std::printf("caught %ld\\n", sum);
}
"""
OPENS_DEEP = LOOKS.replace("int main(void)\n{", """#include <dlfcn.h>
int main(int argc, char **argv)
{
    void *library = dlopen(argv[argc - 1], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    ((void (*)(void))dlsym(library, "throw_and_catch"))();""")

NUMBERS = ("--track", "encode", "--verify")
HAS_LIBUNWIND = not subprocess.run(["cc", "-E", "-include", "libunwind.h", "-x", "c", "/dev/null"],
                                   capture_output=True).returncode


class Unwinders(LiveTest):
    def test_backtraces_of_the_program(self):
        graph = {
            "": "trace_thread",
            "main": "run_digest trace_level",
            "run_digest": "trace_level",
            "trace_thread": "trace_level",
            "trace_level": "trace_level trace_work trace_glibc trace_unwind",
            "trace_unwind": "visit",
            "trace_work": "burn",
            "*": "add_frame visit",
        }
        self.survives([program("backtraces"), "digest"], graph)

    def test_a_backtrace_of_the_program_by_frame_pointers_sees_its_frames(self):
        self.file("backtrace.c", OWN_BACKTRACE)
        self.file("looks.c", LOOKS)
        for words in (("backtrace.c", "-shared", "-fPIC", "-o", "libtrace.so"),
                      ("looks.c", "-o", "looks", "-L.", "-ltrace", "-Wl,-rpath,$ORIGIN")):
            made = Run(["cc", "-O1", "-fno-omit-frame-pointer", *words], cwd=self.folder)
            self.assertEqual(made.status, 0, made.words)
        native = self.native(["./looks"])
        self.assertEqual(native.text, "1000 looks, 0 frames that are not the program's\n")
        run, profile = self.record(["./looks"], *STORM)
        self.assert_same(run, native)
        self.assertGreater(profile.info["walks"]["marker"], profile.samples / 2, profile.info["walks"])

    def test_exceptions_and_backtraces_that_ask_the_loader_themselves(self):
        """The marker is on the stack when the unwinder looks at it: exceptions take it away, and backtrace() sees none."""
        self.build("-shared", "-fPIC", "-x", "c++", "-o", "deep.so", self.file("deep.cc", DEEP), "-lstdc++")
        self.build("-o", "opens", self.file("opens.c", OPENS_DEEP))
        argv = [self.file("opens"), self.file("deep.so")]
        native = self.native(argv)
        self.assertEqual(native.text, "caught 8250\n1000 looks, 0 frames that are not the program's\n")
        run, profile = self.record(argv, *STORM)
        self.assert_same(run, native)
        self.assert_complete(profile)
        self.assertGreater(profile.info["walks"]["marker"], 100, profile.info["walks"])

    def test_backtraces_without_a_recording(self):
        """As in threads that could not be sampled: the agent is there, but has no walker."""
        argv = [program("backtraces"), "digest"]
        agent = os.path.join(os.path.dirname(CAIRN), "libcairn.so")
        loaded = Run(argv, cwd=self.folder, env=dict(os.environ, LD_PRELOAD=agent))
        native = self.native(argv)
        self.assertEqual((loaded.status, loaded.text), (native.status, native.text), loaded.words)

    def see_the_same(self, argv, *options):
        """What a program has seen of its stack, in either thread, is what it sees without us."""
        native = self.native(argv)
        self.assertEqual(native.status, 0, native.words)
        self.assertEqual(native.text.count(" 0 times others"), 2, native.text)
        run, profile = self.record(argv, *options)
        self.assert_same(run, native)
        return profile

    def test_unwinders_that_can_be_interposed_and_others(self):
        """One that is linked into the program asks for its tables, and there is no marker then."""
        for options in (STORM, NUMBERS):
            for name in ("traces", "traces-static-runtime"):
                for way in ("libgcc", "libc"):
                    with self.subTest(program=name, way=way, options=options):
                        profile = self.see_the_same([program(name), way], *options)
                        self.assert_complete(profile)
                        self.assertEqual(profile.info["notes"], [])
                        if options == NUMBERS:
                            self.assertEqual(profile.info["encode"]["mismatches"], 0)

    def test_functions_that_load_their_return_address(self):
        """They are never marked; what they are called from may be."""
        for options in (NUMBERS, ("-F", "1000"), STORM):
            self.see_the_same([program("traces"), "caller"], *options)

    def build(self, *arguments):
        built = self.native(["cc", "-O2", "-D_GNU_SOURCE", *arguments])
        self.assertEqual(built.status, 0, built.words)

    @unittest.skipUnless(HAS_LIBUNWIND, "not installed: libunwind-dev")
    def test_libunwind(self):
        """It remembers tables, and asks nobody when it looks at a stack: no marker and no stub, then."""
        source = os.path.join(SOURCES, "traces.c")
        self.build("-DWITH_LIBUNWIND", "-pthread", "-o", "shared", source, "-lunwind")
        self.build("-DWITH_LIBUNWIND", "-pthread", "-no-pie", "-fno-pie", "-o", "static", source,
                   "-l:libunwind.a", "-llzma")
        self.build("-DWITH_LIBUNWIND", "-pthread", "-shared", "-fPIC", "-Dmain=plugin_main", "-o",
                   "plugin.so", source, "-lunwind")
        self.build("-o", "opens", self.file("opens.c", OPENS))
        programs = ([self.file("shared")], [self.file("static")],
                    [self.file("opens"), self.file("plugin.so")])
        for options in (STORM, NUMBERS):
            for argv in programs:
                for way in ("steps", "libunwind"):
                    with self.subTest(argv=argv, way=way, options=options):
                        profile = self.see_the_same([*argv, way], *options)
                        self.assert_complete(profile)
                        self.assertIn("unwinder of its own", "".join(profile.info["notes"]))

    @installed("gdb")
    def test_gdb_while_marked(self):
        argv = [CAIRN, "record", "-q", "-F", "10000", "-o", self.file("profile"),
                program("backtraces"), "watched"]
        process = subprocess.Popen(argv, cwd=self.folder, stdout=subprocess.PIPE)
        try:
            pid = process.stdout.readline().decode().strip()
            for _ in range(5):
                time.sleep(0.1)
                debugger = self.native(
                    ["gdb", "-nx", "--batch", "-p", pid, "-ex", "bt"],
                    timeout=60)
                frames = re.findall(r"^#\d+ +(?:0x[0-9a-f]+ in )?(\S+)", debugger.text, re.M)
                ours = [name for name in frames if name.startswith("watched") or name == "main"]
                self.assertEqual(ours, ["watched_bottom"] + ["watched_middle"] * 11 + ["main"],
                                 debugger.text + debugger.words)
        finally:
            open(os.path.join(self.folder, "stop"), "w").close()
            process.stdout.read()
            self.assertEqual(process.wait(60), 0)
        process.stdout.close()

    def test_an_unwinder_that_only_a_plugin_has(self):
        """Without us its calls would find it, in the scope of the plugin alone."""
        self.file("plugin.c", PLUGIN)
        self.file("host.c", HOST)
        for compile_ in (["-shared", "-fPIC", "-shared-libgcc", "-o", "plugin.so", "plugin.c"],
                         ["-o", "host", "host.c"]):
            built = self.native(["cc", "-O1", *compile_])
            self.assertEqual(built.status, 0, built.words)
        host = [self.file("host"), self.file("plugin.so")]
        native = self.native(host)
        self.assertEqual(native.text, "some frames, 1 of them the plugin's\n")
        for options in ((), ("--track", "encode"), ("--track", "calls")):
            with self.subTest(options=options):
                run, _ = self.record(host, *options)
                self.assert_same(run, native)

    @installed("luajit")
    def test_a_personality_that_asks_for_its_frame(self):
        """LuaJIT finds its state by the address of the frame that an exception has come to."""
        script = """
            local count = 0
            for i = 1, 20000 do
                local fine, why = pcall(function(n) if n % 3 == 0 then error({n}) end; return tostring(n) end, i)
                count = count + (fine and #why or why[1])
            end
            print(count, coroutine.wrap(function() local _, e = pcall(error, "x"); coroutine.yield(e) end)())
        """
        argv = ["luajit", self.file("script.lua", script)]
        native = self.native(argv)
        self.assertEqual(native.status, 0, native.words)
        for options in ((), ("--track", "encode", "--verify"), ("--track", "calls"),
                        ("-e", "alloc", "--track", "encode")):
            with self.subTest(options=options):
                run, profile = self.record(argv, *options)
                self.assert_same(run, native)
                if "--verify" in options:
                    self.assertEqual(profile.info["encode"]["mismatches"], 0)


if __name__ == "__main__":
    unittest.main()
