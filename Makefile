# SPDX-License-Identifier: MIT
# A thin front for Meson: what a newcomer types. BUILD=dir builds elsewhere, PREFIX=dir installs elsewhere.

BUILD ?= build
PREFIX ?= /usr/local

# SECONDS_OF_FUZZ=60 ends it sooner.
SECONDS_OF_FUZZ ?= 3600

.PHONY: all demo test bench fuzz torture lint install uninstall format clean deps

all: $(BUILD)/build.ninja
	@ninja -C $(BUILD) product

$(BUILD)/build.ninja:
	@scripts/install-deps build
	@meson setup $(BUILD) --libdir=lib >$(BUILD).log 2>&1 || { cat $(BUILD).log; exit 1; }
	@rm -f $(BUILD).log

deps:
	@scripts/install-deps all

demo: all
	@scripts/demo $(BUILD)

test: deps all
	@scripts/run-tests $(BUILD)

lint: deps
	@scripts/lint

fuzz: deps
	@scripts/fuzz $(BUILD)/fuzz --seconds $(SECONDS_OF_FUZZ) --jobs $$(nproc)

torture: all
	@scripts/install-deps torture
	@scripts/torture $(BUILD)

bench: all
	@scripts/install-deps bench
	@meson setup --reconfigure $(BUILD) >/dev/null
	@bench/run $(abspath $(BUILD))

install:
	@scripts/install-deps build
	@DESTDIR="$(DESTDIR)" scripts/install $(BUILD) "$(PREFIX)"

uninstall:
	@DESTDIR="$(DESTDIR)" scripts/install --remove "$(PREFIX)"

format:
	@clang-format -i $$(git ls-files '*.c' '*.h')

clean:
	@rm -rf $(BUILD)
