# quantlet's command line on a small base, as a user without rights. Models come by a volume:
#   docker build -t quantlet:0.1.0 .
#   docker run --rm -p 8080:8080 -v "$PWD/models:/models:ro" quantlet:0.1.0 serve -m /models/model.gguf --host 0.0.0.0 --api-key "$KEY"
FROM node:24-bookworm-slim AS build
WORKDIR /src
COPY . .
RUN npm ci --no-audit --no-fund && npm pack --pack-destination /opt

FROM node:24-bookworm-slim
COPY --from=build /opt/quantlet-*.tgz /opt/
RUN npm install --global --omit=dev --no-audit --no-fund /opt/quantlet-*.tgz && npm cache clean --force && rm /opt/quantlet-*.tgz
USER node
WORKDIR /data
ENTRYPOINT ["quantlet"]
CMD ["--help"]
