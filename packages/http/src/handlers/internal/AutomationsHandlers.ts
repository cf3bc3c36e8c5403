/** Translates requests about automations into domain calls. */
import type { AutomationResource, RunResource } from "@slipway/api/groups/AutomationsApi"
import { InternalApi } from "@slipway/api/InternalApi"
import { CurrentPrincipal } from "@slipway/api/shared/Middleware"
import { MAX_LIMIT } from "@slipway/api/shared/Parameters"
import type { Automation, Run } from "@slipway/domain/automation/rules/Automation"
import { Automations, type WithSecret } from "@slipway/domain/automation/usecases/Automations"
import { Effect, Redacted } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { Settings } from "../../server/Settings.ts"
import { triggerUrl } from "../../server/TriggerUrl.ts"

const toResource =
  (publicUrl: string) => ({ createdAt, createdBy, dueAt, failures, id, paused, settings }: Automation): AutomationResource => ({
    id,
    ...settings,
    state: paused === null ? "enabled" : "paused",
    pausedReason: paused?.reason ?? null,
    pausedAt: paused?.at ?? null,
    failures,
    nextRunAt: paused === null ? dueAt : null,
    url: settings.trigger.type === "webhook" ? triggerUrl(publicUrl, id) : null,
    createdBy,
    createdAt
  })

/** A run as the API has it. */
export const toRun = ({ at, id, outcome, triggerId }: Run): RunResource => ({
  id,
  trigger: triggerId,
  at,
  outcome: outcome.type,
  sandboxId: outcome.type === "started" ? outcome.sandboxId : null,
  code: outcome.type === "refused" ? outcome.code : null,
  message: outcome.type === "refused" ? outcome.message : null,
  limit: outcome.type === "skipped" ? outcome.limit : null
})

export const layer = HttpApiBuilder.group(
  InternalApi,
  "automations",
  Effect.fn(function*(handlers) {
    const automations = yield* Automations
    const { publicUrl } = yield* Settings
    const shown = toResource(publicUrl)
    const withSecret = ({ automation, secret }: WithSecret) => ({
      ...shown(automation),
      secret: secret === null ? null : Redacted.value(secret)
    })
    const grant = Effect.map(CurrentPrincipal, ({ grantId }) => grantId)

    return handlers.handleAll({
      createAutomation: Effect.fnUntraced(function*({ payload }) {
        return withSecret(yield* automations.create(yield* CurrentPrincipal, payload))
      }),
      listAutomations: Effect.fnUntraced(function*() {
        return { data: (yield* automations.list(yield* grant)).map(shown) }
      }),
      getAutomation: Effect.fnUntraced(function*({ params: { automationId } }) {
        return shown(yield* automations.find(yield* grant, automationId))
      }),
      changeAutomation: Effect.fnUntraced(function*({ params: { automationId }, payload }) {
        return shown(yield* automations.change(yield* CurrentPrincipal, automationId, payload))
      }),
      deleteAutomation: Effect.fnUntraced(function*({ params: { automationId } }) {
        yield* automations.remove(yield* grant, automationId)
      }),
      rotateAutomationSecret: Effect.fnUntraced(function*({ params: { automationId } }) {
        return withSecret(yield* automations.rotateSecret(yield* grant, automationId))
      }),
      enableAutomation: Effect.fnUntraced(function*({ params: { automationId } }) {
        return shown(yield* automations.enable(yield* grant, automationId))
      }),
      pauseAutomation: Effect.fnUntraced(function*({ params: { automationId } }) {
        return shown(yield* automations.pause(yield* grant, automationId))
      }),
      runAutomation: Effect.fnUntraced(function*({ params: { automationId } }) {
        return toRun(yield* automations.runNow(yield* grant, automationId))
      }),
      listAutomationRuns: Effect.fnUntraced(function*({ params: { automationId }, query: { after = null, limit = MAX_LIMIT } }) {
        const { nextCursor, runs } = yield* automations.runs(yield* grant, automationId, { before: after, limit })
        return { data: runs.map(toRun), nextCursor: nextCursor === null ? null : String(nextCursor) }
      })
    })
  })
)
