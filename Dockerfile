# A container of the service: one static binary, nothing else, not as root.
#
#	docker build --build-arg VERSION=0.1.0 -t neuroshard .
#	openssl rand -hex 32 > token && chmod 444 token
#	docker run -p 7878:7878 -v plans:/data -v "$PWD/token:/run/secrets/token:ro" neuroshard
#
# The server listens on all addresses of the container, so it wants a token. Other commands run,
# too: docker run --rm -v "$PWD:/work" -w /work neuroshard plan tables.csv --gpus 8 --gpu h100-80
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
ARG TARGETOS
ARG TARGETARCH
ARG VERSION=0.1.0-dev
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath \
      -ldflags="-s -w -X github.com/neuroshard/neuroshard.Version=$VERSION" \
      -o /image/neuroshard ./cmd/neuroshard \
 && mkdir -p /image/data /image/tmp && chmod 1777 /image/tmp

FROM scratch
COPY --from=build /image/neuroshard /neuroshard
COPY --from=build --chown=65532:65532 /image/data /data
COPY --from=build /image/tmp /tmp
COPY LICENSE /LICENSE
USER 65532:65532
VOLUME ["/data"]
EXPOSE 7878
HEALTHCHECK --interval=30s --timeout=5s --start-period=10s --retries=3 CMD ["/neuroshard", "serve", "check"]
ENTRYPOINT ["/neuroshard"]
CMD ["serve", "--listen", "0.0.0.0:7878", "--data", "/data", "--token-file", "/run/secrets/token"]
