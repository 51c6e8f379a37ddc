# make build   bin/durafs
# make demo    serve, mount, run a command, browse, clean up: what durafs does, in a minute
# make test    everything that is tested
# make lint    format, vet, staticcheck
# make race    the tests under the race detector, the long ones shorter
# make fuzz    every fuzz target for FUZZTIME (3s)
# make bench   every benchmark on the disk of BENCHDIR (.), into docs/benchmarks.md:
#              some 15 minutes and 20 GiB; durafs bench --quick takes a minute
# make crash   kill and restart the daemon ROUNDS (500) times under each of three loads, then
#              cut, fail and rot a simulated disk for BUDGET (5m) per driver and layer, then
#              cut and fail a real ext4 for BUDGET each
# make mutants plant each known fault, and let the crash harness find it on the simulated disk;
#              mutants-disk: on real file systems, which takes minutes
# make fmt     format everything
#
# demo, test, race install what is missing (Debian, as root).

ROUNDS   ?= 500
BUDGET   ?= 5m
FUZZTIME ?= 3s
BENCHDIR ?= .
# Tests wait for one another on a small machine: the limit is for one that hangs.
TIMEOUT  ?= 20m

# What has goroutines, but for what measures: under the race detector that
# measures nothing.
RACE = $$(go list ./... | grep -v -e /bench$$ -e /tidy$$)

.PHONY: help build demo test lint race fuzz bench crash mutants mutants-disk fmt
help:
	@sed -n '/^#/!q; s/^# \{0,1\}//p' Makefile

build:
	go build -o bin/durafs ./cmd/durafs

demo:
	@scripts/setup
	@$(MAKE) --no-print-directory build
	@scripts/demo

test:
	@scripts/setup
	go vet ./...
	@scripts/test $(TIMEOUT)

lint:
	@scripts/lint

race:
	@scripts/setup race
	CGO_ENABLED=1 go test -race -short -timeout $(TIMEOUT) $(RACE)

fuzz:
	@scripts/fuzz $(FUZZTIME)

bench: build
	bin/durafs bench --dir $(BENCHDIR) --report docs/benchmarks.md

crash:
	@scripts/setup
	go test -count=1 -timeout 0 -v -run '^(TestKill|TestKillLives|TestUpgrade)$$' ./internal/daemon -args -rounds $(ROUNDS)
	go test -count=1 -timeout 0 -v -run '^Test(L|Cycles)' ./bench/crash -args -budget $(BUDGET) -cycles 10000
	go test -count=1 -timeout 0 -v -run '^Test(L[45]|RotAfterKill)' ./bench/crash/blockdev -args -budget $(BUDGET)

mutants:
	go test -count=1 -timeout $(TIMEOUT) -tags mutants -v -run '^TestMutant' ./bench/crash

mutants-disk:
	@scripts/setup
	go test -count=1 -timeout $(TIMEOUT) -tags mutants -v -run '^TestMutants$$' ./bench/crash/blockdev

fmt:
	gofmt -w $$(git ls-files '*.go')
	go tool -modfile=tools/go.mod gofumpt -w $$(git ls-files '*.go')
