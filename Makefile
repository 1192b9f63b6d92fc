# Everything a developer or a packager does. `make help` lists it.
# The same commands run in CI: see .ci/run.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:

export CGO_ENABLED ?= 0

GO         ?= go
VERSION    ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
COMMIT     ?= $(shell git rev-parse --short HEAD 2>/dev/null || echo unknown)
PREFIX     ?= /usr/local

BIN        := bin/shoal
GUEST_OUT  := internal/guest/embedded/bin/shoal-guest
TOOLS      := build/tools

GOLANGCI_VERSION    := v2.15.0
GOVULNCHECK_VERSION := v1.6.0

# The race detector doubles the time and needs cgo: it runs where our own goroutines are, and not where gVisor is linked in.
RACE       := ^shoal/(internal/(control|node|guest|httpapi|cli|dialect|httpserve|pki|network/fake|disk/fake|runtime/fake)|sdk)(/|$$)

LDFLAGS    := -X main.version=$(VERSION) -X main.commit=$(COMMIT)

.PHONY: help deps build guest clients test-build precompile demo test unit race e2e test-full fuzz bench bench-neighbours check fmt vet arch lint vuln generate \
        notices notices-check install uninstall clean

help: ## List the targets.
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# mmdebstrap makes the templates' file trees from Debian packages; btrfs-progs formats the pool in which they are kept.
# Nothing else of the host is needed: Shoal speaks to netlink, nftables and cgroups itself.
deps: ## Install what the host needs (Debian, Ubuntu) with apt: mmdebstrap, btrfs-progs, and Go if there is none.
	@if ! command -v apt-get >/dev/null; then \
	  echo "no apt-get here: install btrfs-progs (mkfs.btrfs) and mmdebstrap yourself; without mmdebstrap, templates can't be built" >&2; exit 1; fi
	@missing=""; \
	command -v $(GO) >/dev/null || missing="$$missing golang-go"; \
	command -v mkfs.btrfs >/dev/null || missing="$$missing btrfs-progs"; \
	command -v mmdebstrap >/dev/null || missing="$$missing mmdebstrap"; \
	[ -e /etc/ssl/certs/ca-certificates.crt ] || missing="$$missing ca-certificates"; \
	if [ -z "$$missing" ]; then echo "deps: everything is there"; else \
	  echo "deps: installing$$missing"; \
	  sudo=""; [ "$$(id -u)" = 0 ] || sudo=sudo; \
	  $$sudo apt-get update -qq; DEBIAN_FRONTEND=noninteractive $$sudo apt-get install -y -qq --no-install-recommends $$missing; fi
	@minor=$$($(GO) env GOVERSION | sed -n 's/^go1\.\([0-9]*\).*/\1/p'); if [ "$${minor:-0}" -lt 21 ]; then \
	  echo "deps: $$($(GO) env GOVERSION) is too old: Go 1.21 or newer fetches the version it needs by itself; get one from https://go.dev/dl/" >&2; exit 1; fi

build: $(BIN) ## Build bin/shoal: static, with the guest agent inside.

guest: ## Build the guest agent that bin/shoal carries.
	@mkdir -p $(dir $(GUEST_OUT))
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o $(GUEST_OUT) ./cmd/shoal-guest

.PHONY: $(BIN)
$(BIN): guest
	@mkdir -p bin
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w $(LDFLAGS)' -o $@ ./cmd/shoal
	@ls -l $@ | awk '{printf "bin/shoal: %.1f MB\n", $$5/1e6}'

test-build: build ## Build also bin/shoal-failpoint, which the fault tests kill at its failpoints.
	CGO_ENABLED=0 $(GO) build -tags failpoint -trimpath -ldflags '-s -w $(LDFLAGS)' -o bin/shoal-failpoint ./cmd/shoal

demo: ## From a fresh machine to untrusted code in a sandbox: deps, build, tour. Needs root.
	@$(MAKE) --no-print-directory deps build
	@if [ "$$(id -u)" = 0 ]; then exec $(BIN) tour; else exec sudo $(BIN) tour; fi

# The programs that tests start.
BINARIES = SHOAL_BIN=$(CURDIR)/$(BIN) SHOAL_FAILPOINT_BIN=$(CURDIR)/bin/shoal-failpoint

# As root, what needs root must run; as an ordinary user it skips and says so.
ROOT_ENV = if [ "$$(id -u)" = 0 ]; then export SHOAL_REQUIRE_ROOT=1; fi

test: test-build arch unit race e2e ## Everything that must pass before a merge (at most 20 minutes on 2 cores).

unit: ## Unit and contract tests of what the race detector does not suit.
	@$(ROOT_ENV); $(GO) test -timeout 10m $$($(GO) list ./... | grep -v '^shoal/test' | grep -vE '$(RACE)')

# The store's tests of 10,000 records are for the unit run: under the race detector they take minutes.
race: ## Unit, contract and CLI tests with the race detector.
	@$(ROOT_ENV); CGO_ENABLED=1 $(GO) test -race -timeout 15m $$($(GO) list ./... | grep -E '$(RACE)')
	@CGO_ENABLED=1 $(GO) test -race -short -timeout 10m ./internal/store/...

e2e: test-build clients ## The built program: real server, real sandboxes, other vendors' clients, a small fault set. Needs root.
	@$(ROOT_ENV); $(BINARIES) $(GO) test -p 1 -timeout 18m -count=1 ./test/...

