/** Styles and scripts of the pages: files of `assets`, at addresses that name their content. */
import { Effect } from "effect"
import { HttpRouter, type HttpServerRequest } from "effect/http"
import { readdirSync, readFileSync } from "node:fs"
import path from "node:path"
import { fileURLToPath } from "node:url"
import { Routes } from "../server/Routes.ts"
import * as SharedReply from "../server/SharedReply.ts"

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
}

let loaded: ReadonlyMap<string, Asset> | null = null

/** By file name. Read once, when pages are first needed: most commands need none. */
const assets = (): ReadonlyMap<string, Asset> =>
  loaded ??= new Map(
    readdirSync(FOLDER).flatMap((file): ReadonlyArray<readonly [string, Asset]> => {
      const { ext, name } = path.parse(file)
      const type = TYPES[ext]
      if (type === undefined) return []
      const body = readFileSync(path.join(FOLDER, file))
      return [[file, { address: `/assets/${name}-${SharedReply.hashOf(body)}${ext}`, type, body }]]
    })
  )

/** Where the file is served. */
export const addressOf = (file: string): string => {
  const asset = assets().get(file)
  if (asset === undefined) throw new Error(`there is no asset ${file}`)
  return asset.address
}

export const layer = HttpRouter.use(Effect.fnUntraced(function*(router) {
  const routes = yield* Routes
  for (const { address, body, type } of assets().values()) {
    const answer = yield* SharedReply.make(body, { contentType: type, cacheControl: SharedReply.IMMUTABLE })
    routes.declare(address, ["GET", "HEAD"], "pages")
    yield* router.add("GET", address, (request: HttpServerRequest.HttpServerRequest) => Effect.succeed(answer(request)))
  }
}))
