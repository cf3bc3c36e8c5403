/** Styles and scripts of the pages: files of `assets` and a library, at addresses that name their content. */
import * as SharedReply from "@slipway/http/server/reply/SharedReply"
import { Routes } from "@slipway/http/server/Routes"
import { Effect } from "effect"
import { HttpRouter, type HttpServerRequest } from "effect/http"
import { readdirSync, readFileSync } from "node:fs"
import { createRequire } from "node:module"
import path from "node:path"
import { fileURLToPath } from "node:url"

const FOLDER = fileURLToPath(new URL("../../assets", import.meta.url))

const TYPES: Record<string, string> = {
  ".css": "text/css; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".svg": "image/svg+xml"
}

interface Asset {
  /** A path of this server. Another content is at another address. */
  readonly address: `/assets/${string}`
  readonly type: string
  readonly body: Uint8Array
  /** The modules that it imports. */
  readonly imports: ReadonlyArray<Asset>
}

/** Modules of others that scripts import by their name. */
const LIBRARIES: Record<string, string> = { idiomorph: "idiomorph/dist/idiomorph.esm.js" }

/** Files of others that are served as they are. */
const AS_THEY_ARE: Record<string, string> = {
  "xterm.js": "@xterm/xterm/lib/xterm.js",
  "xterm.css": "@xterm/xterm/css/xterm.css",
  "xterm-fit.js": "@xterm/addon-fit/lib/addon-fit.js"
}

const IMPORT = /(?<= from ")(?:\.\/)?([a-z][\w.-]*)(?=")/gu

let loaded: ReadonlyMap<string, Asset> | null = null

const load = (): ReadonlyMap<string, Asset> => {
  const require = createRequire(import.meta.url)
  const found = new Map<string, Asset>()
  const add = (file: string, from: string): Asset => {
    const known = found.get(file)
    if (known !== undefined) return known
    const { ext, name } = path.parse(file)
    const content = readFileSync(from)
    const imports: Array<Asset> = []
    const addressIn = (imported: string): string => {
      const asset = importOf(imported)
      imports.push(asset)
      return `./${path.posix.basename(asset.address)}`
    }
    // The policy of pages allows no import map: a script names what it imports by the address of its content.
    const isOwn = AS_THEY_ARE[file] === undefined
    const body = ext === ".js" && isOwn
      ? Buffer.from(content.toString().replaceAll(IMPORT, (_, imported: string) => addressIn(imported)))
      : content
    const asset: Asset = { address: `/assets/${name}-${SharedReply.hashOf(body)}${ext}`, type: TYPES[ext] ?? "", body, imports }
    found.set(file, asset)
    return asset
  }
  const importOf = (name: string): Asset => {
    const library = LIBRARIES[name]
    return library === undefined ? add(name, path.join(FOLDER, name)) : add(`${name}.js`, require.resolve(library))
  }
  for (const file of readdirSync(FOLDER)) if (TYPES[path.extname(file)] !== undefined) add(file, path.join(FOLDER, file))
  for (const [file, from] of Object.entries(AS_THEY_ARE)) add(file, require.resolve(from))
  return found
}

/** By file name. Read once, when pages are first needed: most commands need none. */
const assets = (): ReadonlyMap<string, Asset> => loaded ??= load()

const assetOf = (file: string): Asset => {
  const asset = assets().get(file)
  if (asset === undefined) throw new Error(`there is no asset ${file}`)
  return asset
}

/** Where the file is served. */
export const addressOf = (file: string): string => assetOf(file).address

/** Where the modules are served that these scripts import, and those that they import. */
export const importsOf = (scripts: ReadonlyArray<string>): ReadonlySet<string> => {
  const found = new Set<string>()
  const add = ({ imports }: Asset): void => {
    for (const asset of imports) {
      if (found.has(asset.address)) continue
      found.add(asset.address)
      add(asset)
    }
  }
  for (const script of scripts) add(assetOf(script))
  return found
}

export const layer = HttpRouter.use(Effect.fnUntraced(function*(router) {
  const routes = yield* Routes
  for (const { address, body, type } of assets().values()) {
    const answer = yield* SharedReply.make(body, { contentType: type, cacheControl: SharedReply.IMMUTABLE })
    routes.declare(address, ["GET", "HEAD"], "pages")
    yield* router.add("GET", address, (request: HttpServerRequest.HttpServerRequest) => Effect.succeed(answer(request)))
  }
}))
