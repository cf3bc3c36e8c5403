/**
 * A registry of this process, at an address of this machine: what is published to it is kept in memory, everything else is asked
 * of the registry that npm is set to. `npm install slipway` finds there what was packed, as people find what was released.
 */
import { execFileSync } from "node:child_process"
import { createServer } from "node:http"
import { text } from "node:stream/consumers"

export const start = async () => {
  const upstream = execFileSync("npm", ["config", "get", "registry"], { encoding: "utf8" }).trim()
  const documents = new Map()
  const tarballs = new Map()
  const publish = ({ _attachments, name, versions, ...rest }) => {
    documents.set(name, { ...rest, name, versions: { ...documents.get(name)?.versions, ...versions } })
    for (const { dist } of Object.values(versions)) {
      const [{ data }] = Object.values(_attachments)
      tarballs.set(new URL(dist.tarball).pathname, Buffer.from(data, "base64"))
    }
  }
  const server = createServer(async (request, response) => {
    const name = decodeURIComponent(request.url.slice(1))
    if (request.method === "PUT") {
      publish(JSON.parse(await text(request)))
      response.writeHead(201).end("{}")
    } else if (documents.has(name)) {
      response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(documents.get(name)))
    } else if (tarballs.has(decodeURIComponent(request.url))) {
      response.writeHead(200, { "content-type": "application/octet-stream" }).end(tarballs.get(decodeURIComponent(request.url)))
    } else if (/^(?:@slipway\/.*|slipway)$/u.test(name)) {
      response.writeHead(404, { "content-type": "application/json" }).end(JSON.stringify({ error: "Not found" }))
    } else response.writeHead(302, { location: new URL(request.url, upstream).href }).end()
  })
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve))
  const { port } = server.address()
  return {
    /** The settings with which npm uses it: npm publishes nothing without a token. */
    env: { npm_config_registry: `http://127.0.0.1:${port}/`, [`npm_config_//127.0.0.1:${port}/:_authToken`]: "none" },
    close: () => server.close()
  }
}