clients: ## Other vendors' clients, pinned, for the tests of the dialects: build/clients. Needs Node 20, npm and Python with venv.
	@test/clients/install build/clients

test-full: test ## All failpoints, isolation and soak five times, and each fuzz target for ten minutes. Hours.
	@$(ROOT_ENV); $(BINARIES) SHOAL_TEST_FULL=1 $(GO) test -p 1 -timeout 6h -count=5 ./test/...
	@$(MAKE) --no-print-directory fuzz FUZZTIME=10m

FUZZTIME ?= 60s
fuzz: ## Each fuzz target for FUZZTIME (60s).
	@grep -rl --include='*_test.go' '^func Fuzz' internal | xargs -r -n1 dirname | sort -u | while read -r dir; do \
	  grep -hoE '^func Fuzz[A-Za-z0-9]+' "$$dir"/*_test.go | awk '{print $$2}' | while read -r name; do \
	    echo "fuzz $$dir $$name"; $(GO) test "./$$dir" -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME); done; done

bench: build ## Speed and size, as a table and JSON. Needs root and a quiet machine.
	@mkdir -p build
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o build/bench ./test/bench
	build/bench -bin $(BIN) -commit $(VERSION) -json build/bench.json

bench-neighbours: build ## What a neighbour notices of sandboxes that take all they can get: a table and JSON. Needs root and minutes.
	@mkdir -p build
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o build/bench ./test/bench
	build/bench -bin $(BIN) -commit $(VERSION) -only neighbours -json build/neighbours.json

check: fmt vet arch lint notices-check ## Format, vet, architecture, lint: before every commit.

fmt: ## Fail if a file is not formatted.
	@out=$$(gofmt -l $$(git ls-files -co --exclude-standard '*.go')); [ -z "$$out" ] || { echo "not formatted (gofmt -w):"; echo "$$out"; exit 1; }

vet: guest
	@$(GO) vet ./...
	@$(GO) -C tools vet ./...

arch: ## The shape of the tree.
	@$(GO) test -count=1 .

lint: guest $(TOOLS)/golangci-lint-$(GOLANGCI_VERSION) ## golangci-lint, at its pinned version.
	@$(TOOLS)/golangci-lint-$(GOLANGCI_VERSION) run --config .golangci.yml ./...

$(TOOLS)/golangci-lint-$(GOLANGCI_VERSION):
	@mkdir -p $(TOOLS)
	GOBIN=$(CURDIR)/$(TOOLS) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	@mv $(TOOLS)/golangci-lint $@

vuln: ## Known vulnerabilities of what is linked in.
	$(GO) run golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION) ./...

generate: ## Everything that is made from a source: API types, references, golden files of the CLI.
	$(GO) generate ./api/...
	$(GO) -C tools run ./protos -root .. $$(git ls-files '*.proto')
	$(GO) test ./internal/cli -run Help -update
	$(GO) test ./internal/config -update
	$(GO) test ./internal/core -run Reference -update
	$(MAKE) --no-print-directory build
	@mkdir -p docs/reference
	$(BIN) reference >docs/reference/cli.md.new && mv docs/reference/cli.md.new docs/reference/cli.md

precompile: ## Compile gVisor's seccomp filters ahead: after a change of its version or of a flag (a minute).
	@mkdir -p build
	$(GO) run ./internal/runtime/gvisor/precompile >build/filters && mv build/filters internal/runtime/gvisor/filters_amd64.go

notices: ## Write THIRD_PARTY_NOTICES.md from what is linked in.
	$(GO) -C tools run ./notices -root .. ./cmd/shoal ./cmd/shoal-guest

notices-check:
	@$(GO) -C tools run ./notices -root .. -check ./cmd/shoal ./cmd/shoal-guest

install: ## Install bin/shoal and the systemd unit; start it with systemctl enable --now shoal.
	@[ -x $(BIN) ] || { echo "make build first"; exit 1; }
	install -D -m 0755 $(BIN) $(DESTDIR)$(PREFIX)/bin/shoal
	install -D -m 0644 README.md $(DESTDIR)$(PREFIX)/share/doc/shoal/README.md
	install -D -m 0644 LICENSE $(DESTDIR)$(PREFIX)/share/doc/shoal/LICENSE
	install -D -m 0644 THIRD_PARTY_NOTICES.md $(DESTDIR)$(PREFIX)/share/doc/shoal/THIRD_PARTY_NOTICES.md
	install -d $(DESTDIR)/etc/systemd/system
	sed 's#/usr/local#$(PREFIX)#' deploy/shoal.service >$(DESTDIR)/etc/systemd/system/shoal.service
	@[ -n "$(DESTDIR)" ] || ! command -v systemctl >/dev/null || systemctl daemon-reload || true
	@echo "installed; start it with: systemctl enable --now shoal"

uninstall: ## Remove program and unit. The data directory is left alone.
	@[ -n "$(DESTDIR)" ] || ! command -v systemctl >/dev/null || systemctl disable --now shoal || true
	rm -rf $(DESTDIR)$(PREFIX)/bin/shoal $(DESTDIR)$(PREFIX)/share/doc/shoal $(DESTDIR)/etc/systemd/system/shoal.service

clean: ## Remove what was built.
	rm -rf bin build $(GUEST_OUT)
