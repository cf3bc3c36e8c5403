/**
 * A registry of npm packages on this machine, so that the demo needs no network. It makes two packages as real archives and serves them
 * over https. Only the egress of the demo's boxes resolves its name.
 */
import { Clock, Effect } from "effect"
import { createHash } from "node:crypto"
import { createServer } from "node:https"
import { gzipSync } from "node:zlib"
import { certificate } from "./DemoCertificate.ts"

/** Names of the internet never end like this (RFC 6761). */
export const NAME = "registry.shop.invalid"
/** The listening address. */
export const ADDRESS = "127.0.0.1"

interface Package {
  readonly name: string
  readonly version: string
  readonly dependencies: Readonly<Record<string, string>>
  readonly code: string
}

const PACKAGES: ReadonlyArray<Package> = [
  {
    name: "shop-money",
    version: "1.2.0",
    dependencies: { "shop-digits": "1.0.3" },
    code: `const { grouped } = require("shop-digits")\nexports.price = (euros) => \`\${grouped(euros)} EUR\`\n`
  },
  {
    name: "shop-digits",
    version: "1.0.3",
    dependencies: {},
    code: `exports.grouped = (number) => String(number).replace(/\\B(?=(\\d{3})+$)/g, ",")\n`
  }
]

/** The dependencies of the demo's repository. */
export const DEPENDENCIES = { "shop-money": "1.2.0" }

const BLOCK = 512

/** A file of a tar archive (POSIX.1-1988, ustar). */
const entry = (name: string, content: string): Buffer => {
  const bytes = Buffer.from(content)
  const header = Buffer.alloc(BLOCK)
  const put = (at: number, value: string) => header.write(value, at, "latin1")
  const octal = (value: number, digits: number) => `${value.toString(8).padStart(digits, "0")}\0`
  put(0, name)
  put(100, octal(0o644, 7))
  put(108, octal(0, 7))
  put(116, octal(0, 7))
  put(124, octal(bytes.length, 11))
  put(136, octal(0, 11))
  put(148, " ".repeat(8))
  put(156, "0")
  put(257, "ustar\u000000")
  const sum = header.reduce((total, byte) => total + byte, 0)
  put(148, `${octal(sum, 6)} `)
  return Buffer.concat([header, bytes, Buffer.alloc((BLOCK - bytes.length % BLOCK) % BLOCK)])
}

const archive = ({ code, dependencies, name, version }: Package): Buffer => {
  const manifest = { name, version, main: "index.js", license: "Apache-2.0", dependencies }
  const files = [entry("package/package.json", `${JSON.stringify(manifest)}\n`), entry("package/index.js", code)]
  return gzipSync(Buffer.concat([...files, Buffer.alloc(2 * BLOCK)]))
}

export interface Registry {
  readonly port: number
  /** Its certificate, in PEM. */
  readonly cert: string
  /** The lock file that npm writes for {@link DEPENDENCIES}. `url`: the registry's address for boxes. */
  lockFile(name: string, url: string): string
  readonly packages: number
  /** The number of archive downloads so far. */
  readonly downloads: Effect.Effect<number>
}

const pathOf = ({ name, version }: Pick<Package, "name" | "version">) => `/${name}/-/${name}-${version}.tgz`

/** Serves until the scope closes. */
export const serve = Effect.gen(function*() {
  const { cert, key } = certificate(NAME, yield* Clock.currentTimeMillis)
  const archives = new Map(PACKAGES.map((one) => [pathOf(one), archive(one)]))
  let downloads = 0
  const server = createServer({ key, cert }, (request, response) => {
    const found = request.method === "GET" ? archives.get(request.url ?? "") : undefined
    if (found === undefined) return void response.writeHead(404).end()
    downloads++
    response.writeHead(200, { "content-type": "application/octet-stream", "content-length": found.length }).end(found)
  })
  yield* Effect.acquireRelease(
    Effect.callback<void>((resume) => {
      server.listen(0, ADDRESS, () => resume(Effect.void))
    }),
    () =>
      Effect.callback<void>((resume) => {
        server.close(() => resume(Effect.void))
        server.closeAllConnections()
      })
  )
  const address = server.address()
  const registry: Registry = {
    port: typeof address === "object" && address !== null ? address.port : 0,
    cert,
    lockFile: (name, url) => {
      const locked = PACKAGES.map((one) => {
        const integrity = `sha512-${createHash("sha512").update(archives.get(pathOf(one)) ?? "").digest("base64")}`
        const { dependencies, version } = one
        return [`node_modules/${one.name}`, { version, resolved: `${url}${pathOf(one)}`, integrity, dependencies }] as const
      })
      const root = { name, version: "1.0.0", dependencies: DEPENDENCIES }
      const packages = { "": root, ...Object.fromEntries(locked) }
      return JSON.stringify({ name, version: "1.0.0", lockfileVersion: 3, requires: true, packages }, null, 2)
    },
    packages: PACKAGES.length,
    downloads: Effect.sync(() => downloads)
  }
  return registry
})
