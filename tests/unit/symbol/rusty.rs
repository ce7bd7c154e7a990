// SPDX-License-Identifier: MIT
// Rust for the tests of src/symbol.
#![allow(named_asm_labels)]
use std::sync::atomic::{AtomicUsize, Ordering};

static SINK: AtomicUsize = AtomicUsize::new(0);

mod inner {
    #[inline(always)]
    pub fn absorbed(x: usize) -> usize {
        unsafe { std::arch::asm!(".globl mark_absorbed", "mark_absorbed: nop") }; // at absorbed
        x * 3
    }

    #[inline(never)]
    pub fn kept(x: usize) -> usize {
        absorbed(x) + super::SINK.load(super::Ordering::Relaxed) // at kept
    }
}

fn main() {
    SINK.store(inner::kept(std::env::args().count()), Ordering::Relaxed);
}
