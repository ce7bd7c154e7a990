# SPDX-License-Identifier: MIT
# A thin front for Meson: what a newcomer types. BUILD=dir builds elsewhere, PREFIX=dir installs elsewhere,
# SETUP=-Doption=value goes to Meson. Only deps, demo and test install packages: the others say what is missing.

BUILD ?= build
PREFIX ?= /usr/local
SETUP ?=

# SECONDS_OF_FUZZ=60 ends it sooner.
SECONDS_OF_FUZZ ?= 3600

.PHONY: all demo test bench fuzz torture lint install uninstall dist deb format clean deps

all: $(BUILD)/build.ninja
	@ninja -C $(BUILD) product

$(BUILD)/build.ninja:
	@scripts/install-deps --check build
	@meson setup $(BUILD) --libdir=lib $(SETUP) >$(BUILD).log 2>&1 || { cat $(BUILD).log; exit 1; }
	@rm -f $(BUILD).log

deps:
	@scripts/install-deps all

demo:
	@scripts/install-deps build
	@$(MAKE) --no-print-directory all
	@scripts/demo $(BUILD)

test: deps
	@$(MAKE) --no-print-directory all SETUP=-Dwerror=true
	@scripts/run-tests $(BUILD)

lint:
	@scripts/lint

fuzz:
	@scripts/fuzz $(BUILD)/fuzz --seconds $(SECONDS_OF_FUZZ) --jobs $$(nproc)

torture: all
	@scripts/install-deps --check torture
	@scripts/torture $(BUILD)

bench: all
	@scripts/install-deps --check bench
	@meson setup --reconfigure $(BUILD) >/dev/null
	@bench/run $(abspath $(BUILD))

install:
	@DESTDIR="$(DESTDIR)" scripts/install $(BUILD) "$(PREFIX)"

uninstall:
	@DESTDIR="$(DESTDIR)" scripts/install --remove "$(PREFIX)"

dist:
	@scripts/dist $(BUILD)

deb:
	@scripts/deb $(BUILD)

format:
	@clang-format -i $$(git ls-files '*.c' '*.h')

clean:
	@rm -rf $(BUILD)
