/** Grants, keys, the partner feed and webhooks as promises. Each is there if its stores are. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { AccessStore } from "../access/ports/AccessStore.ts"
import { MemberStore } from "../access/ports/MemberStore.ts"
import { Scope } from "../access/schema/Principal.ts"
import { Access } from "../access/usecases/Access.ts"
import type { Ids } from "../ids/Ids.ts"
import { PartnerStore } from "../partner/ports/PartnerStore.ts"
import { WebhookSender } from "../partner/ports/WebhookSender.ts"
import { WebhookStore } from "../partner/ports/WebhookStore.ts"
import { WantedTypes } from "../partner/rules/Webhook.ts"
import { AnyUuid, Claimant, ClaimTerms, Invoice, Project } from "../partner/schema/Attribution.ts"
import { Partners } from "../partner/usecases/Partners.ts"
import { Webhooks } from "../partner/usecases/Webhooks.ts"
import type { Hints } from "../store/Hints.ts"
import { Counter, text } from "../text/Text.ts"
import { type Caller, principalOf } from "./Caller.ts"
import { type Argument, argument, type Arguments, promised, type Promised, type Run } from "./Promised.ts"

const by: Argument<ReturnType<typeof principalOf>, Caller> = (given) => Result.succeed(principalOf(given))
const Name = text(1, 200)
const AtLeastOne = Counter.check(Schema.isGreaterThanOrEqualTo(1))
const RateLimits = Schema.Struct({ credential: AtLeastOne, user: AtLeastOne, grant: AtLeastOne })
const NewKey = Schema.Struct({
  grant: Name,
  label: text(0, 200),
  scopes: Schema.Array(Scope),
  kind: Schema.Literals(["live", "test"]),
  userId: Schema.optional(Name),
  /** Such as `90 days`. */
  life: Schema.optional(Schema.NullOr(Schema.DurationFromString))
})
const NewEndpoint = Schema.Struct({
  url: text(1, 2000),
  types: Schema.NullOr(WantedTypes).pipe(Schema.withDecodingDefaultKey(Effect.succeed(null)))
})

const ACCESS = {
  admit: [argument("key", Schema.RedactedFromValue(text(0, 1000))), argument("limits", RateLimits)],
  createGrant: [argument("name", Name), argument("organizationId", Schema.UndefinedOr(AnyUuid))],
  createKey: [argument("request", NewKey)],
  revokeGrant: [argument("idOrName", Name)],
  revokeKey: [argument("id", Name)]
} as const satisfies Arguments<Access["Service"]>

const ACCESS_STORE = {
  listGrants: [],
  listKeys: [argument("grantId", Schema.NullOr(Name))]
} as const satisfies Arguments<AccessStore["Service"]>

const PARTNERS = {
  feed: [by, argument("page", Schema.Struct({ after: Counter, limit: AtLeastOne }))]
} as const satisfies Arguments<Partners["Service"]>

const PARTNER_STORE = {
  createClaim: [argument("terms", ClaimTerms)],
  claim: [argument("claimId", AnyUuid), argument("claimant", Claimant)],
  connectProject: [argument("project", Project)],
  payInvoice: [argument("invoice", Invoice)],
  claims: [argument("grantId", Schema.NullOr(AnyUuid))],
  credits: [argument("organizationId", AnyUuid)]
} as const satisfies Arguments<PartnerStore["Service"]>

const grantId = argument("grantId", AnyUuid)
// The use case reports an invalid id as not found.
const id = argument("id", Schema.String)

const WEBHOOKS = {
  register: [grantId, argument("endpoint", NewEndpoint)],
  list: [grantId],
  find: [grantId, id],
  remove: [grantId, id],
  rotateSecret: [grantId, id],
  enable: [grantId, id],
  deliveries: [grantId, id, argument("page", Schema.Struct({ before: Schema.NullOr(Counter), limit: AtLeastOne }))],
  redeliver: [grantId, id, argument("eventId", Schema.String)]
} as const satisfies Arguments<Webhooks["Service"]>

/** Authentication by key, and an operator's changes of grants and keys: the methods of `Access`, and the lists of `AccessStore`. */
export type PromisedAccess = Promised<Access["Service"], typeof ACCESS> & Promised<AccessStore["Service"], typeof ACCESS_STORE>

/** The partner feed: `Partners`, and the facts and credits of `PartnerStore`. */
export type PromisedPartners = Promised<Partners["Service"], typeof PARTNERS> & Promised<PartnerStore["Service"], typeof PARTNER_STORE>

/** The webhook endpoints of a grant: the methods of `Webhooks`. */
export type PromisedWebhooks = Promised<Webhooks["Service"], typeof WEBHOOKS>

type AccessPorts = AccessStore | MemberStore
type WebhookPorts = WebhookStore | WebhookSender

/** The parts of the promise form that need more stores than `SandboxStore`. Those whose stores are missing are left out. */
export type Administration<Stores> =
  & ([AccessPorts] extends [Stores] ? { readonly access: PromisedAccess } : unknown)
  & ([PartnerStore] extends [Stores] ? { readonly partners: PromisedPartners } : unknown)
  & ([WebhookPorts] extends [Stores] ? { readonly webhooks: PromisedWebhooks } : unknown)

/** The use cases, if the ports that they need are there. */
const ifThere = <A, R>(useCases: Layer.Layer<A, never, R | Hints | Ids>, needs: ReadonlyArray<Context.Key<R, object>>) =>
  Layer.unwrap(
    Effect.map(
      Effect.context<Hints | Ids>(),
      (there) =>
        needs.every((port) => Option.isSome(Context.getOption(there, port)))
          ? useCases as Layer.Layer<A, never, Hints | Ids>
          : Layer.empty
    )
  )

/** The use cases whose ports are there. */
export const layer = Layer.mergeAll(
  ifThere<Access, AccessPorts>(Access.layer, [AccessStore, MemberStore]),
  ifThere<Partners, PartnerStore>(Partners.layer, [PartnerStore]),
  ifThere<Webhooks, WebhookPorts>(Webhooks.layer, [WebhookStore, WebhookSender])
)

/** The promise form of the use cases that are there. */
export const administration = <Stores>(there: Context.Context<never>, run: Run) => {
  const access = Context.getOrUndefined(there, Access)
  const partners = Context.getOrUndefined(there, Partners)
  const webhooks = Context.getOrUndefined(there, Webhooks)
  const of = <A, S>(key: Context.Key<A, S>) => Context.get(there as Context.Context<A>, key)
  return {
    ...(access && { access: { ...promised(access, ACCESS, run), ...promised(of(AccessStore), ACCESS_STORE, run) } }),
    ...(partners && { partners: { ...promised(partners, PARTNERS, run), ...promised(of(PartnerStore), PARTNER_STORE, run) } }),
    ...(webhooks && { webhooks: promised(webhooks, WEBHOOKS, run) })
  } as Administration<Stores>
}
