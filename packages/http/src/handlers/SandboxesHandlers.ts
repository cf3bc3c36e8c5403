/** Translates requests about sandboxes into domain calls. No rule about sandboxes is decided here. */
import { Api } from "@slipway/api/Api"
import type { SandboxPage } from "@slipway/api/groups/SandboxesApi"
import { encoded, type SandboxResource, toResource } from "@slipway/api/schema/SandboxResource"
import { InvalidCursor, InvalidRequest, Unavailable } from "@slipway/api/shared/Errors"
import { CurrentPrincipal } from "@slipway/api/shared/Middleware"
import { MAX_LIMIT } from "@slipway/api/shared/Parameters"
import { bytesOf, type SandboxSummary } from "@slipway/domain/sandbox/ports/SandboxStore"
import type { IdempotencyKey } from "@slipway/domain/sandbox/rules/Idempotency"
import type { Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import type { SourceUnreadable } from "@slipway/domain/sandbox/usecases/Continuation"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import { nextPage } from "@slipway/domain/store/Page"
import { Effect, Option } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import * as ListCursor from "../server/ListCursor.ts"
import { json, respond } from "../server/reply/Respond.ts"
import { Settings } from "../server/Settings.ts"

/** Sandboxes by {@link encoded}. */
const answer = (
  body: typeof SandboxResource.Encoded | typeof SandboxPage.Encoded,
  status = 200,
  headers: Readonly<Record<string, string>> = {}
) => json(JSON.stringify(body), { status, headers })

const keyOf = (headers: { readonly "idempotency-key"?: IdempotencyKey }) => Option.fromUndefinedOr(headers["idempotency-key"])

const unreadable = ({ message, retryAfter }: SourceUnreadable) =>
  Effect.succeed(respond(Unavailable.make(message, { "retry-after": String(retryAfter) })))

export const layer = HttpApiBuilder.group(
  Api,
  "sandboxes",
  Effect.fn(function*(handlers) {
    const sandboxes = yield* Sandboxes
    const { cursorKey, publicUrl } = yield* Settings

    const shown = (sandbox: SandboxSummary) => encoded(toResource(sandbox, publicUrl))

    const accepted = ({ replayed, sandbox }: { readonly sandbox: Sandbox; readonly replayed: boolean }) => {
      const resource = shown(sandbox)
      const location = resource.links.self
      return replayed
        ? answer(resource, 200, { location, "idempotent-replayed": "true" })
        : answer(resource, 201, { location })
    }

    return handlers.handleAll({
      createSandbox: Effect.fnUntraced(
        function*({ headers, payload }) {
          return accepted(yield* sandboxes.create(yield* CurrentPrincipal, payload, keyOf(headers)))
        },
        Effect.catchTags({
          SourceUnreadable: unreadable,
          BudgetTooLarge: ({ message }) => Effect.succeed(respond(InvalidRequest.make(message)))
        })
      ),
      forkSandbox: Effect.fnUntraced(function*({ headers, params: { sandboxId }, payload }) {
        return accepted(yield* sandboxes.fork(yield* CurrentPrincipal, sandboxId, payload, keyOf(headers)))
      }),
      listSandboxes: Effect.fnUntraced(function*({ query: { after, limit = MAX_LIMIT, repo = null, status = null } }) {
        const by = yield* CurrentPrincipal
        const position = after === undefined ? Option.none() : ListCursor.decode(cursorKey, by.grantId, after)
        if (after !== undefined && Option.isNone(position)) return yield* InvalidCursor.make("after: not a cursor of this list")
        const { more, page } = yield* nextPage(
          limit,
          bytesOf.summary,
          (last, limit) => sandboxes.summaries(by, { after: last ?? Option.getOrNull(position), limit, repo, status })
        )
        return answer(
          {
            data: page.map(shown),
            nextCursor: more === null ? null : ListCursor.encode(cursorKey, by.grantId, more)
          } satisfies typeof SandboxPage.Encoded
        )
      }),
      getSandbox: Effect.fnUntraced(function*({ params: { sandboxId } }) {
        return answer(shown(yield* sandboxes.get(yield* CurrentPrincipal, sandboxId)))
      }),
      getSetup: Effect.fnUntraced(function*({ params: { sandboxId } }) {
        return yield* sandboxes.setup(yield* CurrentPrincipal, sandboxId)
      }),
      terminateSandbox: Effect.fnUntraced(function*({ params: { sandboxId } }) {
        return yield* sandboxes.terminate(yield* CurrentPrincipal, sandboxId)
      }),
      interruptTurn: Effect.fnUntraced(function*({ params: { sandboxId } }) {
        return yield* sandboxes.interrupt(yield* CurrentPrincipal, sandboxId)
      }),
      syncSandbox: Effect.fnUntraced(function*({ params: { sandboxId } }) {
        return yield* sandboxes.sync(yield* CurrentPrincipal, sandboxId)
      }),
      restoreCheckpoint: Effect.fnUntraced(function*({ params: { sandboxId }, payload: { checkpoint } }) {
        return yield* sandboxes.restore(yield* CurrentPrincipal, sandboxId, checkpoint)
      }),
      decideApproval: Effect.fnUntraced(function*({ params: { approvalId, sandboxId }, payload }) {
        return yield* sandboxes.decideApproval(yield* CurrentPrincipal, sandboxId, approvalId, payload)
      }),
      answerQuestion: Effect.fnUntraced(function*({ params: { questionId, sandboxId }, payload }) {
        return yield* sandboxes.answerQuestion(yield* CurrentPrincipal, sandboxId, questionId, payload)
      })
    })
  })
)
