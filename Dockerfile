# A static binary in an empty image; hack/sbom.sh lists what is in it. BASE and GOPROXY let a cluster without internet build it from its own sources.
ARG BASE=docker.io/library/golang:1.26.8
FROM ${BASE} AS build
ARG GOPROXY
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY main.go controller.go ./
COPY pkg pkg
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags="-s -w -buildid=" -o /build-controller .

FROM scratch
COPY --from=build /build-controller /build-controller
USER 65532:65532
ENTRYPOINT ["/build-controller"]
