# The `slipway` command as `npm run pack` packs it, with the versions that package-lock.json names. docs/deploy.md says how it is run.
# The base has Node 24 and npm: this one, or what deploy/image/base.sh makes where no registry of images answers.
ARG BASE=node:24-bookworm-slim

FROM ${BASE} AS build
# As well as those that come with Node, the authorities of the base.
ENV NODE_USE_SYSTEM_CA=1
WORKDIR /src
COPY . .
RUN npm ci --no-audit --no-fund && npm run pack && npm prune --omit=dev --no-audit --no-fund && \
    node deploy/image/install.mjs /opt/slipway && chmod 755 /opt/slipway/node_modules/slipway/bin/slipway.js

FROM ${BASE}
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends bubblewrap ca-certificates git tini > /dev/null && \
    rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/*
# A user that no base has, by a number that clusters can see is not root's. Those that run containers as any user of group 0 may write
# to the folder, too.
RUN groupadd --gid 10001 slipway && \
    useradd --uid 10001 --gid slipway --home-dir /var/lib/slipway --create-home --shell /usr/sbin/nologin slipway && \
    chgrp 0 /var/lib/slipway && chmod 770 /var/lib/slipway
COPY deploy/image/health.mjs /opt/slipway/
COPY --from=build /opt/slipway/node_modules /opt/slipway/node_modules
# V8's compiled code is kept by a first run, as the user that will read it: containers cannot write there.
RUN ln -s /opt/slipway/node_modules/slipway/bin/slipway.js /usr/local/bin/slipway && \
    kept=/opt/slipway/node_modules/slipway/node_modules/.cache && install -d -o slipway "$kept" && \
    setpriv --reuid 10001 --regid 10001 --clear-groups env HOME=/tmp/first SLIPWAY_DATA_DIR=/tmp/first SLIPWAY_ISOLATION=none \
      slipway demo > /dev/null && \
    chown -R root:root "$kept" && chmod -R a+rX "$kept" && rm -rf /tmp/first

ENV HOME=/var/lib/slipway SLIPWAY_DATA_DIR=/var/lib/slipway SLIPWAY_HOST=0.0.0.0
WORKDIR /var/lib/slipway
VOLUME /var/lib/slipway
EXPOSE 4000
USER 10001:10001
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s CMD ["node", "/opt/slipway/health.mjs"]
ENTRYPOINT ["tini", "--", "slipway"]
CMD ["serve"]
