/** Use cases of automations: managing them, and starting their runs. */
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { AccessStore } from "../../access/ports/AccessStore.ts"
import { MemberStore } from "../../access/ports/MemberStore.ts"
import type { Principal } from "../../access/schema/Principal.ts"
import { Ids } from "../../ids/Ids.ts"
import {
  type ApprovalsUnsupported,
  type Catalogue,
  choose,
  type InvalidModel,
  type InvalidReasoningEffort,
  ModelCatalogue
} from "../../models/schema/ModelCatalogue.ts"
import { mintSecret, signing } from "../../partner/rules/Webhook.ts"
import { AnyUuid } from "../../partner/schema/Attribution.ts"
import { Sandboxes } from "../../sandbox/usecases/Sandboxes.ts"
import { FollowedRepositories } from "../../source/ports/FollowedRepositories.ts"
import type { NewsListener } from "../../source/ports/NewsListeners.ts"
import { type RepoNotAccessible, SourceHost } from "../../source/ports/SourceHost.ts"
import type { RepoName } from "../../source/schema/RepoRef.ts"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import { InvalidRequest } from "../../text/InvalidRequest.ts"
import {
  AutomationNotFound,
  type AutomationPaused,
  AutomationStore,
  type Begun,
  type TooManyAutomations,
  type TooManyRuns
} from "../ports/AutomationStore.ts"
import { type SignedRequest, WebhookSignatures } from "../ports/WebhookSignatures.ts"
import type { Automation, Run } from "../rules/Automation.ts"
import { factsOfNews, factsOfWebhook, isFor, isTimely, mayStart } from "../rules/Event.ts"
import { type Facts, requestOf } from "../rules/Prompt.ts"
import type { AutomationSettings } from "../schema/Automation.ts"
import { startRun, type Starting } from "./StartRun.ts"

/** The request is not the sender's, too old, or for no automation. Sending it again does not help. */
export class NotSigned extends Schema.TaggedError<NotSigned>()("NotSigned", {}) {
  override get message() {
    return "The signature is not the automation's, or the request is older than 5 minutes."
  }
}

/** An automation, and the secret of its webhook. This is the only time that the secret can be read. */
export interface WithSecret {
  readonly automation: Automation
  /** `null`: it has no webhook. */
  readonly secret: Redacted.Redacted | null
}

/** A page of an automation's log, newest first. */
export interface RunPage {
  readonly runs: ReadonlyArray<Run>
  /** The `before` of the next page; `null`: this is the last page. */
  readonly nextCursor: number | null
}

/** Why settings are refused that are well-formed. */
export type SettingsRefused = ApprovalsUnsupported | InvalidModel | InvalidReasoningEffort | InvalidRequest | RepoNotAccessible

/** Automations that one event may start (our choice). */
const MAX_STARTED = 1000

/** Boots of one look whose end counts. The rest is left to the next look. */
const MAX_BOOTS = 200

const decodeId = Schema.decodeUnknownEffect(AnyUuid)

/** A text that is not a UUID identifies no automation. */
const keyOf = (grantId: string, id: string) =>
  Effect.mapBoth(decodeId(id), { onSuccess: (id) => ({ grantId, id }), onFailure: () => new AutomationNotFound() })

const parseJson = Result.try

/** The repositories whose news the automation needs. */
const listensTo = ({ repos, trigger }: AutomationSettings): ReadonlyArray<RepoName> =>
  trigger.type === "mention" || trigger.type === "label" ? repos.map(({ fullName }) => fullName) : []

const reasonOf = (id: string) => `automation:${id}`

/**
 * The automations of a grant. Automations of other grants and invalid ids are not found; ids ignore case. The caller has authorized the
 * request and set `Acting`.
 */
