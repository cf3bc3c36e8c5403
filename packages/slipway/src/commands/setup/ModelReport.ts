/** The models as the running workers report them, otherwise as a service would find them on this machine. */
import { ModelProviderStore } from "@slipway/domain/models/ports/ModelProviderStore"
import type { AgentIsolation, Model, Offer } from "@slipway/domain/models/schema/ModelCatalogue"
import type { ModelProvider } from "@slipway/domain/models/schema/ModelProvider"
import * as WorkerOffers from "@slipway/postgres/workers/WorkerOffers"
import { Effect, Option, Schema } from "effect"
import * as Isolation from "../../service/machine/Isolation.ts"
import * as Models from "../../service/Models.ts"
import * as RunningServices from "../../service/RunningServices.ts"
import type { Settings } from "../../settings/Settings.ts"
import { stores } from "../admin/Administration.ts"
import * as Server from "../client/server/Server.ts"

/** A model, and every obstacle to its use. */
export interface Reported {
  readonly id: string
  /** `null`: only the service knows it. */
  readonly model: Model | null
  readonly isDefault: boolean
  readonly problems: ReadonlyArray<string>
}

/** The obstacles in one line. Some end with a command, without a full stop. */
export const sentences = (problems: ReadonlyArray<string>): string => problems.map((text) => text.replace(/\.?$/u, ".")).join(" ")

/** The state of a model in one line. `usable`: the words for one without obstacles. */
export const stateOf = ({ isDefault, problems }: Pick<Reported, "isDefault" | "problems">, usable = "usable"): string =>
  problems.length === 0 ? `${usable}${isDefault ? ", the default" : ""}` : `${isDefault ? "The default. " : ""}${sentences(problems)}`

interface Report {
  /** Whether a running service reported it. */
  readonly isRunning: boolean
  readonly models: ReadonlyArray<Reported>
}

/** The reply of the internal API. A newer server may add fields. */
const Listed = Schema.Struct({
  data: Schema.Array(
    Schema.Struct({ id: Schema.String, default: Schema.Boolean, problems: Schema.Array(Schema.String) })
  ),
  isolation: Schema.NullOr(Schema.String)
})

/** The report of the service at an address, over its API. The key needs the scope `models`. */
export const ask = Effect.fn("ModelReport.ask")(function*(url: string) {
  const { data, isolation } = yield* Server.send(url, Listed, "/api/internal/v1/models")
  const models = data.map(({ default: isDefault, id, problems }): Reported => ({ id, model: null, isDefault, problems }))
  return { isRunning: true, models, isolation, url } as const
})

/** The stored providers and the reports of the running workers. */
const stored = Effect.gen(function*() {
  const store = yield* ModelProviderStore
  const offers = yield* WorkerOffers.make
  return { providers: yield* store.list, offers: yield* offers.current }
})

const ofWorkers = (offers: ReadonlyArray<Offer>, id: string): ReadonlyArray<string> => {
  if (offers.some(({ usable }) => usable.includes(id))) return []
  const known = offers.flatMap(({ unusable }) => unusable).find((model) => model.id === id)
  return known === undefined ? ["No worker offers it."] : known.problems ?? [known.reason]
}

/** The isolation of a running worker, of those that may run agents if there are any. `null`: no worker reports it. */
export const isolation = Effect.map(stored, ({ offers }): AgentIsolation | null => {
  const reported = offers.flatMap(({ isolation = null }) => isolation ?? [])
  return reported.find(({ problem }) => problem === null) ?? reported[0] ?? null
})

/** The report of the running workers with these stored providers. `here`: judges the models on this machine if there is no worker. */
const reportOf = Effect.fnUntraced(function*(
  settings: Settings,
  { offers, providers }: { readonly offers: ReadonlyArray<Offer>; readonly providers: ReadonlyArray<ModelProvider> },
  hostProblem: Effect.Effect<string | null>
) {
  if (offers.length === 0) {
    const { checked, file } = yield* Models.load(settings, yield* hostProblem, providers)
    const models = checked.map(({ model, problems }): Reported => ({ id: model.id, model, problems, isDefault: model.id === file.default }))
    return { isRunning: false, models } satisfies Report
  }
  const { checked, file } = yield* Models.load(settings, null, providers)
  const ids = new Set([
    ...checked.map(({ model }) => model.id),
    ...offers.flatMap(({ unusable, usable }) => [...usable, ...unusable.map(({ id }) => id)])
  ])
  const models = Array.from(ids, (id): Reported => ({
    id,
    model: checked.find(({ model }) => model.id === id)?.model ?? null,
    problems: ofWorkers(offers, id),
    isDefault: id === file.default
  }))
  return { isRunning: true, models } satisfies Report
})

/** The report, with the stores of the service in the context. */
export const read = (settings: Settings, hostProblem: Effect.Effect<string | null>) =>
  Effect.flatMap(stored, (found) => reportOf(settings, found, hostProblem))

/** The same for a command that works without a service too. */
export const find = Effect.fn("ModelReport.find")(function*(given: Settings) {
  // A file that cannot be used is said at once: the database may take its time.
  yield* Models.find(given)
  const { settings, tried } = yield* RunningServices.findToTry(given)
  const hostProblem = Effect.scoped(Effect.map(Isolation.choose({ ...tried, role: "all" }), ({ problem }) => problem))
  const service = yield* Effect.option(RunningServices.find(given))
  if (Option.isNone(service)) return yield* reportOf(settings, { offers: [], providers: [] }, hostProblem)
  return yield* Effect.provide(read(settings, hostProblem), stores(service.value))
}, Effect.scoped)
