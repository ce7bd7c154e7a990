# SPDX-License-Identifier: MIT
# A thin front for Meson: what a newcomer types. BUILD=dir builds elsewhere, PREFIX=dir installs elsewhere.

BUILD ?= build
PREFIX ?= /usr/local
NINJA = ninja -C $(BUILD) cairn libcairn.so libcairn-alloc.so

# SECONDS_OF_FUZZ=60 ends it sooner.
SECONDS_OF_FUZZ ?= 3600

.PHONY: all demo test bench fuzz torture lint install format clean deps

all: $(BUILD)/build.ninja
	@$(NINJA)

$(BUILD)/build.ninja:
	@scripts/install-deps build
	@meson setup $(BUILD) --prefix=$(PREFIX) >$(BUILD).log 2>&1 || { cat $(BUILD).log; exit 1; }
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

install: all
	@meson configure $(BUILD) --prefix=$(PREFIX)
	@$(NINJA)
	@meson install -C $(BUILD) --no-rebuild --quiet
	@echo "installed below $(DESTDIR)$(PREFIX)"

format:
	@clang-format -i $$(git ls-files '*.c' '*.h')

clean:
	@rm -rf $(BUILD)
