/** A repository at a source host with Git LFS: `git http-backend`, and the batch API with basic transfers over a map of contents. */
import type { Remote } from "@slipway/domain/source/ports/SourceHost"
import { Effect, Redacted } from "effect"
import { createHash } from "node:crypto"
import type { IncomingMessage, ServerResponse } from "node:http"
import { basename, dirname } from "node:path"
import { buffer } from "node:stream/consumers"
import * as GitHttpServer from "./GitHttpServer.ts"

/** As git-lfs makes it. */
export const pointerOf = (content: string | Buffer): string =>
  `version https://git-lfs.github.com/spec/v1\noid sha256:${oidOf(content)}\nsize ${Buffer.byteLength(content)}\n`

export const oidOf = (content: string | Buffer): string => createHash("sha256").update(content).digest("hex")

interface Asked {
  readonly operation: string
  readonly objects: ReadonlyArray<{ readonly oid: string; readonly size: number }>
}

export interface Actions {
  readonly [name: string]: unknown
}

export interface Options {
  /** Answers first; `true`: it did. */
  readonly answer?: (request: IncomingMessage, response: ServerResponse, path: string) => boolean | Promise<boolean>
  /** The actions of an object, instead of the usual ones. */
  readonly actions?: (operation: string, oid: string, usual: Actions, base: string) => unknown
  /** The answer to a batch, instead of the usual one. */
  readonly batch?: (asked: Asked, usual: unknown) => unknown
}

const AUTHORIZATION = "Basic c29tZW9uZTpzZWNyZXQ="

/** Serves the bare repository at `path`. `contents`: what the server has, by SHA-256. */
export const serve = Effect.fnUntraced(function*(path: string, options: Options = {}) {
  const contents = new Map<string, Buffer>()
  const asked: Array<Asked> = []
  const seen: Array<{ readonly path: string; readonly authorization: string | undefined }> = []
  const failing: { status: number | null } = { status: null }
  const prefix = `/${basename(path)}/info/lfs/`
  const json = (response: ServerResponse, value: unknown) => {
    response.setHeader("content-type", "application/vnd.git-lfs+json")
    response.end(JSON.stringify(value))
  }
  let base = ""
  const usual = (operation: string, oid: string): Actions => {
    const header = { Authorization: AUTHORIZATION }
    const there = contents.has(oid)
    if (operation === "download") {
      return there
        ? { actions: { download: { href: `${base}/objects/${oid}`, header } } }
        : { error: { code: 404 } }
    }
    return there ? {} : { actions: { upload: { href: `${base}/objects/${oid}`, header }, verify: { href: `${base}/verify`, header } } }
  }
  const server = yield* GitHttpServer.serve(dirname(path), async (request, response) => {
    const { pathname } = new URL(request.url ?? "", "http://localhost")
    if (await options.answer?.(request, response, pathname) === true) return true
    const isLfs = pathname.startsWith(prefix) || pathname.startsWith("/objects/") || pathname === "/verify"
    if (!isLfs) return false
    seen.push({ path: `${request.method} ${pathname}`, authorization: request.headers.authorization })
    const body = await buffer(request)
    if (request.headers.authorization !== AUTHORIZATION) response.writeHead(401).end()
    else if (failing.status !== null) response.writeHead(failing.status).end()
    else if (pathname === `${prefix}objects/batch`) {
      const wanted: Asked = JSON.parse(body.toString())
      asked.push(wanted)
      const objects = wanted.objects.map(({ oid, size }) => ({
        oid,
        size,
        ...usual(wanted.operation, oid),
        ...(options.actions?.(wanted.operation, oid, usual(wanted.operation, oid), base) ?? {}) as object
      }))
      const answer = { transfer: "basic", objects }
      json(response, options.batch?.(wanted, answer) ?? answer)
    } else if (pathname === "/verify") {
      const { oid }: { oid: string } = JSON.parse(body.toString())
      response.writeHead(contents.has(oid) ? 200 : 404).end()
    } else {
      const oid = basename(pathname)
      if (request.method === "PUT") {
        contents.set(oid, body)
        response.writeHead(oidOf(body) === oid ? 200 : 422).end()
      } else response.end(contents.get(oid))
    }
    return true
  })
  base = server.url
  const remote: Remote = { url: `${base}/${basename(path)}`, authorization: Redacted.make(AUTHORIZATION) }
  return {
    remote,
    url: base,
    contents,
    asked,
    seen,
    failing,
    add: (content: string | Buffer) => {
      contents.set(oidOf(content), Buffer.from(content))
      return pointerOf(content)
    }
  }
})