export class Automations extends Context.Service<Automations, {
  create(by: Principal, settings: AutomationSettings): Effect.Effect<WithSecret, SettingsRefused | TooManyAutomations | StoreUnavailable>
  /** Oldest first. */
  list(grantId: string): Effect.Effect<ReadonlyArray<Automation>, StoreUnavailable>
  find(grantId: string, id: string): Effect.Effect<Automation, AutomationNotFound | StoreUnavailable>
  /** Replaces the settings. The kind of the trigger cannot change. */
  change(by: Principal, id: string, settings: AutomationSettings): Effect.Effect<
    Automation,
    AutomationNotFound | SettingsRefused | StoreUnavailable
  >
  remove(grantId: string, id: string): Effect.Effect<void, AutomationNotFound | StoreUnavailable>
  /** Replaces the secret of a webhook. The secret before it is valid for 24 more hours. */
  rotateSecret(grantId: string, id: string): Effect.Effect<WithSecret, AutomationNotFound | InvalidRequest | StoreUnavailable>
  enable(grantId: string, id: string): Effect.Effect<Automation, AutomationNotFound | StoreUnavailable>
  pause(grantId: string, id: string): Effect.Effect<Automation, AutomationNotFound | StoreUnavailable>
  runs(
    grantId: string,
    id: string,
    page: { readonly before: number | null; readonly limit: number }
  ): Effect.Effect<RunPage, AutomationNotFound | StoreUnavailable>
  /** Starts a run now, also of a paused automation, within its limits. Placeholders of events are empty. */
  runNow(grantId: string, id: string): Effect.Effect<Run, AutomationNotFound | AutomationPaused | TooManyRuns | StoreUnavailable>
  /** Starts the run of a signed request; a repeated request gets the run that it had. The body is JSON. */
  trigger(id: string, request: SignedRequest): Effect.Effect<
    Run,
    AutomationPaused | InvalidRequest | NotSigned | TooManyRuns | StoreUnavailable
  >
  /** Starts the runs of a comment or label, if its author may write to the repository. Safe to repeat. */
  readonly onNews: NewsListener
  /** Starts up to `limit` runs of schedules that are due, and of processes that died. Returns how many it tried. */
  work(limit: number): Effect.Effect<number, StoreUnavailable>
}>()("@slipway/domain/Automations") {
  /** Without `SourceHost` any repository is accepted, and there are no news; without `WebhookSignatures` there are no webhooks. */
  static readonly layer = Layer.effect(
    Automations,
    Effect.gen(function*() {
      const ports: Ports = {
        store: yield* AutomationStore,
        ids: yield* Ids,
        catalogue: yield* ModelCatalogue,
        source: yield* Effect.serviceOption(SourceHost),
        signatures: yield* Effect.serviceOption(WebhookSignatures),
        followed: yield* Effect.serviceOption(FollowedRepositories),
        sandboxes: yield* Sandboxes,
        access: yield* AccessStore,
        members: yield* MemberStore
      }
      return Automations.of({ ...managing(ports), ...starting(ports) })
    })
  )
}

interface Ports extends Starting {
  readonly ids: Ids["Service"]
  readonly catalogue: Catalogue
  readonly source: Option.Option<SourceHost["Service"]>
  readonly signatures: Option.Option<WebhookSignatures["Service"]>
  readonly followed: Option.Option<FollowedRepositories["Service"]>
}

/** Refuses settings that the service cannot run. */
const checking = ({ catalogue, signatures, source }: Ports) =>
  Effect.fnUntraced(function*({ test }: { readonly test: boolean }, settings: AutomationSettings) {
    yield* Effect.fromResult(choose(catalogue, {
      model: settings.model,
      reasoningEffort: settings.reasoningEffort,
      toolApprovalMode: settings.toolApprovalMode,
      offlineOnly: test
    }))
    const refused = Option.isNone(source) ? null : yield* source.value.refusal(settings.repos.map(({ fullName }) => fullName))
    if (refused !== null) return yield* refused
    if (settings.trigger.type === "webhook" && Option.isNone(signatures)) {
      return yield* new InvalidRequest({ field: "trigger.type", reason: "this service takes no webhooks" })
    }
  })

/** Keeps the repositories followed whose news an automation needs. */
const following = ({ followed }: Ports) => {
  /** Follows the repositories before the store has the automation, so that none is missed when the process dies in between. */
  const follow = Effect.fnUntraced(function*(id: string, settings: AutomationSettings) {
    if (Option.isNone(followed)) return
    const now = yield* DateTime.now
    for (const repo of listensTo(settings)) yield* followed.value.follow(repo, reasonOf(id), now)
  })
  const unfollow = Effect.fnUntraced(function*(id: string, repos: ReadonlyArray<RepoName>) {
    if (Option.isNone(followed)) return
    for (const repo of repos) yield* followed.value.unfollow(repo, reasonOf(id))
  })
  return { follow, unfollow }
}

type Managing = "change" | "create" | "enable" | "find" | "list" | "pause" | "remove" | "rotateSecret" | "runs"

