# SPDX-License-Identifier: MIT
# Forwards to the one build, CMakeLists.txt. Presets: CMakePresets.json.
PRESET ?= release
BUILD  := build/$(PRESET)
JOBS   ?= $(shell nproc)

.PHONY: all test demo bench install clean
all:
	@tools/setup build
	cmake --preset $(PRESET) -DKCORO_TESTS=OFF
	cmake --build $(BUILD) -j$(JOBS)
test:
	@tools/setup test
	@tools/test $(PRESET)
demo:
	@tools/setup build
	cmake --preset $(PRESET) -DKCORO_TESTS=ON
	cmake --build $(BUILD) -j$(JOBS) --target demo
	@$(BUILD)/examples/demo
bench:
	@tools/setup bench
	@tools/bench
install: all
	cmake --install $(BUILD)
clean:
	rm -rf build
