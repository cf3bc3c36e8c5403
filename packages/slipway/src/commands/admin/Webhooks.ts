/** `slipway webhooks`: the endpoints that get the events of grants' feeds and sandboxes. */
import { type Attempt, EndpointNotFound } from "@slipway/domain/partner/ports/WebhookStore"
import { type Endpoint, EVENT_TYPES, isDelivered, WantedTypes } from "@slipway/domain/partner/rules/Webhook"
import { AnyUuid } from "@slipway/domain/partner/schema/Attribution"
import { NOTIFICATION_TYPES } from "@slipway/domain/partner/schema/NotificationType"
import { Webhooks, type WithSecret } from "@slipway/domain/partner/usecases/Webhooks"
import { DateTime, Effect, Option, Redacted, Schema, SchemaTransformation } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import { webhooks as settings } from "../../settings/Publishing.ts"
import { columns, json, print } from "../terminal/Output.ts"
import { administration } from "./Administration.ts"
import { grantOf } from "./Partners.ts"

const grant = Flag.String("grant").pipe(Flag.withDescription("Grant id or name"))
const endpoint = Argument.String("endpoint").pipe(Argument.withDescription("Endpoint id from: slipway webhooks list"))

/** Types as `a,b`. */
const Types = Schema.String.pipe(
  Schema.decodeTo(
    Schema.Array(Schema.String),
    SchemaTransformation.transform({
      decode: (list: string): ReadonlyArray<string> => list.split(","),
      encode: (types: ReadonlyArray<string>) => types.join(",")
    })
  ),
  Schema.decodeTo(WantedTypes)
)

const shown = ({ createdAt, cursor, disabled, dueAt, failures, id, refusingSince, types, url }: Endpoint) => ({
  id,
  url,
  types,
  state: disabled === null ? "enabled" : "disabled",
  disabledReason: disabled?.reason ?? null,
  disabledAt: disabled === null ? null : DateTime.formatIso(disabled.at),
  createdAt: DateTime.formatIso(createdAt),
  lastSequence: cursor,
  failedAttempts: failures,
  refusingSince: refusingSince === null ? null : DateTime.formatIso(refusingSince),
  nextAttemptAt: disabled === null && failures > 0 ? DateTime.formatIso(dueAt) : null
})
const stateOf = ({ disabledReason, failedAttempts, nextAttemptAt, refusingSince, state }: ReturnType<typeof shown>) =>
  disabledReason !== null
    ? `${state}: ${disabledReason}`
    : nextAttemptAt === null
    ? refusingSince === null ? state : `accepts nothing since ${refusingSince}`
    : `${failedAttempts} failed, again ${nextAttemptAt}`

const described = (one: ReturnType<typeof shown>) =>
  columns([
    ["ID", one.id],
    ["URL", one.url],
    ["TYPES", one.types?.join(",") ?? "all"],
    ["STATE", stateOf(one)],
    ["DELIVERED", `up to ${one.lastSequence}`],
    ["CREATED", one.createdAt]
  ])

const entry = ({ at, attempt, durationMillis, eventId, manual, notification, outcome, sequence }: Attempt) => ({
  eventId,
  sequence,
  sandboxId: notification?.sandboxId ?? null,
  type: notification?.type ?? null,
  attempt,
  manual,
  at: DateTime.formatIso(at),
  durationMs: durationMillis,
  delivered: isDelivered(outcome),
  status: outcome._tag === "Answered" ? outcome.status : null,
  error: outcome._tag === "Failed" ? outcome.trouble : null,
  response: outcome._tag === "Answered" ? outcome.body : null
})

const withSecret = ({ endpoint, secret }: WithSecret) => ({ ...shown(endpoint), secret: Redacted.value(secret) })

/** Any other text identifies no endpoint. */
const idOf = (text: string) => Effect.mapError(Schema.decodeEffect(AnyUuid)(text), () => new EndpointNotFound())

