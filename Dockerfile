# The binary on a slim Debian, run by a user of no rights. Build: docker build -t sendonce .
FROM rust:1.95.0-bookworm AS build

# The image has these already; a bare Debian needs them: librdkafka, OpenSSL, zlib and zstd are built from source.
RUN apt-get update \
    && apt-get install -y --no-install-recommends gcc g++ make perl \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --release --locked \
    && install -D target/release/sendonce /out/sendonce


FROM debian:bookworm-slim

# The certificates that providers, brokers and token servers are checked against.
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --home-dir /var/lib/sendonce --shell /usr/sbin/nologin sendonce \
    && install -d -o sendonce -g sendonce /var/lib/sendonce

COPY --from=build /out/sendonce /usr/local/bin/sendonce
COPY config /etc/sendonce

# The ledger: a volume that survives the container. Losing it forgets what was sent.
ENV SENDONCE__LEDGER__DIRECTORY=/var/lib/sendonce/ledger \
    SENDONCE__PROVIDERS__DIRECTORY=/etc/sendonce/providers \
    SENDONCE__ADMIN__LISTEN=0.0.0.0:9464
WORKDIR /var/lib/sendonce
VOLUME /var/lib/sendonce

USER 10001:10001

# /metrics, /live and /ready. In Kubernetes: livenessProbe on /live, readinessProbe on /ready, and a
# terminationGracePeriodSeconds of 60, above shutdown.drain.
EXPOSE 9464
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s \
    CMD ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/9464 && printf 'GET /live HTTP/1.0\\r\\n\\r\\n' >&3 && head -n 1 <&3 | grep -q ' 200'"]

# SIGTERM drains: what is in flight ends and is committed.
STOPSIGNAL SIGTERM
ENTRYPOINT ["sendonce"]
CMD ["run"]
