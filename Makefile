# Short names for the common tasks; the rules are in meson.build and tools/. `make help` prints the texts after "##".
PREFIX ?= /usr/local
DESTDIR ?=
prefix = "$$(realpath -ms -- "$(PREFIX)")"
.PHONY: all run test check storm kube-real bench fuzz install uninstall deb dist deps hooks format clean help
all: ## build build/dibs, its helper programs and build/libdibs.so
	@tools/deps.sh build
	@tools/build.sh build
run: all ## build, and show the main job
	@tools/demo.sh build/dibs
test: ## run every test
	@tools/deps.sh build test
	@tools/build.sh build -Dtests=enabled
	@tools/run-tests.sh build
check: ## run all that must pass before a change is merged
	@tools/deps.sh build test check package
	@tools/check.sh
storm: ## run the long form of the concurrency tests
	@tools/deps.sh build test
	@tools/build.sh build -Dtests=enabled
	@DIBS_TEST_LONG=1 tools/run-tests.sh build --suite storm --timeout-multiplier 20
kube-real: ## run dibs in a real Kubernetes cluster, whose programs are in KUBE_BIN
	@tools/deps.sh build test
	@tools/build.sh build -Dtests=enabled
	@tests/support/own-network tests/support/real-kube "$(KUBE_BIN)" build/dibs "$$(mktemp -d)" tests/e2e/real_kube.py
bench: ## measure speed, side by side with other tools
	@tools/deps.sh build test bench
	@tools/build.sh build -Dtests=enabled
	@tests/bench/run build
fuzz: ## run every fuzz target for FUZZ_SECONDS=60
	@tools/deps.sh build check
	@tests/fuzz/run
install: all ## install to PREFIX=/usr/local, below DESTDIR if given
	meson configure build --prefix $(prefix)
	@tools/build.sh build
	DESTDIR="$(DESTDIR)" meson install -C build --no-rebuild
	@[ -n "$(DESTDIR)" ] || tools/install-notes.sh $(prefix)
uninstall: all ## remove what `make install` with the same PREFIX and DESTDIR installed
	meson configure build --prefix $(prefix)
	@tools/build.sh build
	DESTDIR="$(DESTDIR)" tools/uninstall.py build
deb: ## build the Debian packages into build-deb
	@tools/deps.sh build package
	@tools/deb.sh
dist: ## make the source archive of the last commit in build-dist
	@tools/dist.sh
deps: ## install every package of tools/debian-packages.txt
	@tools/deps.sh
hooks: ## let git run the checks of .githooks before each commit of this clone
	git config core.hooksPath .githooks
format: ## format the source with clang-format
	find include src tests examples -name '*.[ch]' -exec clang-format -i {} +
clean: ## remove all build folders
	rm -rf build build-*
help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' Makefile
