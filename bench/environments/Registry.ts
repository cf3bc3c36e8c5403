/** An npm registry on this machine's loopback interface: for npm here by HTTP, for boxes by TLS and under a name. */
import { Effect } from "effect"
import { execFileSync } from "node:child_process"
import { createReadStream, readFileSync } from "node:fs"
import { createServer, type RequestListener, type Server } from "node:http"
import { createServer as createTlsServer } from "node:https"
import path from "node:path"
import type { Package } from "./Packages.ts"

/** Its name for boxes. `test` is a reserved domain (RFC 2606). */
export const NAME = "registry.bench.test"

export interface Registry {
  /** For programs of this machine. */
  readonly url: string
  /** Port of this machine's loopback interface. */
  readonly tlsPort: number
  /** Vouches for itself, PEM. */
  readonly certificate: string
}

/** The metadata of a package for npm: one version, without dependencies. */
const describe = ({ bin, integrity, name, version }: Package) => ({
  name,
  "dist-tags": { latest: version },
  versions: {
    [version]: {
      name,
      version,
      ...(bin === undefined ? {} : { bin }),
      dist: { tarball: `https://${NAME}/${name}/-/${path.basename(name)}-${version}.tgz`, integrity }
    }
  }
})

const answer = (packages: ReadonlyArray<Package>): RequestListener => {
  const byName = new Map(packages.map((one) => [one.name, one]))
  return ({ url = "/" }, response) => {
    const [name = "", file] = decodeURIComponent(url.slice(1)).split("/-/")
    const found = byName.get(name)
    if (found === undefined) return void response.writeHead(404).end("{}")
    if (file === undefined) {
      return void response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(describe(found)))
    }
    response.writeHead(200, { "content-type": "application/octet-stream" })
    createReadStream(found.tarball).pipe(response)
  }
}

const listening = <A extends Server>(server: A) =>
  Effect.acquireRelease(
    Effect.callback<number>((resume) => {
      server.listen(0, "127.0.0.1", () => {
        const address = server.address()
        resume(Effect.succeed(typeof address === "object" && address !== null ? address.port : 0))
      })
    }),
    () =>
      Effect.callback<void>((resume) => {
        server.close(() => resume(Effect.void))
        server.closeAllConnections()
      })
  )

/** Serves them until the scope closes. `folder`: for the files of its certificate. */
export const serve = Effect.fnUntraced(function*(packages: ReadonlyArray<Package>, folder: string) {
  const [key, certificate] = [path.join(folder, "registry.key"), path.join(folder, "registry.pem")]
  yield* Effect.sync(() =>
    execFileSync("openssl", ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key, "-out",
      certificate, "-days", "2", "-subj", `/CN=${NAME}`, "-addext", `subjectAltName=DNS:${NAME}`], { stdio: "pipe" })
  )
  const tls = { key: readFileSync(key), cert: readFileSync(certificate, "utf8") }
  const port = yield* listening(createServer(answer(packages)))
  const tlsPort = yield* listening(createTlsServer(tls, answer(packages)))
  const registry: Registry = { url: `http://127.0.0.1:${port}`, tlsPort, certificate: tls.cert }
  return registry
})
