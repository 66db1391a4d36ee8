# Each target is a step of .ci/run; `make check` is what CI runs.

.PHONY: build test test-long ruler race plain targets release fuzz golden models measure compare-kin torchrec-matrix lint fmt vuln browser check clean

build: ## the static binary, bin/neuroshard
	CGO_ENABLED=0 go build -trimpath -o bin/neuroshard ./cmd/neuroshard

test: ## the tests, fuzz seeds included
	go test ./...

test-long: ## tests behind the build tag "long"
	.ci/run long

ruler: ## the default search on problems of all classes, against the cheapest plans known (half an hour)
	go test -tags ruler ./search/ruler -v -timeout 5h

race: ## the short tests under the race detector
	.ci/run race

plain: ## the short tests without assembly
	.ci/run plain

targets: ## compiles for the other systems and processors of a release
	.ci/run targets

release: ## the tests of a release, and everything that a tag makes, in dist/
	.ci/run release

fuzz: ## each fuzz target for FUZZTIME, 10 s by default
	.ci/run fuzz

models: build ## the embedded models again, from their seed: about two minutes each on two cores
	for profile in $$(ls cost/pretrained/models); do bin/neuroshard lab train --simulate $$profile -o cost/pretrained/models/$$profile; done

measure: ## this machine's CPU: collect, train, plan and run plans, into measured/ (half an hour)
	scripts/measure-cpu

compare-kin: ## into kin/: policies are trained and compared with all methods
	scripts/compare-kin

torchrec-matrix: ## every supported release of TorchRec: the tests, TorchRec's own planner tests, and the table of both
	.ci/torchrec-matrix

golden: ## rewrite golden files; read the diff
	.ci/run golden

lint: ## format, vet, import direction, linter
	.ci/run vet fmt-check lint

fmt: ## gofumpt
	.ci/run fmt

vuln: ## known vulnerabilities
	.ci/run vuln

browser: ## the tests of pages, in a headless Chromium that is installed if it is missing
	.ci/run browser

check: ## what CI runs
	.ci/run

clean:
	rm -rf bin dist
