/** Translates requests for files into domain calls, and sends what they open. */
import { Api } from "@slipway/api/Api"
import { CurrentPrincipal } from "@slipway/api/shared/Middleware"
import type { FileVersion } from "@slipway/domain/files/ports/WorkingTrees"
import type { FileTree } from "@slipway/domain/files/schema/FileTree"
import { Files } from "@slipway/domain/files/usecases/Files"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import { Effect } from "effect"
import { HttpEffect, HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { LiveResponses } from "../server/connection/LiveResponses.ts"
import * as Wire from "../server/connection/Wire.ts"
import { attachment } from "../server/reply/ContentDisposition.ts"
import { respond } from "../server/reply/Respond.ts"

/** Clients show it where others would let people edit. */
const EDIT_REASON = "The files of a sandbox are read-only here. Send its agent a message to have them changed."

const shown = (version: FileVersion) => version === null ? null : { ...version, text: version.content }

const bytesOfTrees = new WeakMap<FileTree, Uint8Array>()
/** Those who ask at the same time get the same tree, and then the same megabyte. */
const bytesOf = (tree: FileTree): Uint8Array => {
  const bytes = bytesOfTrees.get(tree) ?? Buffer.from(JSON.stringify(tree satisfies typeof FileTree.Encoded))
  bytesOfTrees.set(tree, bytes)
  return bytes
}

/** A worker that cannot be reached now may be back in a second. */
const retrySoon = () =>
  HttpEffect.appendPreResponseHandler((_request, response) => Effect.succeed(HttpServerResponse.setHeader(response, "retry-after", "1")))

export const layer = HttpApiBuilder.group(
  Api,
  "files",
  Effect.fn(function*(handlers) {
    const files = yield* Files
    const live = yield* LiveResponses
    const sandboxes = yield* Sandboxes

    return handlers.handleAll({
      listFiles: Effect.fnUntraced(function*({ params: { sandboxId }, query: { directory = "", repo } }) {
        const tree = yield* files.list(yield* CurrentPrincipal, sandboxId, { path: directory, repo })
        return HttpServerResponse.uint8Array(bytesOf(tree), { contentType: "application/json" })
      }, Effect.tapErrorTag("AgentDisconnected", retrySoon)),
      downloadFile: Effect.fnUntraced(
        function*({ params: { sandboxId }, query: { path: asked, repo }, request }) {
          const by = yield* CurrentPrincipal
          const { bytes, path, size } = yield* files.open(by, sandboxId, { path: asked, repo })
          yield* live.download(by, Wire.of(request), sandboxId)
          return HttpServerResponse.stream(bytes, {
            contentType: "application/octet-stream",
            contentLength: size,
            headers: { "accept-ranges": "none", "content-disposition": attachment(path) }
          })
        },
        Effect.tapErrorTag("AgentDisconnected", retrySoon),
        Effect.catchTag("Refusal", (refusal) => Effect.succeed(respond(refusal)))
      ),
      diffFiles: Effect.fnUntraced(
        function*({ params: { sandboxId }, query: { from = "base", path, repo, to = "working" }, request }) {
          const by = yield* CurrentPrincipal
          // Found before it counts as a download: one whose sandbox is not there is cut as if that had been deleted.
          yield* sandboxes.get(by, sandboxId)
          yield* live.download(by, Wire.of(request), sandboxId)
          const patch = yield* files.diff(by, sandboxId, { from, to, path, repo, isWhole: true })
          return HttpServerResponse.uint8Array(patch, { contentType: "text/x-diff; charset=utf-8" })
        },
        Effect.tapErrorTag("AgentDisconnected", retrySoon),
        Effect.catchTag("Refusal", (refusal) => Effect.succeed(respond(refusal)))
      ),
      getFileContent: Effect.fnUntraced(function*({ params: { sandboxId }, query: { path, repo } }) {
        const { base, head, working, ...file } = yield* files.compare(yield* CurrentPrincipal, sandboxId, { path, repo })
        return {
          ...file,
          binary: (working ?? head ?? base)?.binary ?? false,
          size: working?.size ?? null,
          editable: false as const,
          editReason: EDIT_REASON,
          working: shown(working),
          head: shown(head),
          base: shown(base),
          reviewHead: null
        }
      }, Effect.tapErrorTag("AgentDisconnected", retrySoon))
    })
  })
)