/** Makes a command that works on one endpoint of a grant. */
const onEndpoint =
  <A, E>(use: (webhooks: Webhooks["Service"], grantId: string, id: string) => Effect.Effect<A, E>) =>
  (input: { readonly endpoint: string; readonly grant: string }) =>
    Effect.gen(function*() {
      const webhooks = yield* Webhooks
      const { id: grantId } = yield* grantOf(input.grant)
      return yield* use(webhooks, grantId, yield* idOf(input.endpoint))
    })

const add = Command.make("add", {
  url: Argument.String("url").pipe(
    Argument.withDescription(`Where to send events: https, public unless ${settings.webhookPrivate.name} is true`)
  ),
  grant,
  types: Flag.String("types").pipe(
    Flag.withDescription(`Only these types of the feed: ${EVENT_TYPES.join(",")}; or of sandboxes: ${NOTIFICATION_TYPES.join(",")}`),
    Flag.withSchema(Types),
    Flag.optional
  ),
  json
}, ({ grant: idOrName, json, types, url }) =>
  administration(Effect.gen(function*() {
    const webhooks = yield* Webhooks
    const { id, name } = yield* grantOf(idOrName)
    const registered = yield* webhooks.register(id, { url, types: Option.getOrNull(types) })
    const told = `Endpoint ${registered.endpoint.id} of grant ${name} gets events from now on.`
    yield* print(json, withSecret(registered), () =>
      `${Redacted.value(registered.secret)}\n\n${told} The secret is shown only now: keep it safe.`)
  }))).pipe(
    Command.withDescription("Register an endpoint. Its secret is shown once."),
    Command.withExamples([
      {
        command: "slipway webhooks add https://hooks.example.com/slipway --grant acme",
        description: "Every event of the grant's feed from now on"
      },
      {
        command: "slipway webhooks add https://hooks.example.com/paid --grant acme --types conversion.paid --json",
        description: "One type, for a script"
      },
      {
        command: "slipway webhooks add https://hooks.example.com/sandboxes --grant acme --types approval.requested,sandbox.ended",
        description: "What happens to the grant's sandboxes"
      }
    ])
  )

const list = Command.make("list", { grant, json }, ({ grant: idOrName, json }) =>
  administration(Effect.gen(function*() {
    const webhooks = yield* Webhooks
    const endpoints = (yield* webhooks.list((yield* grantOf(idOrName)).id)).map(shown)
    yield* print(json, endpoints, () =>
      endpoints.length === 0 ? "No endpoints. Register one with: slipway webhooks add" : columns([
        ["ID", "DELIVERED", "STATE", "TYPES", "URL"],
        ...endpoints.map((one) => [one.id, `up to ${one.lastSequence}`, stateOf(one), one.types?.join(",") ?? "all", one.url])
      ]))
  }))).pipe(
    Command.withDescription("List the endpoints of a grant, oldest first"),
    Command.withExamples([{ command: "slipway webhooks list --grant acme", description: "How far each is, and whether it is disabled" }])
  )

const show = Command.make("show", { endpoint, grant, json }, ({ json, ...which }) =>
  administration(Effect.gen(function*() {
    const found = shown(yield* onEndpoint((webhooks, grantId, id) => webhooks.find(grantId, id))(which))
    yield* print(json, found, () => described(found))
  }))).pipe(
    Command.withDescription("Show an endpoint"),
    Command.withExamples([{ command: "slipway webhooks show <endpoint> --grant acme --json", description: "For a script" }])
  )

const remove = Command.make("remove", { endpoint, grant, json }, ({ json, ...which }) =>
  administration(Effect.gen(function*() {
    yield* onEndpoint((webhooks, grantId, id) => webhooks.remove(grantId, id))(which)
    yield* print(json, { id: which.endpoint }, () => `Endpoint ${which.endpoint} is removed, with its log.`)
  }))).pipe(
    Command.withDescription("Remove an endpoint, with its log"),
    Command.withExamples([{ command: "slipway webhooks remove <endpoint> --grant acme", description: "Nothing more is sent there" }])
  )