const managing = (ports: Ports): Pick<Automations["Service"], Managing> => {
  const { ids, store } = ports
  const check = checking(ports)
  const { follow, unfollow } = following(ports)
  return {
    create: Effect.fn("Automations.create")(function*(by, settings) {
      yield* check(by, settings)
      const secret = settings.trigger.type === "webhook" ? yield* mintSecret(ids) : null
      const id = yield* ids.uuid7
      yield* follow(id, settings)
      const automation = yield* store.create({
        id,
        grantId: by.grantId,
        createdBy: by.userId,
        test: by.test,
        createdAt: yield* DateTime.now,
        settings
      }, secret).pipe(Effect.tapErrorTag("TooManyAutomations", () => unfollow(id, listensTo(settings))))
      return { automation, secret }
    }),
    list: (grantId) => store.list(grantId),
    find: (grantId, id) => Effect.flatMap(keyOf(grantId, id), store.find),
    change: Effect.fn("Automations.change")(function*(by, id, settings) {
      const key = yield* keyOf(by.grantId, id)
      const automation = yield* store.find(key)
      if (automation.settings.trigger.type !== settings.trigger.type) {
        return yield* new InvalidRequest({
          field: "trigger.type",
          reason: "the type of a trigger cannot change: make another automation"
        })
      }
      yield* check(automation, settings)
      yield* follow(key.id, settings)
      const changed = yield* store.change(key, settings, yield* DateTime.now)
      const kept = new Set(listensTo(settings).map((repo) => repo.toLowerCase()))
      yield* unfollow(key.id, listensTo(automation.settings).filter((repo) => !kept.has(repo.toLowerCase())))
      return changed
    }),
    remove: Effect.fn("Automations.remove")(function*(grantId, id) {
      const key = yield* keyOf(grantId, id)
      const { settings } = yield* store.find(key)
      yield* store.remove(key, yield* DateTime.now)
      yield* unfollow(key.id, listensTo(settings))
    }),
    rotateSecret: Effect.fn("Automations.rotateSecret")(function*(grantId, id) {
      const key = yield* keyOf(grantId, id)
      const { settings } = yield* store.find(key)
      if (settings.trigger.type !== "webhook") return yield* new InvalidRequest({ field: "trigger.type", reason: "it has no webhook" })
      const secret = yield* mintSecret(ids)
      return { automation: yield* store.rotate(key, secret, yield* DateTime.now), secret }
    }),
    enable: Effect.fn("Automations.enable")(function*(grantId, id) {
      return yield* store.enable(yield* keyOf(grantId, id), yield* DateTime.now)
    }),
    pause: Effect.fn("Automations.pause")(function*(grantId, id) {
      return yield* store.pause(yield* keyOf(grantId, id), yield* DateTime.now)
    }),
    runs: Effect.fn("Automations.runs")(function*(grantId, id, { before, limit }) {
      const found = yield* store.runs(yield* keyOf(grantId, id), { before, limit: limit + 1 })
      const runs = found.slice(0, limit)
      return { runs, nextCursor: found.length > limit ? runs.at(-1)?.position ?? null : null }
    })
  }
}

const starting = (ports: Ports): Omit<Automations["Service"], Managing> => {
  const { ids, signatures, source, store } = ports
  const begin = Effect.fnUntraced(function*({ grantId, id, settings }: Automation, facts: Facts, force: boolean) {
    const request = requestOf(id, settings, facts, DateTime.formatIso(facts.at))
    return yield* store.begin({ grantId, id }, { triggerId: facts.triggerId, at: facts.at, request }, force)
  })
  /** A run whose outcome cannot be recorded now is left to the workers. */
  const start = ({ run, taken }: Begun): Effect.Effect<Run> =>
    taken === null ? Effect.succeed(run) : startRun(ports, taken).pipe(
      Effect.map((outcome) => ({ ...run, outcome })),
      Effect.catch((error) =>
        Effect.as(Effect.logWarning("a run of an automation waits for another attempt", { reason: error.message }), run)
      )
    )
  return {
    runNow: Effect.fn("Automations.runNow")(function*(grantId, id) {
      const automation = yield* store.find(yield* keyOf(grantId, id))
      const facts = { triggerId: `manual/${yield* ids.uuid7}`, at: yield* DateTime.now, repo: null, values: {}, payload: null }
      return yield* start(yield* begin(automation, facts, true))
    }),
    trigger: Effect.fn("Automations.trigger")(
      function*(id, request) {
        const now = yield* DateTime.now
        const known = yield* store.secretsOf(yield* decodeId(id))
        if (!isTimely(request, now)) return yield* new NotSigned()
        const isSigned = Option.isSome(signatures) &&
          signing(known.secrets, now).some(({ value }) => signatures.value.matches(request, value))
        if (!isSigned) return yield* new NotSigned()
        const payload = parseJson((): unknown => JSON.parse(request.body))
        if (Result.isFailure(payload)) return yield* new InvalidRequest({ field: "body", reason: "JSON expected" })
        return yield* start(yield* begin(known.automation, factsOfWebhook(request, payload.success, now), false))
      },
      Effect.catchTags({ AutomationNotFound: () => new NotSigned(), SchemaError: () => new NotSigned() })
    ),
    onNews: Effect.fn("Automations.onNews")(function*(news) {
      if (!mayStart(news)) return
      const found = (yield* store.following(news.repo, MAX_STARTED)).filter((automation) => isFor(automation, news))
      if (found.length === 0 || Option.isNone(source) || !(yield* source.value.mayWrite(news.repo, news.author))) return
      const facts = factsOfNews(news, yield* DateTime.now)
      for (const automation of found) {
        yield* Effect.catchTags(Effect.flatMap(begin(automation, facts, false), start), {
          // Deleted, paused or at its limits meanwhile.
          AutomationNotFound: () => Effect.void,
          AutomationPaused: () => Effect.void,
          TooManyRuns: () => Effect.void
        })
      }
    }),
    work: Effect.fn("Automations.work")(function*(limit) {
      yield* store.endBoots(yield* DateTime.now, MAX_BOOTS)
      const due = (yield* store.beginDue(yield* DateTime.now, limit)).flatMap(({ taken }) => taken ?? [])
      const left = limit - due.length
      const found = [...due, ...(left > 0 ? yield* store.take(left) : [])]
      for (const taken of found) {
        yield* Effect.catchCause(
          startRun(ports, taken),
          (cause) =>
            Effect.logWarning("a run of an automation waits for another attempt", cause).pipe(
              Effect.annotateLogs({ automationId: taken.automation.id, runId: taken.id })
            )
        )
      }
      return found.length
    })
  }
}
