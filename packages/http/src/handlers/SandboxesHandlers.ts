/** Translates requests about sandboxes into domain calls. No rule about sandboxes is decided here. */
import { Effect, Option } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { Sandboxes } from "@slipway/domain/sandbox/Sandboxes"
import { toResource } from "@slipway/domain/sandbox/SandboxResource"
import { Api } from "../api/Api.ts"
import { InvalidCursor } from "../api/Errors.ts"
import { CurrentPrincipal } from "../api/Middleware.ts"
import { MAX_LIMIT } from "../api/Parameters.ts"
import { Created, Replayed } from "../api/SandboxesApi.ts"
import { Settings } from "../middleware/Settings.ts"
import * as ListCursor from "./ListCursor.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "sandboxes",
  Effect.fn(function*(handlers) {
    const sandboxes = yield* Sandboxes
    const { cursorKey, publicUrl } = yield* Settings

    return handlers.handleAll({
      createSandbox: Effect.fnUntraced(function*({ headers, payload }) {
        const key = Option.fromUndefinedOr(headers["idempotency-key"])
        const { replayed, sandbox } = yield* sandboxes.create(yield* CurrentPrincipal, payload, key)
        const resource = toResource(sandbox, publicUrl)
        return replayed ? new Replayed({ sandbox: resource }) : new Created({ sandbox: resource })
      }),
      listSandboxes: Effect.fnUntraced(function*({ query: { after, limit = MAX_LIMIT, repo = null, status = null } }) {
        const by = yield* CurrentPrincipal
        const position = after === undefined ? Option.none() : ListCursor.decode(cursorKey, by.grantId, after)
        if (after !== undefined && Option.isNone(position)) return yield* InvalidCursor.make("after: not a cursor of this list")
        // One more than asked for tells whether there is a next page.
        const found = yield* sandboxes.list(by, { after: Option.getOrNull(position), limit: limit + 1, repo, status })
        const page = found.slice(0, limit)
        const last = page.at(-1)
        return {
          data: page.map((sandbox) => toResource(sandbox, publicUrl)),
          nextCursor: found.length > limit && last !== undefined ? ListCursor.encode(cursorKey, by.grantId, last) : null
        }
      }),
      getSandbox: Effect.fnUntraced(function*({ params: { sandboxId } }) {
        return toResource(yield* sandboxes.get(yield* CurrentPrincipal, sandboxId), publicUrl)
      }),
      terminateSandbox: Effect.fnUntraced(function*({ params: { sandboxId } }) {
        return yield* sandboxes.terminate(yield* CurrentPrincipal, sandboxId)
      }),
      interruptTurn: Effect.fnUntraced(function*({ params: { sandboxId } }) {
        return yield* sandboxes.interrupt(yield* CurrentPrincipal, sandboxId)
      }),
      decideApproval: Effect.fnUntraced(function*({ params: { approvalId, sandboxId }, payload: { decision } }) {
        return yield* sandboxes.decideApproval(yield* CurrentPrincipal, sandboxId, approvalId, decision)
      })
    })
  })
)
