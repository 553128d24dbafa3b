# syntax=docker/dockerfile:1
# Base images are arguments, so that a registry of your own can serve them.
ARG BUILD_IMAGE=python:3.13-slim
ARG RUN_IMAGE=python:3.13-slim

FROM ${BUILD_IMAGE} AS build
WORKDIR /src
RUN python3 -m venv /opt/hami-operator
# Packages come from the index; where there is no network, put wheels (hatchling's too) into
# wheels/ and build with --build-arg WHEELS=wheels. The lock's hashes hold in both cases.
ARG WHEELS=""
COPY requirements.lock wheel[s] ./wheels/
RUN /opt/hami-operator/bin/pip install --no-cache-dir --require-hashes --only-binary=:all: \
        ${WHEELS:+--no-index --find-links=$WHEELS} -r wheels/requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY hami_operator ./hami_operator
RUN /opt/hami-operator/bin/pip install --no-cache-dir --no-deps \
        ${WHEELS:+--no-index --find-links=$WHEELS} . \
 && /opt/hami-operator/bin/hami-operator --version

FROM ${RUN_IMAGE}
LABEL org.opencontainers.image.title="hami-operator" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/hami-operator /opt/hami-operator
ENV PATH=/opt/hami-operator/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["/opt/hami-operator/bin/hami-operator"]
CMD ["run"]
