// SPDX-License-Identifier: MIT

// Names in fewer columns: real ones, as demanglers and debug information give them.

#include "analyze/names/short_name.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
// cmocka wants the ones above first.
#include <cmocka.h>

struct example {
    const char *name, *stages[NAME_STAGES - 1];
};

static void stages_keep_what_tells_apart(void **state)
{
    static const struct example examples[] = {
        {"main", {"main", "main", "main", "main"}},
        {"Perl_sv_setpv", {"Perl_sv_setpv", "Perl_sv_setpv", "Perl_sv_setpv", "Perl_sv_setpv"}},
        {"rg+0x1f25d0", {"rg+0x1f25d0", "rg+0x1f25d0", "rg+0x1f25d0", "rg+0x1f25d0"}},
        {"<no call path>",
         {"<no call path>", "<no call path>", "<no call path>", "<no call path>"}},
        {"void shop::sort<std::less<int> >(std::vector<int>&, std::less<int>)",
         {"shop::sort<std::less<int> >", "shop::sort<…>", "shop::sort", "sort"}},
        {"std::vector<int, std::allocator<int> >::operator[](unsigned long) const",
         {"std::vector<int, std::allocator<int> >::operator[]", "std::vector<…>::operator[]",
          "std::vector::operator[]", "vector::operator[]"}},
        {"std::operator< <char, std::char_traits<char>, std::allocator<char> >",
         {"std::operator< <char, std::char_traits<char>, std::allocator<char> >",
          "std::operator< <…>", "std::operator<", "std::operator<"}},
        {"bool std::operator==<char>(std::string const&, char const*)",
         {"std::operator==<char>", "std::operator==<…>", "std::operator==", "std::operator=="}},
        {"std::ostream& std::operator<< <std::char_traits<char> >(std::ostream&, char const*)",
         {"std::operator<< <std::char_traits<char> >", "std::operator<< <…>", "std::operator<<",
          "std::operator<<"}},
        {"A::operator->() const",
         {"A::operator->", "A::operator->", "A::operator->", "A::operator->"}},
        {"n::Text::operator std::vector<int, std::allocator<int> >() const",
         {"n::Text::operator std::vector<int, std::allocator<int> >",
          "n::Text::operator std::vector<int, std::allocator<int> >",
          "n::Text::operator std::vector<int, std::allocator<int> >",
          "Text::operator std::vector<int, std::allocator<int> >"}},
        {"operator new(unsigned long)",
         {"operator new", "operator new", "operator new", "operator new"}},
        {"operator delete[](void*)",
         {"operator delete[]", "operator delete[]", "operator delete[]", "operator delete[]"}},
        {"worker(int)::{lambda(std::string const&)#2}::operator()(std::string const&) const",
         {"worker::{lambda#2}::operator()", "worker::{lambda#2}", "worker::{lambda#2}",
          "worker::{lambda#2}"}},
        {"main::{lambda}::operator()",
         {"main::{lambda}::operator()", "main::{lambda}", "main::{lambda}", "main::{lambda}"}},
        {"std::_Function_handler<long (std::string const&), worker(int)::{lambda(std::string "
         "const&)#2}>::_M_invoke",
         {"std::_Function_handler<long (std::string const&), worker(int)::{lambda(std::string "
          "const&)#2}>::_M_invoke",
          "std::_Function_handler<…>::_M_invoke", "_Function_handler::_M_invoke", "_M_invoke"}},
        {"std::__invoke<main()::<lambda()> >",
         {"std::__invoke<main()::<lambda()> >", "std::__invoke<…>", "std::__invoke", "__invoke"}},
        {"(anonymous namespace)::Parser::parse(char const*)",
         {"(anonymous namespace)::Parser::parse", "(anonymous namespace)::Parser::parse",
          "Parser::parse", "parse"}},
        {"void (anonymous namespace)::visit<int>(int)",
         {"(anonymous namespace)::visit<int>", "(anonymous namespace)::visit<…>",
          "(anonymous namespace)::visit", "visit"}},
        {"shop::Store::~Store()",
         {"shop::Store::~Store", "shop::Store::~Store", "shop::Store::~Store", "Store::~Store"}},
        {"shop::build_index[abi:cxx11](int)",
         {"shop::build_index", "shop::build_index", "shop::build_index", "build_index"}},
        {"lra_assign(bool&) [clone .part.0]",
         {"lra_assign", "lra_assign", "lra_assign", "lra_assign"}},
        {"lookup.constprop.0",
         {"lookup.constprop.0", "lookup.constprop.0", "lookup.constprop.0", "lookup.constprop.0"}},
        {"std::string::swap@plt",
         {"std::string::swap@plt", "std::string::swap@plt", "string::swap@plt", "swap@plt"}},
        {"std::function<long (int)>::operator()(int) const",
         {"std::function<long (int)>::operator()", "std::function<…>::operator()",
          "std::function::operator()", "function::operator()"}},
        {"std::string const",
         {"std::string const", "std::string const", "std::string const", "string const"}},
        {"unsigned long", {"unsigned long", "unsigned long", "unsigned long", "unsigned long"}},
        // Rust
        {"<regex_automata::util::pool::Guard as core::ops::drop::Drop>::drop",
         {"<regex_automata::util::pool::Guard as core::ops::drop::Drop>::drop",
          "<Guard as Drop>::drop", "Guard::drop", "drop"}},
        {"<alloc::boxed::Box<F,A> as core::ops::function::FnOnce<Args>>::call_once",
         {"<alloc::boxed::Box<F,A> as core::ops::function::FnOnce<Args>>::call_once",
          "<Box as FnOnce>::call_once", "Box::call_once", "call_once"}},
        {"core::ptr::drop_in_place<alloc::vec::Vec<u8>>",
         {"core::ptr::drop_in_place<alloc::vec::Vec<u8>>", "core::ptr::drop_in_place<…>",
          "ptr::drop_in_place", "drop_in_place"}},
        {"ignore::walk::Worker::run::{closure#0}",
         {"ignore::walk::Worker::run::{closure#0}", "ignore::walk::Worker::run::{closure#0}",
          "Worker::run::{closure#0}", "run::{closure#0}"}},
        {"grep::main::{{closure}}::h0123456789abcdef",
         {"grep::main::{{closure}}", "grep::main::{{closure}}", "grep::main::{{closure}}",
          "main::{{closure}}"}},
        {"core::str::<impl str>::parse",
         {"core::str::<impl str>::parse", "core::str::<impl str>::parse", "<impl str>::parse",
          "parse"}},
        {"core::ops::function::impls::<impl core::ops::function::FnOnce<A> for &F>::call_once",
         {"core::ops::function::impls::<impl core::ops::function::FnOnce<A> for &F>::call_once",
          "core::ops::function::impls::<impl core::ops::function::FnOnce<A> for &F>::call_once",
          "<impl core::ops::function::FnOnce<A> for &F>::call_once", "call_once"}},
        {"std::panicking::catch_unwind::<i32, &dyn core::ops::function::Fn<(), Output = i32>>",
         {"std::panicking::catch_unwind::<i32, &dyn core::ops::function::Fn<(), Output = i32>>",
          "std::panicking::catch_unwind<…>", "panicking::catch_unwind", "catch_unwind"}},
        {"<std::sys::thread::unix::Thread>::new::thread_start",
         {"<std::sys::thread::unix::Thread>::new::thread_start", "<Thread>::new::thread_start",
          "new::thread_start", "thread_start"}},
        {"<f64>::sin", {"<f64>::sin", "<f64>::sin", "f64::sin", "sin"}},
        {"<regex::Searcher<F> as core::iter::Iterator>::next::{closure#1}",
         {"<regex::Searcher<F> as core::iter::Iterator>::next::{closure#1}",
          "<Searcher as Iterator>::next::{closure#1}", "Searcher::next::{closure#1}",
          "next::{closure#1}"}},
        // Ada, D, Go
        {"ada.text_io.put_line",
         {"ada.text_io.put_line", "ada.text_io.put_line", "text_io.put_line", "put_line"}},
        {"std.algorithm.sorting.sort!(\"a < b\", int[]).sort(int[])",
         {"std.algorithm.sorting.sort!(\"a < b\", int[]).sort",
          "std.algorithm.sorting.sort<…>.sort", "sort.sort", "sort"}},
        {"github.com/user/tool/pkg.(*Server).Serve",
         {"github.com/user/tool/pkg.(*Server).Serve", "github.com/user/tool/pkg.(*Server).Serve",
          "(*Server).Serve", "Serve"}},
        // No names at all, and broken ones
        {"", {"", "", "", ""}},
        {"f<", {"f<", "f<", "f<", "f<"}},
        {"::", {"::", "::", "::", "::"}},
        {"operator", {"operator", "operator", "operator", "operator"}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        char *full = short_name(examples[i].name, NAME_FULL, true);
        assert_string_equal(full, examples[i].name);
        free(full);
        for (unsigned stage = 1; stage < NAME_STAGES; stage++) {
            char *made = short_name(examples[i].name, (enum name_stage)stage, true);
            if (strcmp(made, examples[i].stages[stage - 1]))
                print_message("%s, stage %u\n", examples[i].name, stage);
            assert_string_equal(made, examples[i].stages[stage - 1]);
            free(made);
        }
    }
}

static void startup_code_is_known(void **state)
{
    static const char *const startup[] = {
        "_start",
        "__libc_start_main_impl",
        "clone3",
        "start_thread",
        "libstdc++.so.6+0xd4490",
        "std::thread::_State_impl<std::thread::_Invoker<std::tuple<main::{lambda()#1}> > >::_M_run",
        "std::__invoke_impl<void, main()::<lambda()> >",
        "std::rt::lang_start::{{closure}}",
        "std::sys_common::backtrace::__rust_begin_short_backtrace",
        "std::sys::pal::unix::thread::Thread::new::thread_start",
        "core::ops::function::FnOnce::call_once{{vtable.shim}}",
        "<&dyn core::ops::function::Fn<(), Output = i32> + core::marker::Sync as "
        "core::ops::function::FnOnce<()>>::call_once",
        "<alloc::boxed::Box<F,A> as core::ops::function::FnOnce<Args>>::call_once",
    };
    static const char *const others[] = {
        "main",     "worker",    "std::sort<int*>", "starter", "std::vector<int>::push_back",
        "rg::main", "clone_tree"};
    (void)state;
    for (size_t i = 0; i < sizeof startup / sizeof *startup; i++)
        assert_true(name_is_startup(startup[i]));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(name_is_startup(others[i]));
    assert_true(name_is_standard("void std::sort<int*>(int*, int*)"));
    assert_true(name_is_standard("<alloc::vec::Vec<T> as core::ops::drop::Drop>::drop"));
    assert_false(name_is_standard("shop::std::f"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_keep_what_tells_apart),
        cmocka_unit_test(startup_code_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