const rotate = Command.make("rotate", { endpoint, grant, json }, ({ json, ...which }) =>
  administration(Effect.gen(function*() {
    const rotated = yield* onEndpoint((webhooks, grantId, id) => webhooks.rotateSecret(grantId, id))(which)
    yield* print(json, withSecret(rotated), () =>
      `${Redacted.value(rotated.secret)}\n\nThe previous secret also signs for 24 hours. The new secret is shown only now: keep it safe.`)
  }))).pipe(
    Command.withDescription("Replace the secret of an endpoint. The new one is shown once."),
    Command.withExamples([{
      command: "slipway webhooks rotate <endpoint> --grant acme",
      description: "Receivers have 24 hours to take it up"
    }])
  )

const enable = Command.make("enable", { endpoint, grant, json }, ({ json, ...which }) =>
  administration(Effect.gen(function*() {
    const enabled = yield* onEndpoint((webhooks, grantId, id) => webhooks.enable(grantId, id))(which)
    yield* print(json, shown(enabled), () => `Endpoint ${enabled.id} goes on after event ${enabled.cursor}.`)
  }))).pipe(
    Command.withDescription("Enable an endpoint, or retry now, from the first undelivered event"),
    Command.withExamples([{ command: "slipway webhooks enable <endpoint> --grant acme", description: "Once the receiver works again" }])
  )

const deliveries = Command.make("deliveries", {
  endpoint,
  grant,
  limit: Flag.Int("limit").pipe(
    Flag.withDescription("Number of newest attempts"),
    Flag.withSchema(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 100_000 }))),
    Flag.withDefault(100)
  ),
  json
}, ({ json, limit, ...which }) =>
  administration(Effect.gen(function*() {
    const page = yield* onEndpoint((webhooks, grantId, id) => webhooks.deliveries(grantId, id, { before: null, limit }))(which)
    const entries = page.deliveries.map(entry)
    yield* print(json, entries, () =>
      entries.length === 0 ? "Nothing was sent in the last 30 days." : columns([
        ["AT", "SANDBOX", "TYPE", "SEQUENCE", "EVENT", "ATTEMPT", "TOOK", "RESULT"],
        ...entries.map(({ at, attempt, durationMs, error, eventId, manual, sandboxId, sequence, status, type }) => [
          at,
          sandboxId ?? "",
          type ?? "",
          `${sequence}`,
          eventId,
          manual ? "manual" : `${attempt}`,
          `${durationMs} ms`,
          `${status ?? error}`
        ])
      ]))
  }))).pipe(
    Command.withDescription("Show attempts of the last 30 days, newest first"),
    Command.withExamples([{
      command: "slipway webhooks deliveries <endpoint> --grant acme --limit 20",
      description: "The last 20 attempts"
    }])
  )

const redeliver = Command.make("redeliver", {
  endpoint,
  event: Argument.String("event").pipe(
    Argument.withDescription("Event id from: slipway webhooks deliveries"),
    Argument.withSchema(AnyUuid)
  ),
  grant,
  json
}, ({ event, json, ...which }) =>
  administration(Effect.gen(function*() {
    yield* onEndpoint((webhooks, grantId, id) => webhooks.redeliver(grantId, id, event))(which)
    const look = `slipway webhooks deliveries ${which.endpoint} --grant ${which.grant}`
    yield* print(json, { eventId: event }, () => `Event ${event} is sent once more as soon as a worker runs. See: ${look}`)
  }))).pipe(
    Command.withDescription("Send one event again, out of order"),
    Command.withExamples([{
      command: "slipway webhooks redeliver <endpoint> <event> --grant acme",
      description: "Under the same webhook-id"
    }])
  )

export const webhooks = Command.make("webhooks").pipe(
  Command.withDescription("Webhooks: endpoints that receive the events of partner feeds and sandboxes"),
  Command.withSubcommands([add, list, show, remove, rotate, enable, deliveries, redeliver])
)
