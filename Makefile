# Short names for the common tasks; the rules are in meson.build and tools/.
PREFIX ?= /usr/local
DESTDIR ?=
.PHONY: all run test check storm kube-real bench fuzz install deps format clean
all:
	@tools/deps.sh build
	@tools/build.sh build
run: all
	@tools/demo.sh build/dibs
test:
	@tools/deps.sh build test
	@tools/build.sh build -Dtests=enabled
	@tools/run-tests.sh build
check:
	@tools/deps.sh build test check
	@tools/check.sh
storm:
	@tools/deps.sh build test
	@tools/build.sh build -Dtests=enabled
	@DIBS_TEST_LONG=1 tools/run-tests.sh build --suite storm --timeout-multiplier 20
kube-real:
	@tools/deps.sh build test
	@tools/build.sh build -Dtests=enabled
	@tests/support/own-network tests/support/real-kube "$(KUBE_BIN)" build/dibs "$$(mktemp -d)" tests/e2e/real_kube.py
bench:
	@tools/deps.sh build test bench
	@tools/build.sh build -Dtests=enabled
	@tests/bench/run build
fuzz:
	@tools/deps.sh build check
	@tests/fuzz/run
install: all
	meson configure build --prefix "$$(realpath -ms -- "$(PREFIX)")"
	@tools/build.sh build
	DESTDIR="$(DESTDIR)" meson install -C build --no-rebuild
deps:
	@tools/deps.sh
format:
	find include src tests examples -name '*.[ch]' -exec clang-format -i {} +
clean:
	rm -rf build build-*
